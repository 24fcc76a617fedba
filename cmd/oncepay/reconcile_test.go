package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

// An operator who restored a snapshot says so: what was lost is found at Stripe when its caller comes back.
func TestReconcileRestored(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	declare := func(args ...string) result {
		return d.oncepay(append([]string{"reconcile", "--restored", "--because=snapshot of the disk", "--who=night-shift"}, args...)...).run(t)
	}
	if early := declare(); early.code != 2 || !strings.Contains(early.stderr, "--since is needed") {
		t.Errorf("before any worker has run: %+v", early)
	}

	worker := d.worker()
	key := newKey()
	d.mustPost(api.url, key, plainCharge)
	d.awaitStatus(api, key, client.StatusSucceeded)
	worker.kill()
	// Back to before it was accepted.
	for _, table := range []string{"look", "attempt", "receipt", "charge_event", "idempotency_key", "payment", "river_job", "charge"} {
		if _, err := d.pool.Exec(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(args ...string) result {
		return d.oncepay(append([]string{"reconcile", "--lost"}, args...)...).run(t)
	}
	if none := listed(); none.code != 0 || none.stdout != "Nothing that is known of.\n" || none.stderr != "" {
		t.Errorf("before: %+v", none)
	}
	expect(t, "declared", declare().stdout, `(?m)^Restoration 1 is on record\.`, `(?m)^If a worker has run since`)
	if said := declare("--since=2026-01-02T03:04:05Z"); !strings.Contains(said.stdout, "from 2026-01-02T03:04:05Z to") || strings.Contains(said.stdout, "If a worker") {
		t.Errorf("%+v", said)
	}
	if n := d.count(`SELECT count(*) FROM restoration WHERE actor = 'operator:night-shift' AND reason = 'snapshot of the disk'`); n != 2 {
		t.Errorf("%d restorations on record", n)
	}

	d.box.advance("25h")
	if unread := listed(); !strings.Contains(unread.stderr, "is still being read") {
		t.Errorf("before a worker has run: %+v", unread)
	}
	d.worker()
	payment := d.box.ledger().paymentOf(key)
	await(t, patience, "what was lost is listed", func() error {
		if said := listed().stdout; !strings.Contains(said, payment+"  "+key) {
			return errors.New(said)
		}
		return nil
	})
	var told struct {
		Lost []struct {
			Payment string `json:"payment_intent"`
			Key     string `json:"idempotency_key"`
		}
		Read *bool
	}
	if err := json.Unmarshal([]byte(listed("--json").stdout), &told); err != nil || len(told.Lost) != 1 || told.Lost[0].Payment != payment ||
		told.Lost[0].Key != key || told.Read == nil || *told.Read {
		t.Errorf("%+v, %v", told, err)
	}
	d.mustPost(api.url, key, plainCharge)
	d.awaitStatus(api, key, client.StatusSucceeded)
	if none := listed(); !strings.HasPrefix(none.stdout, "Nothing") {
		t.Errorf("when its caller has come back: %+v", none)
	}
	if n := d.box.ledger().sends(key); n != 1 {
		t.Errorf("the key was sent %d times", n)
	}
}
