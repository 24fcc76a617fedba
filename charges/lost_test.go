package charges

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/outbox"
)

// restored says that the database was restored so long ago, and that an hour was lost.
func (f *fixture) restored(t *testing.T, ago time.Duration) Restoration {
	t.Helper()
	r, err := f.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:ada", "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	f.exec(t, `UPDATE restoration SET detected_at = detected_at - $1::interval, lost_from = lost_from - $1::interval WHERE id = $2`, ago.String(), r.ID)
	r.DetectedAt = r.DetectedAt.Add(-ago)
	return r
}

// readLost reads what was lost as a worker does, and finds payments under these keys.
func (f *fixture) readLost(t *testing.T, found map[string]uuid.UUID) {
	t.Helper()
	begun := f.beginLost(t, LookFirst)
	hold, turn, err := f.TakeReading(t.Context(), begun)
	if err != nil || turn != ReadOn {
		t.Fatalf("%q, %v", turn, err)
	}
	var page []News
	for payment, key := range found {
		page = append(page, News{Payment: Payment{ID: payment, Key: key.String()}})
	}
	if err := f.SaveReading(t.Context(), &hold, page, true, nil); err != nil {
		t.Fatal(err)
	}
}

// lose is the key of a payment that a restored database has forgotten, and a worker has found.
func (f *fixture) lose(t *testing.T) (key uuid.UUID) {
	t.Helper()
	f.restored(t, 0)
	key = uuid.New()
	f.readLost(t, map[string]uuid.UUID{"pi_lost": key})
	return key
}

func (f *fixture) beginLost(t *testing.T, want Action) Begun {
	t.Helper()
	begun, err := f.BeginLost(t.Context(), f.here(true))
	if err != nil || begun.Action != want {
		t.Fatalf("%q, want %q: %v", begun.Action, want, err)
	}
	return begun
}

// Case 48: what was paid for under a key that a restored database has forgotten is accepted once more, although its item was sold to somebody else or its
// time is over, and nothing is sent for it. Who buys under a new key is refused as ever.
func TestI2LostChargesComeBack(t *testing.T) {
	t.Parallel()
	late := request(func(r *Request) {
		past := time.Now().Add(-time.Minute)
		r.SendBefore = &past
	})
	for name, tc := range map[string]struct {
		request Request
		left    int64 // of the item, when the payment is adopted
		want    Status
		stock   Stock
	}{
		"sold out, and still":   {selling(one("tee")), 0, NeedsReview, StockReturned},
		"sold out, and stocked": {selling(one("tee")), 1, Succeeded, StockTaken},
		"late":                  {late, 0, Succeeded, ""},
		"sold out and late":     {request(func(r *Request) { *r = late; r.Items = []Item{one("tee")} }), 0, NeedsReview, StockReturned},
		"late, and stocked":     {request(func(r *Request) { *r = late; r.Items = []Item{one("tee")} }), 1, Succeeded, StockTaken},
		"never stocked here":    {selling(one("mug")), 0, NeedsReview, StockReturned}, // that is lost as well
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{})
			f.stock(t, "tee", 1)
			f.create(t, selling(one("tee")))
			buy := func(key uuid.UUID) Answer {
				return f.Create(t.Context(), CreateCharge{Caller: "shop", Key: key, Request: tc.request})
			}
			lost := uuid.New()
			r := f.restored(t, 0)
			if at := doubtOf(t, buy(lost)); !at.Equal(r.DetectedAt) {
				t.Errorf("before it was read, restored at %v, want %v", at, r.DetectedAt)
			}
			f.readLost(t, map[string]uuid.UUID{"pi_lost": lost, "pi_other": uuid.New()})
			if at := doubtOf(t, buy(uuid.New())); !at.Equal(r.DetectedAt) {
				t.Errorf("another key, when it was read too early to be sure: restored at %v, want %v", at, r.DetectedAt)
			}

			a := buy(lost)
			if a.Err != nil || a.Status != 202 {
				t.Fatalf("%+v", a)
			}
			if again := buy(lost); again.Err != nil || string(again.Body) != string(a.Body) || !again.Replayed {
				t.Errorf("again: %+v", again)
			}
			if data := f.lastEvent(t, a.ChargeID).Data; data["lost"] != true {
				t.Errorf("accepted with %v", data)
			}
			f.lawful(t)

			f.exec(t, `DELETE FROM river_job`) // else it is live, and no more is said
			replay, err := f.box.Preview(t.Context(), f.Service, outbox.Filter{ChargeIDs: []uuid.UUID{a.ChargeID}})
			if err != nil || replay.Counts[outbox.PastWindow] != 1 || replay.Enqueued != 1 {
				t.Errorf("a replay would do %v, %v", replay.Counts, err)
			}
			begun := f.begin(t, a.ChargeID, LookFirst)
			if begun.Read == nil || len(begun.Read.Found) != 1 || begun.Read.Found[0] != "pi_lost" {
				t.Fatalf("%+v", begun.Read)
			}
			if tc.left > 0 {
				f.stock(t, "tee", 1+tc.left)
			}
			if err := f.Looked(t.Context(), a.ChargeID, begun.Permit, begun.Here, *begun.Read, []News{said("succeeded", "pi_lost")}); err != nil {
				t.Fatal(err)
			}
			c, err := f.Get(t.Context(), "shop", a.ChargeID)
			if err != nil || c.Status != tc.want || c.PaymentIntent == nil || *c.PaymentIntent != "pi_lost" {
				t.Errorf("%s, %v, %v; want %s", c.Status, c.PaymentIntent, err, tc.want)
			}
			if c.Stock != nil && *c.Stock != tc.stock {
				t.Errorf("its items are %s, want %s", *c.Stock, tc.stock)
			}
			if n := f.count(t, `SELECT count(*) FROM attempt WHERE charge_id = $1`, a.ChargeID); n != 0 {
				t.Errorf("%d attempts", n)
			}
			f.lawful(t)
		})
	}
}

// doubtOf is when, as a refusal says, the database was restored.
func doubtOf(t *testing.T, a Answer) time.Time {
	t.Helper()
	var short *InsufficientInventoryError
	var invalid *InvalidError
	switch {
	case errors.As(a.Err, &short):
		return short.Restored
	case errors.As(a.Err, &invalid):
		return invalid.Restored
	}
	t.Fatalf("not refused: %+v", a)
	return time.Time{}
}

// What was lost is read when it is found, and once more when nothing of it can linger at Stripe any more. From then on there is no doubt.
func TestLostIsReadForGood(t *testing.T) {
	t.Parallel()
	var told []Restoration
	f := newFixture(t, Options{Restored: func(r Restoration) { told = append(told, r) }})
	f.beginLost(t, Nothing)
	refused := func() time.Time {
		return doubtOf(t, f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))}))
	}
	if !refused().IsZero() {
		t.Error("there is a doubt, and no restore")
	}
	if _, err := f.ConfirmIdentity(t.Context()); err != nil { // a worker runs, and never again
		t.Fatal(err)
	}
	if !refused().IsZero() {
		t.Error("there is a doubt where a worker has run")
	}
	f.noticed.Store(nil) // it looks several times a second
	f.elsewhere(t, `system_identifier = 42, seen_at = seen_at - interval '1 hour'`)
	if at := refused(); at.IsZero() || !at.Equal(f.restorations(t)[0].DetectedAt) {
		t.Errorf("nobody but the one who is refused could notice: %v", at)
	}
	if refused(); len(told) != 1 || told[0].ID != f.restorations(t)[0].ID {
		t.Errorf("who noticed it has told of %+v", told)
	}
	f.exec(t, `DELETE FROM restoration`)
	r := f.restored(t, 0)
	f.readLost(t, nil)
	f.beginLost(t, Nothing)
	if !refused().Equal(r.DetectedAt) || !f.restorations(t)[0].ReadAt.IsZero() {
		t.Error("an early reading was taken for the last word")
	}
	f.passes(t, inDoubt+time.Minute)
	f.readLost(t, nil)
	if refused().IsZero() {
		t.Error("what was read was not written down yet, and is relied on")
	}
	f.beginLost(t, Nothing)
	if !refused().IsZero() || f.restorations(t)[0].ReadAt.IsZero() {
		t.Error("there is still a doubt")
	}
	if f.restored(t, 0); refused().IsZero() {
		t.Error("another restore is taken for read")
	}
	f.exec(t, `UPDATE restoration SET detected_at = detected_at - interval '31 days', lost_from = lost_from - interval '31 days'`)
	if !refused().IsZero() {
		t.Error("there is a doubt a month later")
	}
	f.beginLost(t, Nothing)
}

// Who may see that the database is another one, and may not write that down, refuses nobody without a doubt.
func TestRestoreThatCannotBeWrittenDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	if _, err := f.ConfirmIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.elsewhere(t, `system_identifier = 42, seen_at = seen_at - interval '1 hour'`)
	f.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'permission denied' USING ERRCODE = '42501'; END $$`)
	f.exec(t, `CREATE TRIGGER refuse BEFORE INSERT ON restoration FOR EACH ROW EXECUTE FUNCTION refuse()`)
	for range 2 {
		a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))})
		if doubtOf(t, a).IsZero() {
			t.Error("there is no doubt")
		}
	}
	f.exec(t, `DROP TRIGGER refuse ON restoration`)
	a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))})
	if all := f.restorations(t); len(all) != 1 || !doubtOf(t, a).Equal(all[0].DetectedAt) {
		t.Errorf("%+v, %v", all, doubtOf(t, a))
	}
}

// I2: what was accepted for a lost payment is never sent, not even where the payment cannot be found again.
func TestI2NothingIsSentForALostCharge(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	lost := f.lose(t)
	a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: lost, Request: selling(one("tee"))})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	f.stock(t, "tee", 1)
	f.exec(t, `DELETE FROM reading_payment`)
	f.begin(t, a.ChargeID, Nothing)
	if c, err := f.Get(t.Context(), "shop", a.ChargeID); err != nil || c.Status != NeedsReview || c.Review.Reason != paymentFound {
		t.Errorf("%s, %+v, %v", c.Status, c.Review, err)
	}
	f.wantStock(t, "tee", 1, 0, 0)
}
