package workers

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// lostWorker reads at Stripe what a restored database has forgotten.
type lostWorker struct {
	river.WorkerDefaults[outbox.ReadLost]
	sender *chargeWorker
}

// Work reads as far as it comes within its bound. Nothing is asked of Stripe where there is nothing to read; what is left is the next run's, within
// the minute, or that of a charge that needs the same.
func (w *lostWorker) Work(ctx context.Context, _ *river.Job[outbox.ReadLost]) error {
	ctx = onLane(ctx, outbox.QueueBacklog) // a long list must not take the calls of new charges
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound)
	defer cancel()
	for range steps {
		if unread, _, err := w.sender.charges.Unread(ctx); err != nil || len(unread) == 0 {
			return err
		}
		if wait := w.sender.ready(ctx); wait > 0 {
			return river.JobSnooze(wait)
		}
		here, err := w.sender.probe.here(ctx, true)
		if err != nil {
			return river.JobSnooze(jitter(downWait))
		}
		begun, err := w.sender.charges.BeginLost(ctx, here)
		if err != nil || begun.Action != charges.LookFirst {
			return err
		}
		l, wait, whole, err := w.sender.readTogether(ctx, call, begun)
		switch {
		case err != nil:
			return err
		case wait > 0: // somebody else is reading
			return river.JobSnooze(wait)
		case !whole && call.Err() != nil: // it is long, and getting on
			return river.JobSnooze(time.Second)
		case !whole:
			w.sender.log.Warn("lost.read", "restoration", begun.NewestRestoration(), "seen", l.Seen, "error", l.Error)
			w.sender.probe.Doubt()
			return river.JobSnooze(jitter(downWait))
		}
	}
	return river.JobSnooze(time.Second)
}
