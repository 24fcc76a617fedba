package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

const (
	stripeKey   = "sk_test_shop"
	sendgridKey = "SG.shop_secret"
	buyersHost  = "buyers.example" // of every receipt's address
)

// deployment is a database, a sandbox and whatever processes a test starts on them.
type deployment struct {
	t      *testing.T
	url    string // of the database, for the processes
	pool   *pgxpool.Pool
	box    *sandboxProcess
	token  string        // a caller's
	env    []string      // NAME=value; what processes that are started from now on get besides
	pooler outbox.Pooler // what url leads through; empty: nothing
}

// deploy makes a deployment without processes, but for its sandbox.
func deploy(t *testing.T) *deployment {
	t.Helper()
	return deployOn(t, pgtest.URL(t))
}

// deployOn is deploy on a database that the test has made.
func deployOn(t *testing.T, url string) *deployment {
	t.Helper()
	d := &deployment{t: t, url: url, token: "token_of_the_shop"}
	d.pool = openPool(t, d.url)
	d.box = startSandbox(t)
	box, err := outbox.New(d.pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := charges.New(d.pool, box, charges.Options{}).AddToken(t.Context(), d.token, "shop", charges.Caller); err != nil {
		t.Fatal(err)
	}
	return d
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// oncepay is a command with the deployment's database in its environment.
func (d *deployment) oncepay(args ...string) launch {
	u, err := url.Parse(d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	password, _ := u.User.Password()
	l := launch{
		args: args, env: append([]string{"DATABASE_URL=" + d.url, "ONCEPAY_DATABASE_CONNS=6"}, d.env...),
		secrets: []string{password, stripeKey, sendgridKey, d.token, buyersHost},
	}
	if d.pooler != "" {
		l.env = append(l.env, "ONCEPAY_DATABASE_POOLER="+string(d.pooler))
	}
	if d.box != nil {
		l.secrets = append(l.secrets, d.box.signer.Stripe)
	}
	return l
}

// service is a running api or worker.
type service struct {
	*process
	url string // where it listens
}

// api starts an API process and waits until it is ready.
func (d *deployment) api(flags ...string) service {
	d.t.Helper()
	s := d.apiUnready(flags...)
	s.awaitReady()
	return s
}

func (d *deployment) apiUnready(flags ...string) service {
	d.t.Helper()
	l := d.oncepay(append([]string{"api", "--listen=127.0.0.1:0"}, flags...)...)
	l.env = append(l.env, "STRIPE_WEBHOOK_SECRETS="+d.box.signer.Stripe, "SENDGRID_WEBHOOK_KEYS="+d.box.signer.SendGrid)
	p := l.start(d.t)
	return service{p, "http://" + p.awaitLog("api.listen", "address")}
}

// worker starts a worker process and waits until it is ready.
func (d *deployment) worker(flags ...string) service {
	d.t.Helper()
	s := d.workerUnready(flags...)
	s.awaitReady()
	return s
}

func (d *deployment) workerUnready(flags ...string) service {
	d.t.Helper()
	p := d.workerProcess(flags...).start(d.t)
	return service{p, "http://" + p.awaitLog("worker.listen", "address")}
}

// workerProcess is a worker that has not been started.
func (d *deployment) workerProcess(flags ...string) launch {
	l := d.oncepay(append([]string{"worker", "--listen=127.0.0.1:0"}, flags...)...)
	l.env = append(l.env, "STRIPE_SECRET_KEY="+stripeKey, "STRIPE_API_BASE="+d.box.url, "SENDGRID_API_KEY="+sendgridKey,
		"SENDGRID_API_BASE="+d.box.url, "RECEIPT_FROM=Shop <receipts@shop.example>")
	return l
}

func (s service) awaitReady() {
	s.t.Helper()
	await(s.t, patience, s.name+" is ready", func() error {
		if s.hasEnded() {
			return fatal{fmt.Errorf("it ended: %v", s.cmd.ProcessState)}
		}
		return s.ready()
	})
}

// ready is nil when the process says so of itself, else what it says.
func (s service) ready() error {
	a, err := call(http.MethodGet, s.url+"/readyz", "", nil, nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%d %s", a.status, a.body)
	}
	return nil
}

func (d *deployment) client(s service, options ...client.Option) *client.Client {
	d.t.Helper()
	c, err := client.New(s.url, d.token, options...)
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// count is the number that a query gives.
func (d *deployment) count(query string, args ...any) int {
	d.t.Helper()
	var n int
	if err := d.pool.QueryRow(d.t.Context(), query, args...).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// charge reads a charge over the API.
func (d *deployment) charge(s service, key string) *client.Charge {
	d.t.Helper()
	use, err := d.client(s).Key(d.t.Context(), key)
	if err != nil {
		d.t.Fatalf("key %s: %v", key, err)
	}
	return use.Charge
}

// awaitStatus waits until the key's charge has the status.
func (d *deployment) awaitStatus(s service, key string, status client.Status) *client.Charge {
	d.t.Helper()
	c := d.client(s)
	var last *client.Charge
	await(d.t, 2*patience, "charge is "+string(status), func() error {
		use, err := c.Key(d.t.Context(), key)
		if err != nil {
			return err
		}
		if last = use.Charge; last.Status != status {
			return fmt.Errorf("it is %s", last.Raw)
		}
		return nil
	})
	return last
}

func newKey() string { return uuid.NewString() }
