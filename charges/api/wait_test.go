package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/api"
)

func TestWaitForSettledCharge(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	var wg sync.WaitGroup
	var r reply
	wg.Go(func() { r = d.post(t, alice, key, goodBody, "Prefer", "wait=50") })
	eventually(t, "the charge", func() bool { return d.count(t, "charge") == 1 })
	var id string
	if err := d.pool.QueryRow(t.Context(), `SELECT id::text FROM charge`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	d.settle(t, id)
	wg.Wait()
	if c := r.charge(t); r.status != http.StatusOK || c.ID != id || c.Status != "succeeded" {
		t.Errorf("answered %d %s", r.status, r.body)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("answered %s after it was settled", took)
	}
	for name, want := range map[string]string{"Preference-Applied": "wait=50", "Location": "/charges/" + id, "Idempotent-Replayed": ""} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.header.Get("Idempotency-Expires") == "" {
		t.Error("no Idempotency-Expires")
	}

	// The live answer is not the stored one; asking again with a wait is a live read again.
	stored := d.post(t, alice, key, goodBody)
	if stored.status != http.StatusAccepted || stored.charge(t).Status != "pending" || stored.header.Get("Preference-Applied") != "" {
		t.Errorf("the stored answer is %d %s", stored.status, stored.body)
	}
	live := d.post(t, alice, key, goodBody, "Prefer", "wait=5")
	if live.status != http.StatusOK || live.charge(t).Status != "succeeded" || live.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the live answer is %d %s %v", live.status, live.body, live.header)
	}
	d.wantRows(t, 1)
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	var key string
	var r reply
	var took time.Duration
	for range 5 { // on a busy machine the charge may not be read again in time, and then nothing is waited for
		key = newKey()
		began := time.Now()
		r = d.post(t, alice, key, goodBody, "Prefer", "respond-async, wait=1")
		if took = time.Since(began); r.header.Get("Preference-Applied") != "" {
			break
		}
	}
	if took < time.Second || took > 10*time.Second {
		t.Errorf("answered after %s", took)
	}
	if r.status != http.StatusAccepted || r.charge(t).Status != "pending" || r.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("answered %d %s %v", r.status, r.body, r.header)
	}
	d.exec(t, `UPDATE charge SET status = 'processing'`)
	if r := d.post(t, alice, key, goodBody, "Prefer", "wait=1"); r.status != http.StatusAccepted || r.charge(t).Status != "processing" {
		t.Errorf("not live: %d %s", r.status, r.body)
	}
	d.exec(t, `UPDATE idempotency_key SET expires_at = now() - interval '1 second'`)
	if r := d.post(t, alice, key, goodBody, "Prefer", "wait=1"); r.status != http.StatusOK || r.charge(t).Status != "processing" {
		t.Errorf("after the stored answer expired: %d %s", r.status, r.body)
	}
}

func TestPreferencesThatAreIgnored(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	for _, prefer := range []string{"wait", "wait=", "wait=0", "wait=-60", "wait=1.5", "wait=soon", "wait=\"", "waiting=60", "return=minimal; wait=60", ""} {
		r := d.post(t, alice, newKey(), goodBody, "Prefer", prefer)
		if r.status != http.StatusAccepted || r.header.Get("Preference-Applied") != "" {
			t.Errorf("%q: %d %v", prefer, r.status, r.header)
		}
	}
}

// The charge was accepted: that it cannot be read again is no reason to refuse it.
func TestDatabaseGoesAwayDuringAWait(t *testing.T) {
	t.Parallel()
	d, p := behindProxy(t)
	key := newKey()
	p.cutAt("SELECT c.id, c.caller", false, true) // the first read of the charge, for those who wait
	r := d.post(t, alice, key, goodBody, "Prefer", "wait=2")
	p.setDown(false)
	var stored reply
	eventually(t, "the database", func() bool {
		stored = d.post(t, alice, key, goodBody)
		return stored.status == http.StatusAccepted
	})
	if r.status != http.StatusAccepted || r.body != stored.body || r.header.Get("Preference-Applied") != "" || r.header.Get("Location") == "" {
		t.Errorf("answered %d %s %v", r.status, r.body, r.header)
	}
	d.wantRows(t, 1)
}

// Those who wait take no place from others, and where too many wait the next one does not.
func TestWaitersTakeNoPlace(t *testing.T) {
	t.Parallel()
	d := deploy(t, func(c *api.Config) { c.MaxRequests, c.MaxWaiters = 1, 1 })
	key := newKey()
	var wg sync.WaitGroup
	var r reply
	wg.Go(func() { r = d.post(t, alice, key, goodBody, "Prefer", "wait=60") })
	eventually(t, "a request while the other waits", func() bool {
		return d.count(t, "charge") == 1 && d.get(t, alice, "/charges").status == http.StatusOK
	})
	if second := d.post(t, alice, newKey(), goodBody, "Prefer", "wait=60"); second.status != http.StatusAccepted || second.header.Get("Preference-Applied") != "" {
		t.Errorf("the second waiter: %d %s %v", second.status, second.body, second.header)
	}
	d.exec(t, `UPDATE charge SET status = 'canceled'`)
	wg.Wait()
	if r.status != http.StatusOK || r.charge(t).Status != "canceled" {
		t.Errorf("the first waiter: %d %s", r.status, r.body)
	}
}

func TestOverloadIsRefused(t *testing.T) {
	t.Parallel()
	d := deploy(t, func(c *api.Config) { c.MaxRequests = 1 })
	key := newKey()
	other := hold(t, d, key, "alice")
	var wg sync.WaitGroup
	var r reply
	wg.Go(func() { r = d.post(t, alice, key, goodBody) })
	d.blocked(t, 1)
	d.sendOnce(t, alice, http.MethodGet, "/charges", "").wantUnavailable(t)
	refused := newKey()
	d.postOnce(t, alice, refused, goodBody).wantUnavailable(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json"} {
		if r := d.get(t, "", path); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if r.status != http.StatusAccepted {
		t.Errorf("the one that was let in: %d %s", r.status, r.body)
	}
	d.accept(t, alice, refused, strings.Replace(goodBody, "1099", "1", 1))
	d.wantRows(t, 2)
}
