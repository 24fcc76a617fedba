package workers

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
)

// The window around an attempt in which its payment must have been created, by Stripe's clock: some minutes for the
// difference between our notion of it and its own, and for a request that lingered.
const (
	lookBefore = 5 * time.Minute
	lookAfter  = 10 * time.Minute
	lookBound  = 40 * time.Second

	// clockDrift is by how much Stripe's clock and PostgreSQL's may have moved against each other since an attempt before
	// its date is not trusted any more. Servers' clocks agree to the second; an answer's Date may be a minute old.
	clockDrift = 2 * time.Minute
)

// look reads Stripe's list of payments around the open attempts and writes down what it saw. Only a list that was read
// to its end proves anything; one that was not is recorded as such and tried again.
func (w *chargeWorker) look(ctx context.Context, begun charges.Begun) (wait time.Duration, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound)
	defer cancel()
	l, ours := w.readAround(call, begun)
	change := charges.Change{}
	if l.Complete {
		change = Adopt(begun.Charge, begun.Open[0].Account, ours)
	}
	err = w.charges.Looked(ctx, begun.Charge.ID, begun.Permit, l, change)
	w.metrics.look(l)
	w.log.Info("charge.look", "charge_id", begun.Charge.ID, "complete", l.Complete, "seen", l.Seen, "found", l.Found,
		"status", change.To, "reason", change.Reason, "error", l.Error)
	if err != nil || l.Complete {
		return 0, err
	}
	w.probe.Doubt()
	return jitter(downWait), nil
}

// readAround reads every payment in the windows of the open attempts, and picks those that name the charge's key.
func (w *chargeWorker) readAround(ctx context.Context, begun charges.Begun) (charges.Look, []charges.Payment) {
	var l charges.Look
	var ours []charges.Payment
	key := begun.Charge.IdempotencyKey.String()
	for _, window := range windows(begun.Open, begun.Clocks) {
		window.Customer = begun.Charge.Customer
		for payment, err := range w.gateway.List(ctx, window) {
			if err != nil {
				l.Error = err.Error()
				return l, nil
			}
			l.Seen++
			if payment.Key == key {
				ours = append(ours, payment)
			}
		}
	}
	l.Complete = true
	ids := make([]string, len(ours))
	for i, p := range ours {
		ids[i] = p.ID
	}
	l.Found = strings.Join(ids, " ")
	return l, ours
}

// windows are the stretches of Stripe's time in which the attempts' payments must have been created, those that
// overlap made one. Where one of the two clocks was set since an attempt, its date says little, and the stretch goes on until now.
func windows(open []charges.Attempt, now charges.Clocks) []stripe.Query {
	var each []stripe.Query
	for _, a := range open {
		first, last := a.StripeSentAt, a.StripeSentAt
		drift := now.Stripe.Sub(a.StripeSentAt) - now.Database.Sub(a.SentAt)
		if drift.Abs() > clockDrift {
			first, last = earlier(first, now.Stripe), later(last, now.Stripe)
		}
		each = append(each, stripe.Query{From: first.Add(-lookBefore), To: last.Add(lookAfter)})
	}
	slices.SortFunc(each, func(a, b stripe.Query) int { return a.From.Compare(b.From) })
	var merged []stripe.Query
	for _, w := range each {
		if n := len(merged); n > 0 && !w.From.After(merged[n-1].To) {
			merged[n-1].To = later(merged[n-1].To, w.To)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Adopt says what follows for a charge from the payments that name its key, all of them: none changes nothing, one that
// agrees with the charge is the operation's result, and whatever else was found is for a person to see, never "none".
func Adopt(c charges.Charge, at charges.Account, ours []charges.Payment) charges.Change {
	for _, p := range ours {
		if p.Amount != c.Amount || p.Currency != c.Currency || p.Livemode != at.Livemode {
			return charges.Change{To: charges.NeedsReview, Reason: "payment_differs"}
		}
	}
	switch len(ours) {
	case 0:
		return charges.Change{}
	case 1:
		return ChangeFor(ours[0])
	}
	return charges.Change{To: charges.NeedsReview, Reason: "duplicate_payment"}
}
