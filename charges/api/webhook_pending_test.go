package api_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
)

// An event may be here before the charge that it names can be seen.
func TestEventBeforeItsChargeIsSeen(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	key := newKey()
	open := hold(t, d, key, "alice")
	d.tell(t, paymentEvent(charge{ID: newKey(), IdempotencyKey: key, Amount: 1}, "succeeded", nil)).wantReceived(t)
	d.wantEvent(t, charges.EventPending, charges.EventUnmatched)
	if err := open.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.applyPending(t)
	d.wantEvent(t, charges.EventPending, charges.EventNoAttempt) // and nothing was sent for it, as far as is known
	var id string
	if err := d.pool.QueryRow(t.Context(), `SELECT id FROM charge`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	d.begin(t, charge{ID: id})
	d.applyPending(t)
	d.wantEvent(t, charges.EventApplied, "")
	if n := d.count(t, "charge WHERE status = 'succeeded'"); n != 1 {
		t.Errorf("%d charges succeeded", n)
	}
}

func TestPendingEventsAreBackedOffAndGivenUp(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	d.tell(t, paymentEvent(charge{ID: newKey(), IdempotencyKey: newKey(), Amount: 1}, "succeeded", nil)).wantReceived(t)
	for tries := 2; tries < 15; tries++ {
		d.applyPending(t)
		if n := d.count(t, "webhook_event WHERE status = 'pending' AND tries = $1 AND due_at - updated_at BETWEEN '1s' AND '10 min'", tries); n != 1 {
			t.Errorf("after %d tries: %+v", tries, d.event(t))
		}
	}
	if taken, err := d.service.ApplyPending(t.Context()); err != nil || len(taken) != 0 {
		t.Errorf("not due, and tried: %+v %v", taken, err)
	}
	d.exec(t, `UPDATE webhook_event SET received_at = now() - interval '73 hours'`)
	d.applyPending(t)
	d.wantEvent(t, charges.EventIgnored, charges.EventUnmatched)
}

// One event that cannot be applied does not hold up the others.
func TestPendingEventThatFails(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	var sent []charge
	for range 3 {
		c := d.sent(t, goodBody)
		d.tell(t, paymentEvent(c, "succeeded", nil)).wantReceived(t)
		sent = append(sent, c)
	}
	d.exec(t, `UPDATE charge SET status = 'processing', payment_intent = NULL`)
	d.exec(t, `DELETE FROM payment`)
	d.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	d.exec(t, `CREATE TRIGGER broken BEFORE INSERT ON payment FOR EACH ROW WHEN (NEW.charge_id = '`+sent[0].ID+`') EXECUTE FUNCTION broken()`)
	list, _, err := d.service.ProviderEvents(t.Context(), charges.EventFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	if n, err := d.service.RetryEvents(t.Context(), append(ids, 1<<40)); err != nil || n != 3 {
		t.Errorf("retried %d, %v", n, err)
	}
	taken, err := d.service.ApplyPending(t.Context())
	if err == nil || len(taken) != 3 {
		t.Errorf("taken %+v, %v", taken, err)
	}
	d.wantStatus(t, sent[0], "processing")
	d.wantStatus(t, sent[1], "succeeded")
	d.wantStatus(t, sent[2], "succeeded")
	if i := slices.IndexFunc(taken, func(e charges.ProviderEvent) bool { return e.Note == charges.EventError }); i < 0 || taken[i].Status != charges.EventPending {
		t.Errorf("taken %+v", taken)
	}
	waiting, oldest, err := d.service.EventBacklog(t.Context())
	if err != nil || waiting != 1 || oldest <= 0 {
		t.Errorf("backlog %d %s %v", waiting, oldest, err)
	}
	d.exec(t, `DROP TRIGGER broken ON payment`)
	d.applyPending(t)
	d.wantStatus(t, sent[0], "succeeded")
}

func TestRemoveEvents(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	for n, status := range []string{"applied", "ignored", "pending", "applied"} {
		d.exec(t, `INSERT INTO webhook_event (provider, event_id, type, raw, status, note, received_at)
			VALUES ('stripe', $1::text, 'a', '', $2, 'n', now() - CASE WHEN $1 = '3' THEN interval '1 hour' ELSE interval '3 hours' END)`,
			string(rune('0'+n)), status)
	}
	if n, err := d.service.RemoveEvents(t.Context(), 2*time.Hour); err != nil || n != 2 {
		t.Errorf("removed %d, %v", n, err)
	}
	if n := d.count(t, "webhook_event WHERE event_id IN ('2', '3')"); n != 2 {
		t.Errorf("%d of those that stay are there", n)
	}
}
