package charges

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The table of what a person may decide on which evidence. why is a part of the refusal; "": it is allowed.
func TestRulings(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pi := func(id, status string) paymentState {
		s := paymentState{News: News{Payment: Payment{ID: id, Status: status}}}
		if status == "succeeded" {
			s.Received = 1099
		}
		return s
	}
	lost := pi("pi_1", "requires_payment_method") // declined, and nobody ever had its client secret
	lost.Failure = &Failure{Code: "card_declined"}
	tried := func(o Outcome, code string, age time.Duration) Attempt {
		return Attempt{Number: 1, ProviderKey: "k1", SentAt: now.Add(-age), StripeSentAt: now.Add(-age), EndedAt: now.Add(-age), Outcome: o, Code: code}
	}
	looked := func(age time.Duration, found ...string) Look {
		return Look{At: now.Add(-age), Complete: true, Found: found}
	}
	restored := []Restoration{{ID: 1, DetectedAt: now.Add(-2 * time.Hour), LostFrom: now.Add(-3 * time.Hour)}}
	lookedFor := looked(time.Hour)
	lookedFor.Restoration = 1
	early := looked(2*time.Hour - time.Minute)
	early.Restoration = 1
	read := []Restoration{restored[0]}
	read[0].ReadAt = now.Add(-time.Hour)
	seen := Look{Found: []string{"pi_7"}} // under the key, in a list that was read for others
	cutShort := looked(time.Hour)
	cutShort.Complete = false
	stored := []Attempt{tried(StoredFailure, "", 2*time.Hour)}
	storedLooks := []Look{looked(30 * time.Minute)}
	own := func(id string) *string { return &id }
	const never, force = false, true // whether --force helps
	for _, tc := range []struct {
		name     string
		as       Status
		named    string
		captured int64
		newKey   bool
		own      *string
		payments []paymentState
		refunded map[string]int64
		attempts []Attempt
		looks    []Look
		restored []Restoration
		why      string
		forced   bool
	}{
		{name: "succeeded, without a payment", as: Succeeded, why: "name the one"},
		{name: "succeeded, named", as: Succeeded, named: "pi_9"},
		{name: "succeeded, named by what is no payment", as: Succeeded, named: "ch_9", why: "not the id of a payment"},
		{name: "succeeded, less was captured", as: Succeeded, named: "pi_9", captured: 500},
		{name: "succeeded, more was captured", as: Succeeded, named: "pi_9", captured: 1100, why: "cannot have been charged 1100"},
		{name: "succeeded, on record", as: Succeeded, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded")}},
		{name: "succeeded, on record with another amount", as: Succeeded, captured: 5, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded")}, why: "took 1099"},
		{name: "succeeded, another than is on record", as: Succeeded, named: "pi_9", own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded")}, why: "has told us of the payment pi_1"},
		{name: "succeeded, on record as canceled", as: Succeeded, own: own("pi_1"), payments: []paymentState{pi("pi_1", "canceled")}, why: "canceled, which is for good"},
		{name: "succeeded, on record as unknown", as: Succeeded, own: own("pi_1"), payments: []paymentState{pi("pi_1", "settling")}, why: "told us of pi_1 is settling", forced: force},
		{name: "succeeded, two took money", as: Succeeded, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded"), pi("pi_2", "succeeded")}, why: "refund it at Stripe first", forced: force},
		{name: "succeeded, the other was refunded", as: Succeeded, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded"), pi("pi_2", "succeeded")}, refunded: map[string]int64{"pi_2": 1099}},
		{name: "succeeded, the second one counts", as: Succeeded, named: "pi_2", own: own("pi_1"), payments: []paymentState{pi("pi_1", "canceled"), pi("pi_2", "succeeded")}},
		{name: "succeeded, the other can still be paid", as: Succeeded, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded"), pi("pi_2", "processing")}, why: "cancel it at Stripe first", forced: force},

		{name: "succeeded, by the one that was found", as: Succeeded, named: "pi_7", looks: []Look{looked(time.Hour, "pi_7")}},
		{name: "succeeded, by another than was found", as: Succeeded, named: "pi_9", looks: []Look{looked(time.Hour, "pi_7")}, why: "found the payment pi_7", forced: force},

		{name: "failed, nothing known", as: Failed, attempts: []Attempt{tried(Refused, "idempotency_error", time.Hour)}},
		{name: "failed, after a stored failure", as: Failed, attempts: stored, looks: storedLooks},
		{name: "failed, and paid", as: Failed, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded")}, why: "the buyer has paid", forced: never},
		{name: "failed, and paid and refunded", as: Failed, own: own("pi_1"), payments: []paymentState{pi("pi_1", "succeeded")}, refunded: map[string]int64{"pi_1": 1099}, why: "the buyer has paid"},
		{name: "failed, and can be paid", as: Failed, own: own("pi_1"), payments: []paymentState{pi("pi_1", "requires_action")}, why: "can still take", forced: force},
		{name: "failed, and canceled there", as: Failed, own: own("pi_1"), payments: []paymentState{pi("pi_1", "canceled")}},
		{name: "failed, and nobody can pay it", as: Failed, own: own("pi_1"), payments: []paymentState{lost}},
		{name: "failed, and one was found", as: Failed, attempts: stored, looks: []Look{looked(time.Hour, "pi_7")}, why: "a payment with the charge's key, pi_7", forced: force},
		{name: "failed, and nobody has looked", as: Failed, attempts: stored, why: "attempt 1 may have moved money", forced: force},
		{name: "failed, looked too early", as: Failed, attempts: stored, looks: []Look{looked(2*time.Hour - inDoubt + time.Second)}, why: "attempt 1 may have", forced: force},
		{name: "failed, looked late enough", as: Failed, attempts: stored, looks: []Look{looked(2*time.Hour - inDoubt)}},
		{name: "failed, and the look was cut short", as: Failed, attempts: stored, looks: []Look{cutShort}, why: "attempt 1 may have", forced: force},
		{name: "failed, and the look was at what a restore lost", as: Failed, attempts: stored, looks: []Look{lookedFor}, why: "attempt 1 may have", forced: force},
		{name: "canceled, an older attempt is open", as: Canceled, attempts: []Attempt{tried(Unknown, "", time.Hour), tried(Refused, "", time.Minute)}, why: "(--as resend)", forced: force},
		{name: "failed, after a restore", as: Failed, attempts: stored, looks: storedLooks, restored: restored, why: "the database was restored", forced: force},
		{name: "failed, and nothing was sent before the restore", as: Failed, restored: restored, why: "the database was restored", forced: force},
		{name: "failed, looked for after a restore", as: Failed, attempts: stored, looks: append([]Look{lookedFor}, storedLooks...), restored: restored},
		{name: "failed, looked for too early after a restore", as: Failed, attempts: stored, looks: append([]Look{early}, storedLooks...), restored: restored, why: "the database was restored", forced: force},
		{name: "failed, when all that a restore has lost was read", as: Failed, attempts: stored, looks: storedLooks, restored: read},
		{name: "failed, and one was seen", as: Failed, attempts: stored, looks: append([]Look{seen}, storedLooks...), restored: read, why: "a payment with the charge's key, pi_7", forced: force},
		{name: "failed, and canceled there, after a restore", as: Failed, own: own("pi_1"), payments: []paymentState{pi("pi_1", "canceled")}, restored: restored},
		{name: "failed, in a call", as: Failed, attempts: []Attempt{tried(Unseen, "", 10*time.Second)}, why: "still be going on"},
		{name: "canceled, in a call", as: Canceled, attempts: []Attempt{tried(Unseen, "", 10*time.Second)}, why: "still be going on"},
		{name: "canceled, naming a payment", as: Canceled, named: "pi_1", why: "only where it has succeeded"},
		{name: "canceled under a new key", as: Canceled, newKey: true, why: "a new key is for"},

		{name: "again, after a 403", as: Processing, attempts: []Attempt{tried(Refused, "", time.Hour)}},
		{name: "again, after a 403 long ago: the fold looks first", as: Processing, attempts: []Attempt{tried(Refused, "", 48*time.Hour)}},
		{name: "again, with a payment", as: Processing, own: own("pi_1"), payments: []paymentState{pi("pi_1", "canceled")}, why: "never sent again"},
		{name: "again, with one of an older release", as: Processing, own: own("pi_1"), why: "never sent again"},
		{name: "again, with one that was found", as: Processing, attempts: stored, looks: []Look{looked(time.Hour, "pi_7")}, newKey: true, why: "never sent again"},
		{name: "again, after another request under the key", as: Processing, attempts: []Attempt{tried(Refused, "idempotency_error", time.Hour)}, why: "idempotency_error"},
		{name: "again, after another request under the key, under a new one", as: Processing, newKey: true, attempts: []Attempt{tried(Refused, "idempotency_error", time.Hour)}, why: "only for a failure that Stripe has stored"},
		{name: "again, answered", as: Processing, attempts: []Attempt{tried(Answered, "", time.Hour)}, why: "has given its answer"},
		{name: "again, after a stored failure", as: Processing, attempts: stored, looks: storedLooks, why: "order a new key"},
		{name: "under a new key, after a stored failure", as: Processing, newKey: true, attempts: stored, looks: storedLooks},
		{name: "under a new key, after a 403", as: Processing, newKey: true, attempts: []Attempt{tried(Refused, "", time.Hour)}, why: "only for a failure that Stripe has stored"},
		{name: "as what only Stripe can say", as: RequiresCapture, why: "nobody can settle"},
	} {
		d := dossier{charge: Charge{Status: NeedsReview, Review: &Review{Reason: "any"}, CreatedAt: now.Add(-50 * time.Hour), PaymentIntent: tc.own, Request: Request{Amount: 1099}},
			payments: tc.payments, refunded: tc.refunded, attempts: tc.attempts, looks: tc.looks, restored: tc.restored, now: now, policy: DefaultPolicy}
		r := Ruling{As: tc.as, Payment: tc.named, Captured: tc.captured, NewKey: tc.newKey, Because: "seen at Stripe"}
		err := r.check(d)
		refused := (*RulingError)(nil)
		if errors.As(err, &refused) != (tc.why != "") || refused != nil && (!strings.Contains(refused.Why, tc.why) || refused.Forceable != tc.forced) {
			t.Errorf("%s: %v (force helps: %v), want %q", tc.name, err, refused != nil && refused.Forceable, tc.why)
		}
		r.Force = true
		if err := r.check(d); (err == nil) != (tc.why == "" || tc.forced) {
			t.Errorf("%s, by force: %v", tc.name, err)
		}
		r.Because = " \n"
		if r.check(d) == nil {
			t.Errorf("%s: without a reason", tc.name)
		}
		d.charge.Status, r.Because = Succeeded, "again"
		if r.check(d) == nil {
			t.Errorf("%s: of a charge that waits for nobody", tc.name)
		}
	}
}

// parked is a charge that one attempt has brought to a person.
func (f *fixture) parked(t *testing.T, r Result, reason string, change ...func(*Request)) uuid.UUID {
	t.Helper()
	id := f.create(t, request(change...))
	r.Change = Change{To: NeedsReview, Reason: reason}
	f.settle(t, f.begin(t, id, Send), r)
	if got := f.status(t, id); got != NeedsReview {
		t.Fatalf("parked: %s", got)
	}
	return id
}

func (f *fixture) rule(t *testing.T, id uuid.UUID, r Ruling) Charge {
	t.Helper()
	c, err := f.tryRule(t, id, r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fixture) tryRule(t *testing.T, id uuid.UUID, r Ruling) (Charge, error) {
	t.Helper()
	if r.Because == "" {
		r.Because = "seen at Stripe"
	}
	r.Actor = "operator:ann"
	return f.Rule(t.Context(), id, r)
}

// lastEvent is the newest line of a charge's trail.
func (f *fixture) lastEvent(t *testing.T, id uuid.UUID) Event {
	t.Helper()
	events, _, err := f.Events(t.Context(), "shop", id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return events[len(events)-1]
}

func mailedTo(r *Request) { r.ReceiptEmail = "buyer@example.com" }

// I7: a person's word that a payment has succeeded has all that Stripe's has, and a line in the trail; Stripe's own word comes after it.
func TestRuledSucceeded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.parked(t, Result{Outcome: Refused, Code: idempotencyError}, idempotencyError, mailedTo)
	c := f.rule(t, id, Ruling{As: Succeeded, Payment: "pi_9", Captured: 1000, Because: "found it\nat Stripe"})
	if c.Status != Succeeded || *c.PaymentIntent != "pi_9" || c.AmountCaptured != 1000 || c.Review != nil || c.Receipt == nil || c.Receipt.Status != ReceiptPending {
		t.Errorf("charge %+v", c)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'receipt_send' AND args ->> 'charge_id' = $1`, id.String()); n != 1 {
		t.Errorf("%d jobs for the receipt", n)
	}
	e := f.lastEvent(t, id)
	if e.Type != "charge.succeeded" || *e.From != NeedsReview || e.Actor != "operator:ann" || e.Data["because"] != "found it at Stripe" ||
		e.Data["review"] != idempotencyError || e.Data["payment_intent"] != "pi_9" {
		t.Errorf("event %+v", e)
	}
	if _, err := f.tryRule(t, id, Ruling{As: Failed}); !errors.As(err, new(*RulingError)) {
		t.Errorf("a second ruling: %v", err)
	}
	if note, err := f.Hear(t.Context(), id, f.home, said("succeeded", "pi_9")); note != Taken || err != nil {
		t.Errorf("Stripe says so, too: %q, %v", note, err)
	}

	// A payment is one charge's. Nothing of a ruling that is refused stays.
	other := f.parked(t, Result{Outcome: Refused, Code: idempotencyError}, idempotencyError, mailedTo)
	if _, err := f.tryRule(t, other, Ruling{As: Succeeded, Payment: "pi_9", Force: true}); err == nil || !strings.Contains(err.Error(), "belongs to another charge") {
		t.Errorf("another charge's payment: %v", err)
	}
	if got := f.status(t, other); got != NeedsReview || f.count(t, `SELECT count(*) FROM receipt WHERE charge_id = $1`, other) != 0 {
		t.Errorf("after a refused ruling the charge is %s", got)
	}
	if _, err := f.tryRule(t, uuid.New(), Ruling{As: Failed}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown charge: %v", err)
	}
}

// Stripe outranks a person who said that a payment has taken the money: what says otherwise is an alarm, and waits for a person until it is
// settled again, or Stripe says that it did.
func TestRuledSucceededAndContradicted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	declined := Failure{Code: "card_declined", Advice: NewPaymentMethod}
	for _, status := range []string{"requires_payment_method", "requires_action", "processing", "requires_capture", "canceled"} {
		for _, open := range []bool{false, true} { // whether the payment was on record
			t.Run(fmt.Sprint(status, " ", open), func(t *testing.T) {
				id := f.parked(t, Result{Outcome: Refused, Code: idempotencyError}, idempotencyError)
				payment := "pi_" + strings.ReplaceAll(id.String(), "-", "")
				if open {
					f.hear(t, id, said("settling", payment))
				}
				f.rule(t, id, Ruling{As: Succeeded, Payment: payment, Force: open})
				n := said(status, payment)
				n.Failure = &declined
				if note := f.hear(t, id, n); note != RulingContradicted {
					t.Errorf("note %q", note)
				}
				c, err := f.Get(t.Context(), "shop", id)
				if err != nil || c.Status != NeedsReview || c.Review.Reason != "ruling_contradicted" {
					t.Fatalf("%+v, %v", c, err)
				}
				if following, err := f.Follow(t.Context(), id); err != nil || (len(following.Payments) == 1) == (status == "canceled" || status == "requires_payment_method") {
					t.Errorf("followed: %v, %v", following.Payments, err)
				}
				n.AsOf = n.AsOf.Add(time.Second)
				if note := f.hear(t, id, n); note != Taken || f.status(t, id) != NeedsReview {
					t.Errorf("told again: %q, %s", note, f.status(t, id))
				}
				if e := f.lastEvent(t, id); e.Type != "charge.needs_review" {
					t.Errorf("told again, the trail grows: %+v", e)
				}
				if status == "canceled" {
					f.rule(t, id, Ruling{As: Failed})
					return
				}
				n = said("succeeded", payment)
				n.Received = n.Amount
				if note := f.hear(t, id, n); note != Taken || f.status(t, id) != Succeeded {
					t.Errorf("taken after all: %q, %s", note, f.status(t, id))
				}
			})
		}
	}
}

// I2: what a person called failed, and was paid after all, is succeeded with an alarm, as for any other charge.
func TestRuledFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.parked(t, Result{Outcome: Refused, Code: idempotencyError}, idempotencyError, func(r *Request) { r.Reference = "order-1" })
	c := f.rule(t, id, Ruling{As: Failed})
	if c.Status != Failed || c.Failure == nil || c.Failure.Code != "reviewed" {
		t.Errorf("charge %+v", c)
	}
	f.create(t, request(func(r *Request) { r.Reference = "order-1" })) // which it does not hold any more
	if note, err := f.Hear(t.Context(), id, f.home, said("succeeded", "pi_1")); note != PaidAfterEnd || err != nil {
		t.Errorf("note %q, %v", note, err)
	}
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("status %s", got)
	}
}

// I2: money may have moved where an attempt is open that nobody has looked for, or where a restore has lost what was sent: a person who has not
// looked either is told so.
func TestRuledWithoutALook(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	refused := func(id uuid.UUID, why string) {
		t.Helper()
		_, err := f.tryRule(t, id, Ruling{As: Failed})
		if e := (*RulingError)(nil); !errors.As(err, &e) || !e.Forceable || !strings.Contains(e.Why, why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
	open := f.create(t, request())
	f.settle(t, f.begin(t, open, Send), Result{Outcome: Unknown})
	f.settle(t, f.begin(t, open, Send), Result{Outcome: Refused, HTTPStatus: 403, Change: Change{To: NeedsReview, Reason: "forbidden"}})
	refused(open, "attempt 1 may have moved money")

	id := f.parked(t, Result{Outcome: Refused, HTTPStatus: 403}, "forbidden")
	if _, err := f.ConfirmIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.elsewhere(t, `timeline = '0000000F'`) // which no worker has noticed yet
	refused(id, "the database was restored")
	if _, err := f.DeclareRestored(t.Context(), time.Now().Add(-time.Minute), "operator:test", "a snapshot"); err != nil {
		t.Fatal(err)
	}
	refused(id, "the database was restored")
	if c := f.rule(t, id, Ruling{As: Failed, Force: true}); c.Status != Failed {
		t.Errorf("by force: %s", c.Status)
	}
	f.rule(t, open, Ruling{As: Processing}) // which finds it out
}

// I2: what is sent again is sent as the fold says: after a 403 the same bytes under the same key.
func TestRuledToBeSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.parked(t, Result{Outcome: Refused}, "forbidden")
	if _, err := f.pool.Exec(t.Context(), `DELETE FROM river_job`); err != nil {
		t.Fatal(err)
	}
	f.rule(t, id, Ruling{As: Processing})
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND args ->> 'charge_id' = $1`, id.String()); n != 1 {
		t.Errorf("%d jobs", n)
	}
	again := f.begin(t, id, Send)
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil {
		t.Fatal(err)
	}
	if again.Attempt.Number != 2 || again.Attempt.ProviderKey != c.IdempotencyKey.String() {
		t.Errorf("attempt %+v", again.Attempt)
	}
	f.settle(t, again, paid)
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("status %s", got)
	}
}

// I2: an order of a new key holds for one attempt, and not without another look.
func TestRuledUnderANewKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Policy: Policy{Window: 23 * time.Hour, LookDelays: []time.Duration{0}}})
	id := f.create(t, request())
	stored := Result{Outcome: StoredFailure, HTTPStatus: 500}
	f.settle(t, f.begin(t, id, Send), stored)
	look := func() {
		t.Helper()
		b := f.begin(t, id, LookFirst)
		if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	look()
	f.begin(t, id, Nothing) // a person is asked
	f.rule(t, id, Ruling{As: Processing, NewKey: true})
	if _, err := f.pool.Exec(t.Context(), `UPDATE look SET looked_at = looked_at - interval '61 seconds'`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `UPDATE attempt SET sent_at = sent_at - interval '2 minutes', ended_at = ended_at - interval '2 minutes'`); err != nil {
		t.Fatal(err)
	}
	look()
	again := f.begin(t, id, Send)
	if !strings.HasPrefix(again.Attempt.ProviderKey, "charge:") {
		t.Errorf("key %s", again.Attempt.ProviderKey)
	}
	f.settle(t, again, stored)
	look()
	f.begin(t, id, Nothing)
	if c, err := f.Get(t.Context(), "shop", id); err != nil || c.Status != NeedsReview || c.Review.Reason != "stored_failure" {
		t.Errorf("the order held for more than one attempt: %+v, %v", c, err)
	}
}

// I2: of two payments, the one that the person names is the charge's; what was known when it was settled does not raise it again.
func TestRuledDuplicate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request(mailedTo))
	f.settle(t, f.begin(t, id, Send), paid)
	second := said("succeeded", "pi_2")
	hear := func(n News) {
		t.Helper()
		if note, err := f.Hear(t.Context(), id, f.home, n); note != DuplicatePayment || err != nil {
			t.Fatalf("note %q, %v", note, err)
		}
	}
	second.Received = 1099
	hear(second)
	if _, err := f.tryRule(t, id, Ruling{As: Succeeded}); err == nil || !strings.Contains(err.Error(), "refund it at Stripe first") {
		t.Errorf("with two that took money: %v", err)
	}
	if _, err := f.HearRefunds(t.Context(), id, []RefundNews{{ID: "re_1", Payment: "pi_2", Amount: 1099, Currency: "usd", Status: "succeeded", AsOf: time.Now()}}, nil); err != nil {
		t.Fatal(err)
	}
	c := f.rule(t, id, Ruling{As: Succeeded})
	if c.Status != Succeeded || *c.PaymentIntent != "pi_1" || c.AmountRefunded != 0 {
		t.Errorf("charge %+v", c)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'receipt_send'`); n != 1 {
		t.Errorf("%d receipts", n)
	}
	hear(second)
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("the same news made it %s", got)
	}
	third := said("succeeded", "pi_3")
	hear(third)
	if got := f.status(t, id); got != NeedsReview {
		t.Errorf("a third payment left it %s", got)
	}
}

// One of many who decide at once is followed, and each is told the truth.
func TestRulingsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for range 10 {
		id := f.parked(t, Result{Outcome: Refused, Code: idempotencyError}, idempotencyError)
		rulings := []Ruling{{As: Failed}, {As: Canceled}, {As: Succeeded, Payment: "pi_" + strings.ReplaceAll(id.String(), "-", "")}}
		errs := make([]error, len(rulings))
		var all sync.WaitGroup
		for i, r := range rulings {
			all.Go(func() { _, errs[i] = f.tryRule(t, id, r) })
		}
		all.Wait()
		won := 0
		for i, err := range errs {
			switch refused := (*RulingError)(nil); {
			case err == nil:
				won++
				if got := f.status(t, id); got != rulings[i].As {
					t.Errorf("%s won, and the charge is %s", rulings[i].As, got)
				}
			case !errors.As(err, &refused) || !strings.Contains(refused.Why, "there is nothing to settle"):
				t.Errorf("%s: %v", rulings[i].As, err)
			}
		}
		if won != 1 {
			t.Errorf("%d rulings won", won)
		}
	}
}

// I2: whether a person or Stripe is first, money that moved is never called failed.
func TestRulingAndNewsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for i := range 10 {
		id := f.parked(t, Result{Outcome: Refused, Code: idempotencyError}, idempotencyError, mailedTo)
		var both sync.WaitGroup
		var ruled, heard error
		var note Note
		both.Go(func() { _, ruled = f.tryRule(t, id, Ruling{As: Failed}) })
		both.Go(func() { note, heard = f.Hear(t.Context(), id, f.home, said("succeeded", fmt.Sprintf("pi_%d", i))) })
		both.Wait()
		if heard != nil || ruled != nil && !errors.As(ruled, new(*RulingError)) || (ruled == nil) != (note == PaidAfterEnd) {
			t.Errorf("ruling: %v; news: %q, %v", ruled, note, heard)
		}
		if got := f.status(t, id); got != Succeeded || f.receipt(t, id) != ReceiptPending {
			t.Errorf("status %s", got)
		}
	}
}

// Whoever must decide sees all that is known.
func TestEvidence(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.parked(t, Result{Outcome: Refused, HTTPStatus: 403, RequestID: "req_1"}, "forbidden")
	f.create(t, request()) // which waits for nobody
	list, more, err := f.Reviews(t.Context(), 10)
	if err != nil || more || len(list) != 1 || list[0].Charge.ID != id || list[0].Charge.Review.Reason != "forbidden" || list[0].Caller != "shop" {
		t.Errorf("reviews: %+v, %v, %v", list, more, err)
	}
	e, err := f.Evidence(t.Context(), id)
	if err != nil || len(e.Attempts) != 1 || *e.Attempts[0].RequestID != "req_1" || *e.Attempts[0].HTTPStatus != 403 || *e.Attempts[0].Outcome != Refused {
		t.Errorf("evidence: %+v, %v", e, err)
	}
	if len(e.Events) != 3 || len(e.Looks) != 0 || len(e.Payments) != 0 || e.Receipt != nil {
		t.Errorf("evidence: %+v", e)
	}
	if _, err := f.Evidence(t.Context(), uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown charge: %v", err)
	}
}
