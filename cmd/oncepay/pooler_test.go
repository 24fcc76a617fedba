package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// behindBouncer is a deployment whose processes reach the database through PgBouncer, five sessions for all of them.
func behindBouncer(t *testing.T, pooler outbox.Pooler) (*deployment, *pgtest.Bouncer) {
	t.Helper()
	d := deploy(t)
	bouncer := pgtest.PgBouncer(t, d.url, "default_pool_size = 5")
	d.url, d.pooler = bouncer.URL, pooler
	return d, bouncer
}

// postMany posts n charges, eight at a time, until each is accepted, and returns their keys.
func (d *deployment) postMany(n int, apis ...service) []string {
	d.t.Helper()
	keys := make([]string, n)
	posting := new(errgroup.Group)
	posting.SetLimit(8)
	for i := range keys {
		keys[i] = newKey()
		posting.Go(func() error { return d.postUntilAccepted(apis[i%len(apis)].url, keys[i]) })
	}
	if err := posting.Wait(); err != nil {
		d.t.Fatal(err)
	}
	return keys
}

// postUntilAccepted is what a caller does: the same request again where the answer is lost or says to come back.
func (d *deployment) postUntilAccepted(url, key string) error {
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		a, err := d.post(url, key, plainCharge)
		if last = errors.Join(err, a.want(http.StatusAccepted)); last == nil {
			return nil
		}
		if err == nil && (a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "") {
			return last
		}
	}
	return last
}

// wantOnce waits until each charge has succeeded, and checks that each was paid once.
func (d *deployment) wantOnce(s service, keys []string) {
	d.t.Helper()
	for _, key := range keys {
		d.awaitStatus(s, key, client.StatusSucceeded)
	}
	l := d.box.ledger()
	for _, key := range keys {
		if all, succeeded := l.payments(key); all != 1 || succeeded != 1 {
			d.t.Errorf("key %s: %d payments, %d succeeded", key, all, succeeded)
		}
	}
	if n := d.count(`SELECT count(*) FROM charge`); n != len(keys) {
		d.t.Errorf("%d charges for %d keys", n, len(keys))
	}
}

func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	d, bouncer := behindBouncer(t, outbox.TransactionPooler)
	caller := strings.TrimSpace(d.oncepay("keys", "create", "--name=second-shop", "--role=caller").must(t))
	expect(t, "keys list", d.oncepay("keys", "list").must(t), `(?m)second-shop`)
	if caller == "" {
		t.Error("no token")
	}
	apis := []service{d.api(), d.api()}
	d.box.fault(`"fault":"delay","delay_ms":300,"times":20`)
	doomed, worker := d.worker(), d.worker()
	posted := make(chan []string, 1)
	go func() { posted <- d.postMany(40, apis...) }()
	await(t, patience, "charges are in flight", func() error {
		if n := d.count(`SELECT count(*) FROM attempt WHERE ended_at IS NULL`); n < 4 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	doomed.kill()
	keys := receive(t, posted, "all are accepted")

	// Everybody's connections break, and come back.
	bouncer.Stop()
	apis[0].awaitUnready("the database cannot be asked")
	a := d.mustPost(apis[0].url, newKey(), plainCharge)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("without a database: %v", a)
	}
	bouncer.Start()
	keys = append(keys, d.postMany(10, apis...)...)
	d.wantOnce(apis[1], keys)

	jobs := d.oncepay("outbox", "list").must(t)
	if strings.Contains(jobs, "needs_review") {
		t.Errorf("outbox list: %s", jobs)
	}
	if n := jobsWritten(t, d.oncepay("outbox", "replay", "--apply").must(t)); n != 0 {
		t.Errorf("a replay of settled charges wrote %d jobs", n)
	}
	for _, s := range append(apis, worker) {
		s.awaitReady()
		if log := s.stderr.String(); strings.Contains(log, "prepared statement") || strings.Contains(log, "startup parameter") {
			t.Errorf("%s relied on a session", s.name)
		}
	}
	r := d.oncepay("migrate").run(t)
	if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "--database-url") || !strings.Contains(r.stderr, "pooler") {
		t.Errorf("migrate: exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

// A pooler that nobody has told of would swallow notifications and mix up sessions. It is named instead.
func TestPgBouncerUnannounced(t *testing.T) {
	t.Parallel()
	d, _ := behindBouncer(t, "")
	api, worker := d.apiUnready(), d.workerUnready()
	for _, s := range []service{api, worker} {
		s.awaitUnready("--database-pooler=transaction")
	}
	a := d.mustPost(api.url, newKey(), plainCharge)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("got %v", a)
	}
	r := d.oncepay("keys", "list").run(t)
	if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "--database-pooler (ONCEPAY_DATABASE_POOLER)") {
		t.Errorf("keys list: exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if n := d.count(`SELECT count(*) FROM charge`); n != 0 {
		t.Errorf("%d charges", n)
	}
}

// Sessions that listen are cut again and again: jobs are found all the same, and soon.
func TestEveryListenerDropped(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	worker := d.worker()
	dropping, stop := context.WithCancel(t.Context())
	defer stop()
	dropped := make(chan int, 1)
	go func() {
		n := 0
		for tick := time.Tick(300 * time.Millisecond); dropping.Err() == nil; <-tick {
			var now int
			if err := d.pool.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND query ILIKE '%LISTEN %' AND pid <> pg_backend_pid()`).Scan(&now); err != nil {
				t.Errorf("drop listeners: %v", err)
			}
			n += now
		}
		dropped <- n
	}()
	var keys []string
	for range 15 {
		key := newKey()
		if err := d.mustPost(api.url, key, plainCharge).want(http.StatusAccepted); err != nil {
			t.Fatal(err)
		}
		d.awaitStatus(api, key, client.StatusSucceeded)
		keys = append(keys, key)
	}
	d.wantOnce(api, keys)
	stop()
	if n := <-dropped; n < 2 {
		t.Errorf("%d listeners were dropped", n)
	}
	if worker.hasEnded() {
		t.Error("the worker ended")
	}
}
