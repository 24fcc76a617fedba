package workers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
)

// lookBound is for all that one run of a job reads. It leaves the job time to write down what was seen.
const lookBound = 40 * time.Second

// look reads Stripe's list of payments where the charge's may be, and writes down what it saw. Only a list that was read
// to its end proves anything; one that was cut short is gone on with. Charges of one time share one reading of it; a customer's charge
// has the customer's own list, which is short.
func (w *chargeWorker) look(ctx context.Context, begun charges.Begun) (wait time.Duration, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound)
	defer cancel()
	var l charges.Look
	var ours []charges.News
	switch {
	case begun.OwnList(begun.Charge):
		l, ours = w.readAround(call, begun)
	case begun.Read != nil:
		l, ours = w.readFound(call, *begun.Read)
	default:
		var done bool
		if l, wait, done, err = w.readTogether(ctx, call, begun); done || err != nil {
			return wait, err // Begin finds what was read
		}
	}
	if err := w.charges.Looked(ctx, begun.Charge.ID, begun.Permit, begun.Here, l, ours); err != nil {
		return 0, err
	}
	w.reportLook(begun, l)
	switch {
	case l.Complete:
		return 0, nil
	case l.Seen > begun.Resume.Seen && (len(l.Readings) == 0 || call.Err() != nil):
		return time.Second, nil // it was long, and is getting on
	}
	w.probe.Doubt()
	return jitter(downWait), nil
}

// reportLook writes the one wide line of a look.
func (w *chargeWorker) reportLook(begun charges.Begun, l charges.Look) {
	w.metrics.look(l)
	w.log.Info("charge.look", "charge_id", begun.Charge.ID, "complete", l.Complete, "seen", l.Seen, "found", l.Found, "readings", l.Readings,
		"restoration", l.Restoration, "error", l.Error)
}

// reportBegun tells what Begin found out by itself.
func (w *chargeWorker) reportBegun(begun charges.Begun) {
	for _, l := range begun.Looks {
		w.reportLook(begun, l)
	}
	reportRestored(w.log, begun.Detected)
}

// readAround reads the customer's payments in the permit's windows, from where the look before was cut short, and picks
// those that name the charge's key.
func (w *chargeWorker) readAround(ctx context.Context, begun charges.Begun) (l charges.Look, ours []charges.News) {
	l = begun.Resume
	l.Error = ""
	if len(l.Rest) == 0 {
		l.Begun, l.Rest, l.Restoration = begun.Clocks.Database, begun.Windows(begun.Clocks), begun.NewestRestoration()
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

// readFound reads the payments that were found under the charge's key again, for what they are now.
func (w *chargeWorker) readFound(ctx context.Context, l charges.Look) (charges.Look, []charges.News) {
	var ours []charges.News
	for _, id := range l.Found {
		payment, err := charges.News{}, w.pace.Wait(ctx)
		if err == nil {
			payment, err = w.gateway.Retrieve(ctx, id)
		}
		if err != nil {
			l.Complete = false
			return w.cutShort(l, err), nil
		}
		ours = append(ours, payment)
	}
	return l, ours
}

func (w *chargeWorker) cutShort(l charges.Look, err error) charges.Look {
	w.heed(err)
	l.Error = err.Error()
	return l
}

// heed holds everybody back if Stripe said that we are too fast.
func (w *chargeWorker) heed(err error) {
	if e := (*stripe.Error)(nil); errors.As(err, &e) && e.HTTPStatus == http.StatusTooManyRequests {
		w.pace.Hold(max(e.RetryAfter, time.Second))
	}
}
