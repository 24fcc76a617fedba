package workers

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// rule settles a charge in review as a person who looks at Stripe and may err. It tells whether that was accepted.
func (w *world) rule(i int, as charges.Status, force bool, more ...func(*charges.Ruling)) bool {
	w.t.Helper()
	c, r := w.get(w.ids[i]), charges.Ruling{As: as, Because: "a test", Actor: "operator:ann", Force: force}
	var short []charges.Shortage
	switch as {
	case charges.Succeeded:
		if r.Payment = w.paid(i); r.Payment == "" {
			return false // what nobody has paid, nobody calls paid
		}
	case charges.Processing:
		r.NewKey = c.Review.Reason == "stored_failure"
	}
	for _, also := range more {
		also(&r)
	}
	if *stockOf(c) == charges.StockReturned && as != charges.Failed && as != charges.Canceled {
		short = w.short(c.Items)
	}
	_, err := w.charges.Rule(context.Background(), c.ID, r)
	refusal := (*charges.RulingError)(nil)
	switch {
	case errors.As(err, &refusal):
		w.t.Logf("charge %d is not %s: %v", i, as, err)
		return false
	case err != nil:
		w.t.Fatal(err)
	case len(short) > 0 && !r.WithoutItems && !r.Restock:
		w.t.Fatalf("stock: charge %d was settled as %s without what it asks for: %+v", i, as, short)
	}
	w.t.Logf("charge %d is %s, says a person", i, as)
	if w.without[i] = r.WithoutItems; r.Restock {
		for _, s := range short {
			w.stocked[s.SKU] += s.Requested - s.Available
		}
	}
	if over := as == charges.Failed || as == charges.Canceled; over && (w.paid(i) != "" || slices.ContainsFunc(w.asleep, func(r *run) bool { return r.charge == c.ID })) {
		w.excused[i] = true
	}
	return true
}

// withoutItems and restocking are what a person can say of items that were given back.
func withoutItems(r *charges.Ruling) { r.WithoutItems = true }

func restocking(r *charges.Ruling) { r.Restock = true }

// mustRule settles a charge whatever the facts are.
func (w *world) mustRule(i int, r charges.Ruling) {
	w.t.Helper()
	r.Because, r.Actor, r.Force = "a test", "operator:ann", true
	if _, err := w.charges.Rule(context.Background(), w.ids[i], r); err != nil {
		w.t.Fatal(err)
	}
	w.check()
}

// stockOf is where a charge's items are; empty: it has none.
func stockOf(c charges.Charge) *charges.Stock {
	if c.Stock == nil {
		return new(charges.Stock)
	}
	return c.Stock
}

// paid is the payment of a charge that took money, whoever knows of it; empty: there is none.
func (w *world) paid(i int) string {
	for _, p := range w.sandbox.Ledger().PaymentIntents {
		if p.Metadata["oncepay_key"] == w.posts[i].Key.String() && p.Status == "succeeded" {
			return p.ID
		}
	}
	return ""
}

// misjudge has a charge paid while nobody hears of it, and a person who does not look call it failed: what Stripe says later comes too late.
func (w *world) misjudge(i int) {
	w.t.Helper()
	job := func(f sandbox.Fault) { w.work(0, w.jobOf(i, outbox.KindCharge), moment{}, onCreating(f)...) }
	job(sandbox.Fault{Kind: sandbox.DropAfter})
	w.check()
	job(sandbox.Fault{Kind: sandbox.Status, Status: 403})
	w.check()
	if c := w.get(w.ids[i]); c.Status == charges.NeedsReview {
		w.rule(i, charges.Failed, true)
	}
	w.check()
}

// tellPaid delivers what Stripe has told of a charge's payment that has succeeded.
func (w *world) tellPaid(i int) {
	w.t.Helper()
	payment := w.paid(i)
	for n, e := range w.sandbox.Events() {
		if e.About == payment && e.Type == "payment_intent.succeeded" {
			w.tell(n)
		}
	}
	w.check()
}

// tellPaidAgain has Stripe say so in an event of its own.
func (w *world) tellPaidAgain(i int) {
	w.t.Helper()
	payment := w.paid(i)
	for _, e := range w.sandbox.Events() {
		if e.About != payment || e.Type != "payment_intent.succeeded" {
			continue
		}
		if _, err := w.charges.TakeStripeEvent(context.Background(), bytes.ReplaceAll(e.Payload, []byte(e.ID), []byte("evt_"+uuid.NewString()))); err != nil {
			w.t.Fatal(err)
		}
	}
	w.check()
}

// ruleAll settles all that waits for a person, who is right this time and sees to it that there is enough. It tells whether there was anything.
func (w *world) ruleAll() (any bool) {
	w.t.Helper()
	for i, id := range w.ids {
		c := w.get(id)
		if c.Status != charges.NeedsReview {
			continue
		}
		any = true
		as, force := charges.Failed, true
		if w.paid(i) != "" {
			as, force = charges.Succeeded, false
			if short := w.short(c.Items); *stockOf(c) == charges.StockReturned && len(short) > 0 {
				if w.rule(i, as, false) {
					w.t.Fatalf("stock: charge %d is settled while short of %+v", i, short)
				}
				for _, s := range short {
					w.stock(s.SKU, w.stocked[s.SKU]+s.Requested-s.Available)
				}
			}
		}
		if !w.rule(i, as, force) {
			w.t.Fatalf("charge %d waits for a person who cannot settle it: %+v", i, c.Review)
		}
		w.check()
	}
	return any
}
