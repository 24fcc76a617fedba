package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// provenFor is for how long a success of any process speaks against the failures of another: whose network or key is broken
	// must not stop those that work.
	provenFor = 10 * time.Second

	firstTrial = 5 * time.Second
	lastTrial  = time.Minute

	// trialBound ends a trial in which nothing failed, because nothing waited to be sent.
	trialBound = time.Minute

	// trialCallBound is for a trial's call whose end nobody tells, because its process died: a request leaves within 45 s, and is
	// answered or given up within 25 s.
	trialCallBound = 75 * time.Second

	// trialPoll is how soon whoever would call during a trial asks again.
	trialPoll = 500 * time.Millisecond
)

// Change says what a report about a provider has changed.
type Change string

// The changes. The queues are paused or run with them, in the same transaction.
const (
	Unchanged Change = ""
	Stop      Change = "down"  // an outage began, or a trial failed
	Try       Change = "trial" // calls are let through, slowly
	Over      Change = "up"    // the outage is over
)

// ProviderFailed reports that a provider cannot be called. With enough evidence, and unless another process had a success just
// now, nobody calls it any more: its queues are paused. While it is on trial, one failure of a call that the trial let through is enough, and no
// other counts.
func (o *Outbox) ProviderFailed(ctx context.Context, p Provider, kind Outage, reason string, enough, onTrial bool) (h Health, c Change, err error) {
	err = InTx(ctx, o.pool, "provider.pause", func(tx pgx.Tx) error {
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		h, c = r.failed(kind, reason, enough, onTrial)
		if c == Unchanged {
			return nil
		}
		if err := saveOutage(ctx, tx, h); err != nil {
			return err
		}
		return o.setQueues(ctx, tx, h)
	})
	return h, c, err
}

func (h Health) failed(kind Outage, reason string, enough, onTrial bool) (Health, Change) {
	switch {
	case h.Trial():
		if !onTrial {
			return h, Unchanged
		}
		h.TrialSince, h.TrialCallAt = time.Time{}, time.Time{}
		h.FailedTrials++
	case h.Outage != "":
		return h, Unchanged
	case !enough || h.proven():
		return h, Unchanged
	default:
		h.Since = h.Now
	}
	h.Outage, h.Reason, h.TrialAt = kind, reason, h.Now.Add(trialWait(h.FailedTrials))
	return h, Stop
}

// proven tells whether some process had a success just now. A date in the future is that of a clock which was set back since.
func (h Health) proven() bool {
	ago := h.Now.Sub(h.SucceededAt)
	return ago >= 0 && ago < provenFor
}

// trialWait is how long the next trial waits after so many that failed.
func trialWait(failed int) time.Duration {
	return min(firstTrial<<min(failed, 10), lastTrial)
}

// ProviderSucceeded reports a call that only a working provider answers. It ends a trial: from then on the rate climbs. In an outage that nobody has tried yet it makes a
// trial due.
func (o *Outbox) ProviderSucceeded(ctx context.Context, p Provider) (h Health, c Change, err error) {
	err = InTx(ctx, o.pool, "provider.success", func(tx pgx.Tx) error {
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		h, c = r.succeeded()
		if err := saveOutage(ctx, tx, h); err != nil || c != Over {
			return err
		}
		return r.bucket.trial(r.Configured, h.Now).save(ctx, tx, p, r.Configured)
	})
	return h, c, err
}

func (h Health) succeeded() (Health, Change) {
	h.SucceededAt = h.Now
	switch {
	case h.Trial():
		return h.over(), Over
	case h.Outage != "":
		h.TrialAt, h.FailedTrials = h.Now, 0
	}
	return h, Unchanged
}

func (h Health) over() Health {
	h.Outage, h.Reason, h.FailedTrials = "", "", 0
	h.Since, h.TrialAt, h.TrialSince, h.TrialCallAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return h
}

// TrialDue tells whether it is time to see whether an outage is over. A wait that no trial has to make is a clock's that was set back since.
func (h Health) TrialDue() bool {
	wait := h.TrialAt.Sub(h.Now)
	return h.Outage != "" && !h.Trial() && (wait <= 0 || wait > lastTrial)
}

// trialCallOut tells whether a trial's call is under way, for all that is known. A date in the future is that of a clock which was set back since.
func (h Health) trialCallOut() bool {
	ago := h.Now.Sub(h.TrialCallAt)
	return !h.TrialCallAt.IsZero() && ago >= 0 && ago < trialCallBound
}

// TrialCallEnded reports that the call which [Outbox.Lease] handed out at a time during a trial has ended, whatever it said, or was not made. It
// changes nothing unless the trial still waits for that call: the next one may be made.
func (o *Outbox) TrialCallEnded(ctx context.Context, p Provider, at time.Time) error {
	return InTx(ctx, o.pool, "provider.trial_call_ended", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE provider SET trial_call_at = NULL WHERE name = $1 AND trial_call_at = $2`, p, at); err != nil {
			return fmt.Errorf("write the end of a trial's call to %s: %w", p, err)
		}
		return nil
	})
}

// TrialFailed reports that a provider which was asked for its trial is still away: the next one waits twice as long. It says [Stop] unless the
// trial was not due any more.
func (o *Outbox) TrialFailed(ctx context.Context, p Provider, kind Outage, reason string) (h Health, c Change, err error) {
	err = InTx(ctx, o.pool, "provider.trial_failed", func(tx pgx.Tx) error {
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		h, c = r.Health, Unchanged
		if !h.TrialDue() { // somebody else was here
			return nil
		}
		c = Stop
		h.FailedTrials++
		h.Outage, h.Reason, h.TrialAt = kind, reason, h.Now.Add(trialWait(h.FailedTrials))
		return saveOutage(ctx, tx, h)
	})
	return h, c, err
}

// StartTrial lets calls through again, one at a time until one succeeds, and runs the queues, unless an operator has paused them. What waited until then
// is backlog: new charges do not wait behind it.
func (o *Outbox) StartTrial(ctx context.Context, p Provider) (h Health, c Change, err error) {
	if h, err = o.Health(ctx, p); err != nil || !h.TrialDue() {
		return h, Unchanged, err
	}
	if h.PausedBy == "" {
		if err := o.clearFor(ctx, h); err != nil {
			return h, Unchanged, err
		}
	}
	err = InTx(ctx, o.pool, "provider.resume", func(tx pgx.Tx) error {
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		h, c = r.Health, Unchanged
		if !h.TrialDue() {
			return nil
		}
		h.TrialSince, c = h.Now, Try
		if err := saveOutage(ctx, tx, h); err != nil {
			return err
		}
		if err := r.bucket.trial(r.Configured, h.Now).save(ctx, tx, p, r.Configured); err != nil {
			return err
		}
		return o.run(ctx, tx, h)
	})
	return h, c, err
}

// Reconcile makes the queues agree with the provider's row, whatever a crash or a hand on River's tables has left, and ends a trial in
// which nothing was left to fail. fixed names the queues that did not agree.
func (o *Outbox) Reconcile(ctx context.Context, p Provider) (h Health, c Change, fixed []string, err error) {
	err = InTx(ctx, o.pool, "provider.reconcile", func(tx pgx.Tx) error {
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		h, c = r.Health, Unchanged
		if h.Trial() && !h.trialCallOut() && h.PausedBy == "" && h.Now.Sub(h.TrialSince).Abs() >= trialBound {
			h, c = h.over(), Over
			if err := saveOutage(ctx, tx, h); err != nil {
				return err
			}
		}
		if fixed, err = disagreeing(ctx, tx, h); err != nil || len(fixed) == 0 {
			return err
		}
		return o.setQueues(ctx, tx, h)
	})
	return h, c, fixed, err
}
