package charges

import (
	"testing"
	"time"
)

// I3: what Stripe goes on refusing to cancel ends with a person; an outage does not, and what the person does at Stripe is noticed.
func TestCancelsThatStripeRefusesEndWithAPerson(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	waiting := answered("requires_action", "pi_1")
	waiting.News.ClientSecret = "pi_1_secret_x"
	f.settle(t, f.begin(t, id, Send), waiting)
	cancel := func(o Outcome) (due bool) {
		t.Helper()
		a, due, err := f.BeginCancel(t.Context(), id, f.here(true), 0)
		if err != nil {
			t.Fatal(err)
		}
		if due {
			if err := f.SettleCancel(t.Context(), a, Result{Outcome: o}); err != nil {
				t.Fatal(err)
			}
		}
		return due
	}
	for i := range maxCancels + 5 {
		o := Invalid
		if i < 5 {
			o = NotSent
		}
		if !cancel(o) {
			t.Fatalf("attempt %d is not due", i)
		}
	}
	if got := f.status(t, id); got != RequiresAction {
		t.Fatalf("the charge is %s", got)
	}
	for range 3 {
		if cancel(Invalid) {
			t.Error("another cancel, after a person was asked")
		}
	}
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil || c.Status != NeedsReview || c.Review.Reason != "cancel_refused" {
		t.Errorf("charge %+v, %v", c, err)
	}
	if p, err := f.Follow(t.Context(), id); err != nil || len(p.Payments) != 1 {
		t.Errorf("it is not followed any more: %+v, %v", p, err)
	}
	// What a person decides about it all the same stays so, until Stripe says how it ended.
	f.rule(t, id, Ruling{As: Failed, Force: true})
	for range 3 {
		if cancel(Invalid) {
			t.Error("another cancel, after a person has decided")
		}
	}
	if got := f.status(t, id); got != Failed {
		t.Errorf("called failed by a person, the charge is %s", got)
	}
	news := said("canceled", "pi_1")
	news.AsOf = news.AsOf.Add(time.Second)
	if _, err := f.Hear(t.Context(), id, f.home, news); err != nil {
		t.Fatal(err)
	}
	if p, err := f.Follow(t.Context(), id); err != nil || len(p.Payments) != 0 || f.status(t, id) != Failed {
		t.Errorf("canceled at Stripe, it is still followed: %+v, %v", p, err)
	}
}

// I3: what Stripe did not let us cancel, and was canceled there, is over without a person.
func TestRefusedCancelThatAPersonMakesAtStripe(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	f.settle(t, f.begin(t, id, Send), Result{Outcome: Answered, News: new(acting("pi_1"))})
	if _, err := f.pool.Exec(t.Context(), `UPDATE charge SET status = 'needs_review', review_reason = $2 WHERE id = $1`, id, cancelRefused); err != nil {
		t.Fatal(err)
	}
	news := said("canceled", "pi_1")
	news.AsOf = news.AsOf.Add(time.Second)
	if _, err := f.Hear(t.Context(), id, f.home, news); err != nil {
		t.Fatal(err)
	}
	if got := f.status(t, id); got != Canceled {
		t.Errorf("canceled at Stripe, the charge is %s", got)
	}
}
