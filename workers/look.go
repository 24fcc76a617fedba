package workers

import (
	"context"
	"errors"
	"net/http"
	"slices"
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
// to its end proves anything; one that was cut short is gone on with.
func (w *chargeWorker) look(ctx context.Context, begun charges.Begun) (wait time.Duration, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound)
	defer cancel()
	l, ours := w.readAround(call, begun)
	err = w.charges.Looked(ctx, begun.Charge.ID, begun.Permit, begun.Here, l, ours)
	w.metrics.look(l)
	w.log.Info("charge.look", "charge_id", begun.Charge.ID, "complete", l.Complete, "seen", l.Seen, "found", l.Found, "error", l.Error)
	switch {
	case err != nil || l.Complete:
		return 0, err
	case l.Seen > begun.Resume.Seen:
		return time.Second, nil // it was long, and is getting on
	}
	w.probe.Doubt()
	return jitter(downWait), nil
}

// readAround reads the payments in the windows of the open attempts, from where the look before was cut short, and picks
// those that name the charge's key.
func (w *chargeWorker) readAround(ctx context.Context, begun charges.Begun) (l charges.Look, ours []charges.News) {
	l = begun.Resume
	l.Error = ""
	if l.ID == 0 {
		l.Rest = windows(begun.Permit, begun.Clocks)
	}
	for _, id := range l.Found {
		payment, err := w.gateway.Retrieve(ctx, id)
		if err != nil {
			return w.cutShort(l, err), nil
		}
		ours = append(ours, payment)
	}
	for len(l.Rest) > 0 {
		window := &l.Rest[0]
		query := stripe.Query{From: window.From, To: window.To, After: window.After, Customer: begun.Charge.Customer, Before: w.pace.Wait}
		for payment, err := range w.gateway.List(ctx, query) {
			if err != nil {
				return w.cutShort(l, err), nil
			}
			l.Seen++
			window.After = payment.ID
			if payment.Key == begun.Charge.IdempotencyKey.String() {
				l.Found = append(l.Found, payment.ID)
				ours = append(ours, payment)
			}
		}
		l.Rest = l.Rest[1:]
	}
	l.Complete, l.Rest = true, nil
	return l, ours
}

func (w *chargeWorker) cutShort(l charges.Look, err error) charges.Look {
	if e := (*stripe.Error)(nil); errors.As(err, &e) && e.HTTPStatus == http.StatusTooManyRequests {
		w.pace.Hold(max(e.RetryAfter, time.Second))
	}
	l.Error = err.Error()
	return l
}

// windows are the stretches of Stripe's time in which the attempts' payments must have been created, those that
// overlap made one. Where one of the two clocks was set since an attempt, its date says little, and the stretch goes on until now.
// Without open attempts it is everything since nothing was heard any more.
func windows(p charges.Permit, now charges.Clocks) []charges.Window {
	if len(p.Open) == 0 {
		quiet := now.Database.Sub(p.Since)
		return []charges.Window{{From: now.Stripe.Add(-quiet - lookBefore), To: now.Stripe.Add(lookAfter)}}
	}
	var each []charges.Window
	for _, a := range p.Open {
		first, last := a.StripeSentAt, a.StripeSentAt
		drift := now.Stripe.Sub(a.StripeSentAt) - now.Database.Sub(a.SentAt)
		if drift.Abs() > clockDrift {
			first, last = earlier(first, now.Stripe), later(last, now.Stripe)
		}
		each = append(each, charges.Window{From: first.Add(-lookBefore), To: last.Add(lookAfter)})
	}
	slices.SortFunc(each, func(a, b charges.Window) int { return a.From.Compare(b.From) })
	var merged []charges.Window
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
