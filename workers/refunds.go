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
)

const (
	// readBound is for all lists of one run. It leaves the job time to write down what they say.
	readBound = 40 * time.Second

	// readMost bounds the wait after lists that could not be read: a key that may not list disputes needs a person, not haste.
	readMost = time.Hour
)

// refundsWorker lists the refunds and disputes of a charge's payments at Stripe, after an event that does not say which they are.
type refundsWorker struct {
	river.WorkerDefaults[outbox.ReadRefunds]
	sender *chargeWorker
}

// Work runs one job. It returns nil once every list was read to its end and taken, else a snooze.
func (w *refundsWorker) Work(ctx context.Context, job *river.Job[outbox.ReadRefunds]) error {
	ctx = onLane(ctx, job.Queue)
	if wait := w.sender.ready(ctx); wait > 0 {
		return river.JobSnooze(wait)
	}
	here, err := w.sender.probe.here(ctx, false)
	if err != nil {
		return river.JobSnooze(jitter(downWait))
	}
	f, err := w.sender.charges.Payments(ctx, job.Args.ChargeID)
	if errors.Is(err, charges.ErrNotFound) {
		w.sender.log.Error("refunds.unknown", "charge_id", job.Args.ChargeID, "job_id", job.ID)
		return river.JobCancel(err)
	}
	if err != nil {
		return err
	}
	if elsewhere(f, here.Account) {
		w.sender.log.Error("charge.misconfigured", "charge_id", f.Charge.ID, "reason", "its payment is at another Stripe account or mode")
		w.sender.metrics.misconfigured.Inc()
		return river.JobSnooze(jitter(brokeWait))
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBound)
	defer cancel()
	whole := true
	for _, payment := range f.Payments {
		read, err := w.read(call, f.Charge, payment)
		if err != nil {
			return err
		}
		whole = whole && read
	}
	if whole {
		return w.sender.charges.RefundsRead(ctx, f.Charge.ID, f.Now)
	}
	return river.JobSnooze(jitter(min(max(time.Since(job.CreatedAt)/4, downWait), readMost)))
}

// read lists what one payment has and takes each list that was read to its end. It is false if one was not.
func (w *refundsWorker) read(ctx context.Context, c charges.Charge, payment string) (bool, error) {
	refunds, err := w.sender.gateway.ListRefunds(ctx, payment)
	if err != nil {
		w.doubt(c, payment, "refunds", err)
		return false, nil
	}
	var disputes []charges.DisputeNews
	disputesErr := w.sender.pace.Wait(ctx)
	if disputesErr == nil {
		disputes, disputesErr = w.sender.gateway.ListDisputes(ctx, payment)
	}
	if disputesErr != nil {
		w.doubt(c, payment, "disputes", disputesErr)
	}
	notes, err := w.sender.charges.HearRefunds(ctx, c.ID, refunds, disputes)
	if err != nil {
		return false, err
	}
	level := slog.LevelInfo
	for _, note := range notes {
		if note.Alarm() {
			level = slog.LevelError
			w.sender.metrics.notes.WithLabelValues(string(note)).Inc()
		}
	}
	w.sender.log.Log(ctx, level, "refunds.read", "charge_id", c.ID, "payment_intent", payment, "refunds", len(refunds),
		"disputes", len(disputes), "notes", notes)
	return disputesErr == nil, nil
}

func (w *refundsWorker) doubt(c charges.Charge, payment, what string, err error) {
	w.sender.log.Warn("refunds.read", "charge_id", c.ID, "payment_intent", payment, "list", what, "error", err)
	if e := (*stripe.Error)(nil); errors.As(err, &e) && e.HTTPStatus == http.StatusTooManyRequests {
		w.sender.pace.Hold(max(e.RetryAfter, time.Second))
		return
	}
	w.sender.probe.Doubt()
}
