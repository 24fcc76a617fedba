package main

import (
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
	expect(t, "declared", declare().stdout, `(?m)^Restoration 1 is on record\.`, `(?m)^If a worker has run since`)
	if said := declare("--since=2026-01-02T03:04:05Z"); !strings.Contains(said.stdout, "from 2026-01-02T03:04:05Z to") || strings.Contains(said.stdout, "If a worker") {
		t.Errorf("%+v", said)
	}
	if n := d.count(`SELECT count(*) FROM restoration WHERE actor = 'operator:night-shift' AND reason = 'snapshot of the disk'`); n != 2 {
		t.Errorf("%d restorations on record", n)
	}

	d.box.advance("25h")
	d.worker()
	d.mustPost(api.url, key, plainCharge)
	d.awaitStatus(api, key, client.StatusSucceeded)
	if n := d.box.ledger().sends(key); n != 1 {
		t.Errorf("the key was sent %d times", n)
	}
}
