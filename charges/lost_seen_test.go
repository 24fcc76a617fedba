package charges

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// passes lets so much time go by since the restore, and since what was read then.
func (f *fixture) passes(t *testing.T, d time.Duration) {
	t.Helper()
	f.exec(t, `UPDATE restoration SET detected_at = detected_at - $1::interval, lost_from = lost_from - $1::interval`, d.String())
	f.exec(t, `UPDATE reading SET begun_at = begun_at - $1::interval, stripe_begun_at = stripe_begun_at - $1::interval,
		from_at = from_at - $1::interval, to_at = to_at - $1::interval, keep_until = keep_until - $1::interval`, d.String())
}

// seeing begins to read what was lost, and comes across a payment under the key.
func (f *fixture) seeing(t *testing.T, key uuid.UUID) Hold {
	t.Helper()
	hold, turn, err := f.TakeReading(t.Context(), f.beginLost(t, LookFirst))
	if err != nil || turn != ReadOn {
		t.Fatal(turn, err)
	}
	if err := f.SaveReading(t.Context(), &hold, []News{{Payment: Payment{ID: "pi_lost", Key: key.String()}}}, false, nil); err != nil {
		t.Fatal(err)
	}
	return hold
}

// I2: a payment that was seen under a key is never made again, whatever else would allow that: too much time has passed, another list was read since,
// the key of another account is used now, or a person wants it.
func TestI2WhatWasSeenIsNeverSent(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	read := func(t *testing.T, f *fixture, lost uuid.UUID) { f.readLost(t, map[string]uuid.UUID{"pi_lost": lost}) }
	moved := func(t *testing.T, f *fixture) {
		f.home = Account{ID: "acct_new"}
		f.readLost(t, nil)
	}
	sold := selling(one("tee"))
	for name, tc := range map[string]struct {
		request Request
		before  func(t *testing.T, f *fixture, lost uuid.UUID) // its caller comes back
		after   func(t *testing.T, f *fixture, id uuid.UUID)
		adopted bool // else a person decides
	}{
		"a suspicion that is a week old": {request(), func(t *testing.T, f *fixture, lost uuid.UUID) {
			read(t, f, lost)
			f.exec(t, `UPDATE restoration SET suspected = true`)
			f.passes(t, 8*day)
		}, nil, true},
		"a restore of a month ago": {request(), func(t *testing.T, f *fixture, lost uuid.UUID) {
			read(t, f, lost)
			f.passes(t, 30*day+day/2)
		}, nil, true},
		"a restore of a month ago, and sold out": {sold, func(t *testing.T, f *fixture, lost uuid.UUID) {
			read(t, f, lost)
			f.passes(t, 30*day+day/2)
		}, nil, true},
		"seen in a list that is still read, and not in an older one": {request(), func(t *testing.T, f *fixture, lost uuid.UUID) {
			f.readLost(t, nil)
			f.passes(t, inDoubt+time.Minute)
			f.seeing(t, lost)
		}, nil, true},
		"the same, and sold out": {sold, func(t *testing.T, f *fixture, lost uuid.UUID) {
			f.readLost(t, nil)
			f.passes(t, inDoubt+time.Minute)
			f.seeing(t, lost)
		}, nil, true},
		"another account since": {request(), func(t *testing.T, f *fixture, lost uuid.UUID) {
			read(t, f, lost)
			moved(t, f)
		}, nil, false},
		"another account since, and sold out": {sold, read, func(t *testing.T, f *fixture, _ uuid.UUID) { moved(t, f) }, false},
		"another account since, and a person wants it sent": {sold, read, func(t *testing.T, f *fixture, id uuid.UUID) {
			moved(t, f)
			f.begin(t, id, Nothing)
			f.stock(t, "tee", 2)
			if _, err := f.tryRule(t, id, Ruling{As: Processing}); err == nil || !strings.Contains(err.Error(), "pi_lost") {
				t.Errorf("a person may have it sent again: %v", err)
			}
			f.exec(t, `UPDATE charge SET status = 'pending', review_reason = NULL WHERE id = $1`, id) // as an older release's would
		}, false},
		"seen in a list that was given up": {sold, func(t *testing.T, f *fixture, lost uuid.UUID) {
			f.readLost(t, nil)
			f.passes(t, inDoubt+time.Minute)
			f.seeing(t, lost)
		}, func(t *testing.T, f *fixture, _ uuid.UUID) { f.exec(t, `DELETE FROM reading WHERE NOT complete`) }, false},
		"accepted as late, and not late by PostgreSQL's clock": {request(func(r *Request) {
			past := time.Now().Add(-time.Minute)
			r.SendBefore = &past
		}), read, func(t *testing.T, f *fixture, id uuid.UUID) {
			f.exec(t, `UPDATE charge SET send_before = now() + interval '1 hour' WHERE id = $1`, id)
			f.exec(t, `DELETE FROM reading_payment`)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{})
			f.stock(t, "tee", 1)
			f.create(t, sold)
			lost := uuid.New()
			f.restored(t, 0)
			tc.before(t, f, lost)
			a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: lost, Request: tc.request})
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			if tc.after != nil {
				tc.after(t, f, a.ChargeID)
			}
			begun, err := f.Begin(t.Context(), a.ChargeID, f.here(true))
			if err != nil {
				t.Fatal(err)
			}
			if tc.adopted {
				if begun.Action != LookFirst || begun.Read == nil || len(begun.Read.Found) != 1 {
					t.Fatalf("%q, %+v", begun.Action, begun.Read)
				}
				if err := f.Looked(t.Context(), a.ChargeID, begun.Permit, begun.Here, *begun.Read, []News{said("succeeded", "pi_lost")}); err != nil {
					t.Fatal(err)
				}
				c, err := f.Get(t.Context(), "shop", a.ChargeID)
				if err != nil || c.PaymentIntent == nil || *c.PaymentIntent != "pi_lost" || c.Status != Succeeded && *c.Stock != StockReturned {
					t.Errorf("%s, %v, %v", c.Status, c.PaymentIntent, err)
				}
				if n := f.count(t, `SELECT count(*) FROM refund_reading WHERE charge_id = $1`, a.ChargeID); n != 1 {
					t.Error("nobody reads what was refunded since")
				}
			} else if c, err := f.Get(t.Context(), "shop", a.ChargeID); err != nil || c.Status != NeedsReview || c.Review.Reason != paymentFound {
				t.Errorf("%q: %s, %+v, %v", begun.Action, c.Status, c.Review, err)
			}
			if n := f.count(t, `SELECT count(*) FROM attempt WHERE charge_id = $1`, a.ChargeID); n != 0 {
				t.Errorf("%d attempts", n)
			}
			f.lawful(t)
		})
	}
}

// A person who decides is told of which payment.
func TestSeenElsewhereIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	lost := f.lose(t)
	f.home = Account{ID: "acct_new"}
	f.readLost(t, nil)
	a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: lost, Request: request()})
	f.begin(t, a.ChargeID, Nothing)
	if named, _ := f.lastEvent(t, a.ChargeID).Data["payments"].([]any); len(named) != 1 || named[0] != "pi_lost" {
		t.Errorf("%v", f.lastEvent(t, a.ChargeID).Data)
	}
}

// What was read for something else, and tells of what was lost, is kept for as long as that matters.
func TestWhatTellsOfALossIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	quiet := f.create(t, request())
	f.exec(t, `UPDATE charge SET created_at = created_at - interval '30 hours' WHERE id = $1`, quiet)
	f.restored(t, inDoubt+time.Minute)
	begun := f.begin(t, quiet, LookFirst)
	if len(begun.Permit.Restored) != 0 {
		t.Fatalf("%+v", begun.Permit)
	}
	hold, turn, err := f.TakeReading(t.Context(), begun)
	if err != nil || turn != ReadOn {
		t.Fatal(turn, err)
	}
	lost := uuid.New()
	if err := f.SaveReading(t.Context(), &hold, []News{{Payment: Payment{ID: "pi_lost", Key: lost.String()}}}, true, nil); err != nil {
		t.Fatal(err)
	}
	f.beginLost(t, Nothing)
	if f.restorations(t)[0].ReadAt.IsZero() {
		t.Fatal("the other's reading is not good enough")
	}
	f.passes(t, 30*24*time.Hour)
	if _, err := f.RemoveReadings(t.Context()); err != nil {
		t.Fatal(err)
	}
	if listed, err := f.LostPayments(t.Context(), 10); err != nil || len(listed) != 1 || listed[0].Payment != "pi_lost" {
		t.Errorf("%+v, %v", listed, err)
	}
	if a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: lost, Request: selling(one("none"))}); a.Err != nil {
		t.Error(a.Err)
	}
}

// What one account's list tells is not the last word on what was paid at another, or in the other mode.
func TestAnotherModesListIsNotTheLastWord(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.home = Account{ID: "acct_home", Livemode: true}
	f.begin(t, f.create(t, request()), Send)
	f.exec(t, `UPDATE attempt SET id = $1`, firstID(time.Now().Add(-time.Hour))) // which is its time
	f.restored(t, inDoubt+time.Minute)
	f.home.Livemode = false
	f.readLost(t, nil)
	f.beginLost(t, Nothing)
	if !f.restorations(t)[0].ReadAt.IsZero() {
		t.Error("read for good in test mode")
	}
	held := f.create(t, request())
	if b := f.begin(t, held, Misconfigured); !strings.Contains(b.Reason, "another Stripe account or mode") { // after a look at its own list
		t.Error(b.Reason)
	}
	f.home.Livemode = true
	f.readLost(t, nil)
	f.beginLost(t, Nothing)
	if f.restorations(t)[0].ReadAt.IsZero() {
		t.Error("not read for good in live mode")
	}
	f.home.Livemode = false
	f.begin(t, held, Send)
}

// What nobody can read any more is given up by a person, and holds back nothing from then on.
func TestLostIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.begin(t, f.create(t, request()), Send)
	f.restored(t, 0)
	f.home = Account{ID: "acct_new"}
	f.readLost(t, nil)
	held := f.create(t, request())
	f.begin(t, held, Misconfigured)
	for want := range []int64{1, 0} {
		if n, err := f.GiveUpLost(t.Context(), "operator:ada", "the account is closed"); err != nil || n != int64(1-want) {
			t.Errorf("%d, %v", n, err)
		}
	}
	if r := f.restorations(t)[0]; r.Reason != "snapshot; what it has lost was given up by operator:ada: the account is closed" {
		t.Error(r.Reason)
	}
	f.begin(t, held, Send)
	f.beginLost(t, Nothing)
}

// The list has what took money or still may, however far PostgreSQL's clock is from Stripe's; what counts as an alarm has taken it, or holds it.
func TestLostPaymentsAreListed(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		f := newFixture(t, Options{})
		f.clock = f.clock.Add(off)
		f.restored(t, 0)
		hold, _, err := f.TakeReading(t.Context(), f.beginLost(t, LookFirst))
		if err != nil {
			t.Fatal(err)
		}
		var page []News
		for _, status := range []string{"canceled", "processing", "requires_action", "succeeded"} {
			n := said(status, "pi_"+status)
			n.Key = uuid.NewString()
			page = append(page, n)
		}
		if err := f.SaveReading(t.Context(), &hold, page, true, nil); err != nil {
			t.Fatal(err)
		}
		f.beginLost(t, Nothing)
		listed, err := f.LostPayments(t.Context(), 10)
		if err != nil || len(listed) != 3 || listed[2].Status != "succeeded" || listed[2].Amount != 1099 || listed[2].Currency != "usd" || listed[2].Key.String() != page[3].Key {
			t.Errorf("%v off: %+v, %v", off, listed, err)
		}
		if n, err := f.CountLost(t.Context()); err != nil || n != 2 {
			t.Errorf("%v off: %d, %v", off, n, err)
		}
		if some, err := f.LostPayments(t.Context(), 2); err != nil || len(some) != 2 {
			t.Errorf("%+v, %v", some, err)
		}
	}
}

// A key window that is shorter than a payment can linger leaves no early reading; the late one comes all the same, once.
func TestLostWithAShortWindow(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	p.Window = 10 * time.Minute
	f := newFixture(t, Options{Policy: p})
	f.restored(t, 0)
	f.readLost(t, nil)
	f.beginLost(t, Nothing)
	f.passes(t, inDoubt+time.Minute)
	f.readLost(t, nil)
	f.beginLost(t, Nothing)
	if n := f.count(t, `SELECT count(*) FROM reading`); n != 2 {
		t.Errorf("%d readings", n)
	}
}

// A send_before that is too far ahead is a fault like any other.
func TestTooFarAheadIsNotLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	lost := f.lose(t)
	far := time.Now().Add(400 * 24 * time.Hour)
	for _, key := range []uuid.UUID{lost, uuid.New()} {
		a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: key, Request: request(func(r *Request) { r.SendBefore = &far })})
		if at := doubtOf(t, a); !at.IsZero() {
			t.Errorf("%v", a.Err)
		}
	}
}
