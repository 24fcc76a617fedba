package workers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/stripe"
)

// rig is the real service on a real database, with real workers that call the simulators over HTTP.
type rig struct {
	t       *testing.T
	pool    *pgxpool.Pool
	box     *outbox.Outbox
	charges *charges.Service
	sandbox *sandbox.Sandbox
	url     string
	ready   *outbox.Outbox       // whom the workers' readiness asks; nil: box
	workers *Workers             // nil while stopped
	metrics *prometheus.Registry // of the workers that were started last

	// How payments that are not over are followed; zero: the workers' own defaults.
	follow, actionTTL time.Duration

	rate float64 // calls to Stripe per second; zero: as many as there are
}

// settle is how long a test waits for what must come: far above what it takes, and reached only by a defect.
const settle = 90 * time.Second

func newRig(t *testing.T, o charges.Options) *rig {
	t.Helper()
	return newRigOn(t, pgtest.New(t), o)
}

func newRigOn(t *testing.T, pool *pgxpool.Pool, o charges.Options) *rig {
	t.Helper()
	sim, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim)
	r := (&rig{t: t, sandbox: sim, url: server.URL}).on(pool, o)
	t.Cleanup(func() {
		r.stop()
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return r
}

// on is the rig with the same providers on another database.
func (r *rig) on(pool *pgxpool.Pool, o charges.Options) *rig {
	r.t.Helper()
	box, err := outbox.New(pool)
	if err != nil {
		r.t.Fatal(err)
	}
	other := *r
	other.pool, other.box, other.charges, other.workers = pool, box, charges.New(pool, box, o), nil
	return &other
}

// start runs workers with the home account's key, or the one given.
func (r *rig) start(key ...string) {
	r.t.Helper()
	secret := "sk_test_home"
	if len(key) > 0 {
		secret = key[0]
	}
	r.workers, r.metrics = r.launch(secret, r.url)
}

// launch runs workers that call Stripe at url. Whoever calls it stops them.
func (r *rig) launch(secret, url string) (*Workers, *prometheus.Registry) {
	r.t.Helper()
	gateway, err := stripe.New(stripe.Config{SecretKey: secret, BaseURL: url, Timeout: 5 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	mailer, err := sendgrid.New(sendgrid.Config{APIKey: "SG.test", BaseURL: r.url, From: "Shop <receipts@shop.example>"})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.rate == 0 {
		r.rate = 1000
	}
	registry := prometheus.NewRegistry()
	w, err := Start(r.t.Context(), Config{Pool: r.pool, Charges: r.charges, Outbox: r.box, Readiness: r.ready, Stripe: gateway, Mailer: mailer,
		StripeRate: r.rate, Follow: r.follow, ActionTTL: r.actionTTL, Log: r.logger(), Metrics: registry})
	if err != nil {
		r.t.Fatal(err)
	}
	return w, registry
}

// Ready is the worker's reason not to be.
func (w *Workers) Ready() error {
	_, err := w.Status(context.Background())
	return err
}

func (r *rig) logger() *slog.Logger { return slog.New(slog.NewTextHandler(logTo{r.t}, nil)) }

func (r *rig) stop() {
	r.t.Helper()
	if r.workers == nil {
		return
	}
	if err := r.workers.Stop(context.Background()); err != nil {
		r.t.Errorf("stop workers: %v", err)
	}
	r.workers = nil
}

// logTo shows the workers' lines with a failed test.
type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(string(p))
	return len(p), nil
}

func (r *rig) create(change ...func(*charges.Request)) uuid.UUID {
	r.t.Helper()
	return r.createAs(uuid.New(), change...)
}

// createAs posts a charge under a key.
func (r *rig) createAs(key uuid.UUID, change ...func(*charges.Request)) uuid.UUID {
	r.t.Helper()
	request := charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", CaptureMethod: charges.CaptureAutomatic}
	for _, c := range change {
		c(&request)
	}
	a := r.charges.Create(r.t.Context(), charges.CreateCharge{Caller: "shop", Key: key, Request: request})
	if a.Err != nil {
		r.t.Fatal(a.Err)
	}
	return a.ChargeID
}

func card(pm string) func(*charges.Request) { return func(r *charges.Request) { r.PaymentMethod = pm } }

func mailed(r *charges.Request) { r.ReceiptEmail = "buyer@example.com" }

func (r *rig) get(id uuid.UUID) charges.Charge {
	r.t.Helper()
	c, err := r.charges.Get(r.t.Context(), "", id)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// await polls until a condition holds.
func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(settle); !holds(); {
		if time.Now().After(end) {
			r.t.Fatalf("waited %v in vain: %s", settle, what)
		}
		time.Sleep(20 * time.Millisecond) // the pace of the poll
	}
}

func (r *rig) awaitStatus(id uuid.UUID, want charges.Status) charges.Charge {
	r.t.Helper()
	r.await(fmt.Sprintf("charge %s to be %s; it is %s", id, want, r.get(id).Status), func() bool { return r.get(id).Status == want })
	return r.get(id)
}

func (r *rig) awaitReceipt(id uuid.UUID, want charges.ReceiptStatus) {
	r.t.Helper()
	r.await("receipt "+string(want), func() bool { c := r.get(id); return c.Receipt != nil && c.Receipt.Status == want })
}

func (r *rig) fail(f sandbox.Fault) {
	r.t.Helper()
	if err := r.sandbox.Fail(f); err != nil {
		r.t.Fatal(err)
	}
}

// onCreate is a fault for payments that are created, times over.
func onCreate(f sandbox.Fault, times int) sandbox.Fault {
	f.Method, f.Path, f.Times = "POST", "/v1/payment_intents", times
	return f
}

// payments are the payments at Stripe that name a charge.
func (r *rig) payments(id uuid.UUID) (ids []string) {
	r.t.Helper()
	for _, p := range r.sandbox.Ledger().PaymentIntents {
		if p.Metadata["oncepay_charge"] == id.String() {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// wantPayments fails the test unless Stripe holds so many payments for a charge.
func (r *rig) wantPayments(id uuid.UUID, want int) {
	r.t.Helper()
	if got := r.payments(id); len(got) != want {
		r.t.Errorf("%d payments for charge %s, want %d: %v", len(got), id, want, got)
	}
}

// posts are the requests that asked Stripe for a payment.
func (r *rig) posts() (keys []string) {
	for _, q := range r.sandbox.Ledger().Requests {
		if q.Method == "POST" && q.Path == "/v1/payment_intents" {
			keys = append(keys, q.IdempotencyKey)
		}
	}
	return keys
}

func (r *rig) count(sql string, args ...any) (n int) {
	r.t.Helper()
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// unburned fails the test if any job has used up one of River's attempts with an error.
func (r *rig) unburned() {
	r.t.Helper()
	if n := r.count(`SELECT count(*) FROM river_job WHERE errors IS NOT NULL OR state IN ('discarded', 'cancelled', 'retryable')`); n != 0 {
		r.t.Errorf("%d of River's jobs failed", n)
	}
}

// figure is the sum of a metric's values over its labels.
func (r *rig) figure(name string) (sum float64) {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
