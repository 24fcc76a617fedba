package workers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

// followMost is the longest that Stripe is not asked about a payment that waits for its buyer or its bank. Its events come sooner, as
// a rule; asking is for those that do not come at all.
const followMost = time.Hour

// followWorker goes on with a payment that is not over: asks Stripe how it is, and cancels it where that is due.
type followWorker struct {
	river.WorkerDefaults[outbox.FollowPayment]
	sender    *chargeWorker
	actionTTL time.Duration
	every     time.Duration // at first; the longer it waits, the more rarely
}

// Work runs one job. It returns nil once no payment of the charge can change any more, else a snooze.
func (w *followWorker) Work(ctx context.Context, job *river.Job[outbox.FollowPayment]) error {
	ctx = onLane(ctx, job.Queue)
	if wait := w.sender.ready(ctx); wait > 0 {
		return river.JobSnooze(wait)
	}
	began := time.Now()
	here, err := w.sender.probe.here(ctx, false)
	if err != nil {
		return river.JobSnooze(jitter(downWait))
	}
	f, err := w.sender.charges.Follow(ctx, job.Args.ChargeID)
	if errors.Is(err, charges.ErrNotFound) {
		w.sender.log.Error("payment.unknown", "charge_id", job.Args.ChargeID, "job_id", job.ID)
		return river.JobCancel(err)
	}
	if err != nil {
		return err
	}
	if len(f.Payments) == 0 {
		return nil
	}
	if elsewhere(f, here.Account) {
		w.sender.log.Error("charge.misconfigured", "charge_id", f.Charge.ID, "reason", "its payment is at another Stripe account or mode")
		w.sender.metrics.misconfigured.Inc()
		return river.JobSnooze(jitter(brokeWait))
	}
	if read, err := w.read(ctx, f, here.Account); err != nil || !read {
		return orSnooze(err, jitter(downWait))
	}
	a, due, err := w.sender.charges.BeginCancel(ctx, f.Charge.ID, here, w.actionTTL)
	if err != nil {
		return err
	}
	if due {
		if err := w.cancel(ctx, a, began); err != nil {
			return err
		}
		return river.JobSnooze(cancelBackoff(a.Number)) // and see what became of it
	}
	return river.JobSnooze(jitter(min(max(time.Since(f.Charge.UpdatedAt)/4, w.every), followMost)))
}

// cancelBackoff is how long a cancel's successor waits: doubling from a second to an hour, since what Stripe has refused a few times it
// goes on refusing.
func cancelBackoff(attempt int) time.Duration {
	return jitter(min(time.Second<<min(attempt-1, 12), followMost))
}

// read asks Stripe about each payment and takes what it says. It is false if Stripe did not say. One that Stripe does not have is an
// alarm, and keeps nobody from the others.
func (w *followWorker) read(ctx context.Context, f charges.Following, at charges.Account) (bool, error) {
	for _, id := range f.Payments {
		news, err := w.sender.gateway.Retrieve(context.WithoutCancel(ctx), id)
		switch e := (*stripe.Error)(nil); {
		case errors.As(err, &e) && e.HTTPStatus == http.StatusNotFound:
			w.sender.log.Error("payment.gone", "charge_id", f.Charge.ID, "payment_intent", id, "error", err)
			continue
		case errors.As(err, &e) && e.HTTPStatus == http.StatusTooManyRequests:
			w.sender.pace.Hold(max(e.RetryAfter, time.Second))
			return false, nil
		case err != nil:
			w.sender.log.Warn("payment.read", "charge_id", f.Charge.ID, "payment_intent", id, "error", err)
			w.sender.probe.Doubt()
			return false, nil
		}
		note, err := w.sender.charges.Hear(ctx, f.Charge.ID, at, news)
		if err != nil {
			return false, err
		}
		level := slog.LevelInfo
		if note != charges.Taken {
			level = slog.LevelError
		}
		w.sender.log.Log(ctx, level, "payment.read", "charge_id", f.Charge.ID, "payment_intent", id, "payment_status", news.Status, "note", note)
	}
	return true, nil
}

// cancel makes the one call that BeginCancel allowed, and takes what it says of the payment.
func (w *followWorker) cancel(ctx context.Context, a charges.Attempt, began time.Time) error {
	call := transport.WithNotAfter(context.WithoutCancel(ctx), began.Add(notAfter))
	news, reply, callErr := w.sender.gateway.Cancel(call, a)
	d := DecideCancel(Answer{Payment: news, Reply: reply, Err: callErr})
	err := w.sender.charges.SettleCancel(ctx, a, d.Result)
	w.sender.health.judge(ctx, began, d, callErr)
	attrs := []any{"charge_id", a.ChargeID, "payment_intent", a.Payment, "attempt", a.Number, "outcome", d.Outcome,
		"http_status", d.HTTPStatus, "request_id", d.RequestID}
	level := slog.LevelInfo
	if callErr != nil {
		level, attrs = slog.LevelWarn, append(attrs, "error", callErr)
	}
	if d.Verdict == Misconfigured || d.Verdict == ProviderDown {
		w.sender.probe.Doubt()
	}
	w.sender.log.Log(ctx, level, "payment.cancel", attrs...)
	return err
}

// elsewhere tells whether a charge's payments are at another account than here.
func elsewhere(f charges.Following, here charges.Account) bool {
	return f.Account != (charges.Account{}) && f.Account != here
}

func orSnooze(err error, wait time.Duration) error {
	if err != nil {
		return err
	}
	return river.JobSnooze(wait)
}
