package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

// wantAway posts a charge while the database does not take it: the answer is a 503 that says when to come back.
func (d *deployment) wantAway(s service, key string) {
	d.t.Helper()
	began := time.Now()
	a := d.mustPost(s.url, key, plainCharge)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || member(d.t, a.body, "code") != "unavailable" {
		d.t.Errorf("got %v", a)
	}
	if took := time.Since(began); took > 3*6*time.Second { // two waits of 3 s for a connection
		d.t.Errorf("the answer took %s", took)
	}
}

// steadily posts charges until told to stop, each until it is accepted; their keys come when it has.
func (d *deployment) steadily(s service) (stop func() []string) {
	quit, done := make(chan struct{}), make(chan []string, 1)
	go func() {
		var keys []string
		defer func() { done <- keys }()
		for {
			select {
			case <-quit:
				return
			default:
			}
			key := newKey()
			keys = append(keys, key)
			if err := d.postUntilAccepted(s.url, key); err != nil {
				d.t.Errorf("key %s: %v", key, err)
				return
			}
		}
	}()
	return func() []string {
		close(quit)
		return receive(d.t, done, "the last charge is accepted")
	}
}

func TestI8PostgreSQLKilledAndBack(t *testing.T) {
	t.Parallel()
	server, url := pgtest.Own(t)
	d := deployOn(t, url)
	api, worker := d.api(), d.worker()
	stop := d.steadily(api)
	lost := newKey()
	for range 2 {
		await(t, patience, "charges are made", func() error {
			if n := len(d.box.ledger().Payments); n < 3 {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
		if err := server.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.wantAway(api, lost)
		api.awaitUnready("the database cannot be asked")
		worker.awaitUnready("the database cannot be asked")
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		api.awaitReady()
		worker.awaitReady()
	}
	d.pool.Reset()
	keys := append(stop(), d.postMany(5, api)...)
	if err := d.postUntilAccepted(api.url, lost); err != nil {
		t.Fatal(err)
	}
	d.wantOnce(api, append(keys, lost))
	for _, s := range []service{api, worker} {
		if s.hasEnded() {
			t.Errorf("%s ended", s.name)
		}
	}
}

func TestI8FailoverToAStandby(t *testing.T) {
	t.Parallel()
	primary, direct := pgtest.Own(t)
	d := deployOn(t, direct)
	standby := pgtest.Standby(t, primary)
	next := standby.URL("oncepay")
	between, through := relayURL(t, direct)
	d.url = through
	api, worker := d.api(), d.worker()
	stop := d.steadily(api)
	await(t, patience, "charges are made", func() error {
		if n := len(d.box.ledger().Payments); n < 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})

	if err := primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantAway(api, newKey())
	host, err := url.Parse(next)
	if err != nil {
		t.Fatal(err)
	}
	between.turn(host.Host) // to a standby that is none yet
	for _, s := range []service{api, worker} {
		s.awaitUnready("the database is read-only")
	}
	d.wantAway(api, newKey())
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.pool = openPool(t, next)
	api.awaitReady()
	worker.awaitReady()
	d.wantOnce(api, append(stop(), d.postMany(5, api)...))

	// Back and forth once more, by a setting: sessions that began under it are not kept.
	if _, err := d.pool.Exec(t.Context(), `ALTER DATABASE oncepay SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if _, err := d.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'oncepay' AND application_name LIKE 'oncepay-%'`); err != nil {
		t.Fatal(err)
	}
	key := newKey()
	d.wantAway(api, key)
	worker.awaitUnready("the database is read-only")
	if _, err := d.pool.Exec(t.Context(), `ALTER DATABASE oncepay RESET default_transaction_read_only`); err != nil {
		t.Fatal(err)
	}
	await(t, patience, "the same request is accepted", func() error {
		a, err := d.post(api.url, key, plainCharge)
		return errors.Join(err, a.want(http.StatusAccepted))
	})
	d.awaitStatus(api, key, "succeeded")
	worker.awaitReady()
	for _, s := range []service{api, worker} {
		if s.hasEnded() {
			t.Errorf("%s ended", s.name)
		}
	}
}
