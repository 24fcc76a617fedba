package charges

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// hear takes news as an event would bring them.
func (f *fixture) hear(t *testing.T, id uuid.UUID, n News) (note Note) {
	t.Helper()
	err := outbox.InTx(t.Context(), f.pool, "test", func(tx pgx.Tx) error {
		c, _, err := lockCharge(t.Context(), tx, id)
		if err != nil {
			return err
		}
		took, err := f.takeNews(t.Context(), tx, c, f.home, n, stripeSays, nil)
		note = took.note
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// acting is a payment that waits for its buyer.
func acting(payment string) News {
	n := said("requires_action", payment)
	n.ClientSecret = payment + "_secret_x"
	return n
}

// I2, I7: once an event has told of the payment, a refusal of an attempt says nothing about the charge any more.
func TestRefusalAfterEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for i, refusal := range []Result{
		{Outcome: Invalid, HTTPStatus: 400, Code: "x", Change: Change{To: Failed, Failure: &Failure{Code: "x", Advice: DoNotRetry}}},
		{Outcome: Answered, HTTPStatus: 402, Change: Change{To: Failed, Failure: &Failure{Code: "card_declined", Advice: DoNotRetry}}},
		{Outcome: Refused, HTTPStatus: 403, Change: Change{To: NeedsReview, Reason: "forbidden"}},
	} {
		for _, n := range []News{acting(fmt.Sprint("pi_refused_a", i)), said("succeeded", fmt.Sprint("pi_refused_b", i))} {
			id := f.create(t, request())
			b := f.begin(t, id, Send)
			f.hear(t, id, n)
			before := f.status(t, id)
			f.settle(t, b, refusal)
			if got := f.status(t, id); got != before {
				t.Errorf("%s, then HTTP %d: %s became %s", n.Status, refusal.HTTPStatus, before, got)
			}
		}
	}
}

// A second payment that took money is for a person to see, whatever else the charge needs a person for, and in any order.
func TestSecondPaymentInAnyOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for k, order := range permutations(3) {
		id := f.create(t, request())
		f.begin(t, id, Send)
		first, other := fmt.Sprint("pi_first_", k), fmt.Sprint("pi_other_", k)
		news := []News{said("frozen", first), said("succeeded", first), said("succeeded", other)}
		for _, i := range order {
			f.hear(t, id, news[i])
		}
		if c, err := f.Get(t.Context(), "shop", id); err != nil || c.Review == nil || c.Review.Reason != "duplicate_payment" {
			t.Errorf("order %v: %+v, %v", order, c, err)
		}
	}
}

// A look that finds two payments puts both on record: the one that took money is the charge's, the open one is canceled.
func TestLookFindsTwo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	b := f.begin(t, id, Send)
	err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true, Found: []string{"pi_open", "pi_paid"}},
		[]News{acting("pi_open"), said("succeeded", "pi_paid")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil || c.Review == nil || c.Review.Reason != "duplicate_payment" || *c.PaymentIntent != "pi_paid" {
		t.Errorf("%+v, %v", c, err)
	}
	if a, due, err := f.BeginCancel(t.Context(), id, f.here(true), time.Hour); err != nil || !due || a.Payment != "pi_open" {
		t.Errorf("cancel %q, %v, %v", a.Payment, due, err)
	}
}

// However many events ask for it, a charge is followed by one job; one that is lost is swept up, also where the charge itself is final.
func TestFollowedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	f.begin(t, id, Send)
	f.hear(t, id, acting("pi_once"))
	for i := range 20 {
		raw := fmt.Sprintf(`{"id":"evt_%d","object":"event","api_version":"2025-01-01","type":"payment_intent.requires_action","created":1700000000,"livemode":false,"data":{"object":{"id":"pi_once","object":"payment_intent"}}}`, i)
		if e, err := f.TakeStripeEvent(t.Context(), []byte(raw)); err != nil || e.Status != EventApplied {
			t.Fatal(e, err)
		}
	}
	jobs := func() int {
		return f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'payment_follow' AND args ->> 'charge_id' = $1`, id.String())
	}
	if n := jobs(); n != 1 {
		t.Errorf("%d jobs follow one charge", n)
	}
	f.hear(t, id, said("succeeded", "pi_once"))
	f.hear(t, id, acting("pi_second"))
	if _, err := f.pool.Exec(t.Context(), `DELETE FROM river_job`); err != nil {
		t.Fatal(err)
	}
	if r, err := f.box.Sweep(t.Context(), f.Service); err != nil || r.Enqueued != 1 || jobs() != 1 {
		t.Errorf("%+v, %v; %d jobs", r, err, jobs())
	}
}

// A payment that an older release has put on its charge alone is followed as well.
func TestFollowsWhatIsOnTheChargeAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	f.settle(t, f.begin(t, id, Send), Result{Outcome: Answered, News: new(acting("pi_old"))})
	if _, err := f.pool.Exec(t.Context(), `DELETE FROM payment`); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Follow(t.Context(), id); err != nil || len(got.Payments) != 1 || got.Payments[0] != "pi_old" {
		t.Errorf("%v, %v", got.Payments, err)
	}
}

// I2: a charge that we have called failed has no payment left that somebody could still pay; a declined one that nobody can pay is left alone.
func TestNothingStaysPayable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	cancel := func(id uuid.UUID) (Attempt, bool) {
		t.Helper()
		a, due, err := f.BeginCancel(t.Context(), id, f.here(true), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return a, due
	}

	id := f.create(t, request())
	f.settle(t, f.begin(t, id, Send), Result{Outcome: Invalid, Code: "x", Change: Change{To: Failed, Failure: &Failure{Code: "x", Advice: DoNotRetry}}})
	f.hear(t, id, acting("pi_after"))
	first, due := cancel(id)
	if !due || first.Payment != "pi_after" {
		t.Errorf("cancel %q, %v", first.Payment, due)
	}
	// Stripe repeats a stored answer for a day, so the next cancel has another key; after a lost answer it has the same.
	if err := f.SettleCancel(t.Context(), first, Result{Outcome: Unknown}); err != nil {
		t.Fatal(err)
	}
	second, _ := cancel(id)
	if err := f.SettleCancel(t.Context(), second, Result{Outcome: StoredFailure, HTTPStatus: 500}); err != nil {
		t.Fatal(err)
	}
	third, _ := cancel(id)
	if first.ProviderKey != second.ProviderKey || third.ProviderKey == second.ProviderKey {
		t.Errorf("keys %q, %q, %q", first.ProviderKey, second.ProviderKey, third.ProviderKey)
	}

	id = f.create(t, request())
	f.settle(t, f.begin(t, id, Send), declined("pi_dead"))
	if _, due := cancel(id); due {
		t.Error("a declined payment that nobody can pay is canceled at the cost of a call")
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'payment_follow' AND args ->> 'charge_id' = $1`, id.String()); n != 0 {
		t.Errorf("%d jobs follow a declined payment", n)
	}
}

// Money that moves for a charge which we have called failed is applied, and is an alarm.
func TestPaidAfterEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	f.settle(t, f.begin(t, id, Send), declined("pi_end"))
	n := said("succeeded", "pi_end")
	if note := f.hear(t, id, n); note != PaidAfterEnd || !EventNote(note).Alarm() || f.status(t, id) != Succeeded {
		t.Errorf("note %q, %s", note, f.status(t, id))
	}
	if note := f.hear(t, id, n); note != Taken {
		t.Errorf("heard again: note %q", note)
	}
}
