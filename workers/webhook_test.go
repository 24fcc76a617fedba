package workers

import (
	"encoding/json"
	"testing"

	"github.com/oncepay/oncepay/charges"
)

// Events that could not be applied when they came are applied by a worker, and old ones are removed.
func TestWaitingEventsAreApplied(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	insert := `INSERT INTO webhook_event (provider, event_id, type, raw, status, note, received_at) VALUES ('sendgrid', $1, 'delivered', $2, $3, 'n', now() - $4::interval)`
	for _, old := range []struct{ id, age string }{{"old", "31 days"}, {"young", "29 days"}} {
		if _, err := r.pool.Exec(t.Context(), insert, old.id, []byte("{}"), "applied", old.age); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	id := r.create(mailed)
	r.awaitReceipt(id, charges.ReceiptSent)
	raw, err := json.Marshal(map[string]any{"event": "delivered", "sg_event_id": "late", "oncepay_charge": id, "oncepay_key": r.get(id).IdempotencyKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.pool.Exec(t.Context(), insert, "late", raw, "pending", "1 minute"); err != nil {
		t.Fatal(err)
	}
	r.awaitReceipt(id, charges.ReceiptDelivered)
	if n := r.count(`SELECT count(*) FROM webhook_event WHERE event_id = 'late' AND status = 'applied' AND charge_id = $1`, id); n != 1 {
		t.Errorf("%d applied", n)
	}
	r.await("the old event to be removed", func() bool { return r.count(`SELECT count(*) FROM webhook_event WHERE event_id = 'old'`) == 0 })
	if n := r.count(`SELECT count(*) FROM webhook_event WHERE event_id = 'young'`); n != 1 {
		t.Error("the young one is gone, too")
	}
	r.unburned()
}
