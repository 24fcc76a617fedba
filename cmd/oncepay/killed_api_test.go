package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// tables hold all that an accepted charge leaves in the database.
var tables = []string{"charge", "idempotency_key", "charge_event", "river_job WHERE kind = 'charge_send'"}

// rows counts the rows in each of the tables.
func (d *deployment) rows() string {
	counts := make([]string, len(tables))
	for i, table := range tables {
		counts[i] = fmt.Sprint(d.count("SELECT count(*) FROM " + table))
	}
	return strings.Join(counts, " ")
}

// awaitNoAPI waits until PostgreSQL has noticed that the killed process is gone.
func (d *deployment) awaitNoAPI() {
	d.t.Helper()
	await(d.t, patience, "the killed process's sessions end", func() error {
		if n := d.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'oncepay-api'`); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

func TestI1APIKilledBeforeCommitLeavesNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	first := d.api()
	gate := d.closeGate(beforeCommit)
	key := newKey()
	lost := d.posting(first.url, key, plainCharge)
	gate.awaitHeld()
	first.kill()
	if p := receive(t, lost, "the request breaks"); p.err == nil {
		t.Fatalf("a killed process answered: %v", p.answer)
	}
	gate.open()
	d.awaitNoAPI()
	if got := d.rows(); got != "0 0 0 0" {
		t.Fatalf("rows left behind: %s", got)
	}

	a := d.mustPost(d.api().url, key, plainCharge)
	if a.status != http.StatusAccepted || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the key was as if never seen, and got %v", a)
	}
	if got := d.rows(); got != "1 1 1 1" {
		t.Errorf("rows: %s", got)
	}
}

func TestI1APIKilledDuringCommitLeavesAll(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	first := d.api()
	gate := d.closeGate(duringCommit)
	key := newKey()
	lost := d.posting(first.url, key, plainCharge)
	gate.awaitHeld()
	first.kill()
	if p := receive(t, lost, "the request breaks"); p.err == nil {
		t.Fatalf("a killed process answered: %v", p.answer)
	}
	gate.open() // PostgreSQL had the COMMIT, and does not ask whether anybody waits for its answer
	d.awaitNoAPI()
	if got := d.rows(); got != "1 1 1 1" {
		t.Fatalf("rows: %s", got)
	}

	a := d.mustPost(d.api().url, key, plainCharge)
	if a.status != http.StatusAccepted || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the retry got %v", a)
	}
	if got := d.rows(); got != "1 1 1 1" {
		t.Errorf("rows after the retry: %s", got)
	}
}

func TestI4APIKilledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	first, second := d.api(), d.api()
	between := newRelay(t, strings.TrimPrefix(first.url, "http://"), first.kill)

	key := newKey()
	if a, err := d.post("http://"+between.address, key, plainCharge); err == nil {
		t.Fatalf("the answer came through: %v", a)
	}
	if got := d.rows(); got != "1 1 1 1" {
		t.Fatalf("rows: %s", got)
	}
	var stored []byte
	if err := d.pool.QueryRow(t.Context(), `SELECT response_body FROM idempotency_key WHERE key = $1`, key).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := d.mustPost(second.url, key, plainCharge)
		if a.status != http.StatusAccepted || a.body != string(stored) || a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the stored answer is %s, the retry got %v", stored, a)
		}
	}
	if got := d.rows(); got != "1 1 1 1" {
		t.Errorf("rows after the retries: %s", got)
	}
}

func TestI4KeyInFlightElsewhere(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	first, second := d.api(), d.api()
	gate := d.closeGate(beforeCommit)
	key := newKey()
	slow := d.posting(first.url, key, plainCharge)
	gate.awaitHeld()

	began := time.Now()
	busy := d.mustPost(second.url, key, plainCharge)
	if busy.status != http.StatusConflict || member(t, busy.body, "code") != "idempotency_key_in_use" || busy.header.Get("Retry-After") == "" {
		t.Errorf("got %v", busy)
	}
	// 5 s is what is promised. Beyond 15 s, PostgreSQL would have ended the first request as well.
	if took := time.Since(began); took > 3*5*time.Second {
		t.Errorf("the answer took %s", took)
	}
	gate.open()
	accepted := receive(t, slow, "the first request's answer")
	if err := errors.Join(accepted.err, accepted.want(http.StatusAccepted)); err != nil {
		t.Fatal(err)
	}
	again := d.mustPost(second.url, key, plainCharge)
	if again.status != accepted.status || again.body != accepted.body {
		t.Errorf("first %v, again %v", accepted.answer, again)
	}
	if got := d.rows(); got != "1 1 1 1" {
		t.Errorf("rows: %s", got)
	}
}
