package workers

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// Case 48: a paid order is lost with the rest of an hour, and its item is sold to somebody else before its caller comes back. The worker reads at Stripe what
// was lost, though no charge asks for it; then the caller's retry is taken for what it is, and a person sees who has paid and has nothing.
func TestI2PaidLostAndSoldOut(t *testing.T) {
	t.Parallel()
	db := newCopyRestore(t)
	r := newRigOn(t, db.live(), charges.Options{})
	order := charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", CaptureMethod: charges.CaptureAutomatic,
		Items: []charges.Item{{SKU: "print", Quantity: 1}}}
	stock := func(n int64) {
		t.Helper()
		if _, err := r.charges.SetInventory(t.Context(), "print", n, "operator:test"); err != nil {
			t.Fatal(err)
		}
	}
	buy := func(key uuid.UUID) charges.Answer {
		return r.charges.Create(t.Context(), charges.CreateCharge{Caller: "shop", Key: key, Request: order})
	}
	bought := func(key uuid.UUID) uuid.UUID {
		t.Helper()
		a := buy(key)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		return a.ChargeID
	}
	stock(1)
	r.start() // who notes where the data is
	r.stop()
	db.backup()
	r = r.on(db.live(), charges.Options{})
	r.start()
	lost := uuid.New()
	r.awaitStatus(bought(lost), charges.Succeeded)
	r.stop()

	r = r.on(db.restored(), charges.Options{})
	defer func() { r.stop() }()
	other := bought(uuid.New())
	var short *charges.InsufficientInventoryError
	if a := buy(lost); !errors.As(a.Err, &short) || short.Restored.IsZero() {
		t.Fatalf("what was lost is not known yet: %+v", a)
	}
	r.exec(`DELETE FROM river_leader`) // of a worker that was backed up with the rest
	// The other's job must not be what reads.
	r.exec(`UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour' WHERE kind = 'charge_send'`)
	r.start()
	r.await("what was lost to be read", func() bool { return r.count(`SELECT count(*) FROM reading WHERE complete`) == 1 })
	r.exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'charge_send'`)
	r.awaitStatus(other, charges.Succeeded)

	id := bought(lost)
	c := r.awaitStatus(id, charges.NeedsReview)
	if c.Review == nil || c.Review.Reason != charges.InsufficientInventory || c.PaymentIntent == nil {
		t.Errorf("%+v", c)
	}
	payments := r.sandbox.Ledger().PaymentIntents
	if len(payments) != 2 {
		t.Errorf("%d payments for two orders", len(payments))
	}
	stock(2)
	if _, err := r.charges.Rule(t.Context(), id, charges.Ruling{As: charges.Succeeded, Because: "one more was found", Actor: "operator:test"}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.posts()); n != 2 {
		t.Errorf("%d requests to pay for two orders", n)
	}

	// When nothing can linger any more it is read once more, and there is no doubt about any key.
	passed := 16 * time.Minute
	r.exec(`UPDATE restoration SET detected_at = detected_at - $1::interval, lost_from = lost_from - $1::interval`, passed.String())
	r.await("the first reading's job to end", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'lost_read' AND state <> 'completed'`) == 0
	})
	if _, err := r.workers.client.Insert(t.Context(), outbox.ReadLost{Version: 1}, nil); err != nil {
		t.Fatal(err)
	}
	r.await("it to be read for good", func() bool { return r.count(`SELECT count(*) FROM restoration WHERE read_at IS NULL`) == 0 })
	if a := buy(uuid.New()); !errors.As(a.Err, &short) || !short.Restored.IsZero() {
		t.Errorf("there is still a doubt: %+v", a)
	}
}

// What was lost is read while a backlog waits, not after it.
func TestLostIsReadBeforeTheBacklog(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.rate = 4
	r.createMany(60)
	r.exec(`UPDATE river_job SET queue = 'backlog', scheduled_at = now() - interval '1 minute'`)
	if _, err := r.charges.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:test", "snapshot"); err != nil {
		t.Fatal(err)
	}
	r.exec(`UPDATE restoration SET detected_at = detected_at - interval '16 min', lost_from = lost_from - interval '16 min'`)
	r.start()
	defer func() { r.stop() }()
	r.await("what was lost to be read", func() bool { return r.count(`SELECT count(*) FROM restoration WHERE read_at IS NOT NULL`) == 1 })
	if n := r.count(`SELECT count(*) FROM charge WHERE status = 'pending'`); n < 20 {
		t.Errorf("%d of the backlog wait", n)
	}
}
