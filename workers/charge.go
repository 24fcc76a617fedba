package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

const (
	// notAfter is how old, by the wall clock, an attempt may be when its request leaves. Whoever else finds the
	// attempt waits 60 s before sending again, so a process that was suspended in between must not wake up and send.
	notAfter = 45 * time.Second

	// steps bounds how often one run of a job asks what is allowed: read the clock, look, send, look.
	steps = 5

	downWait  = 15 * time.Second
	brokeWait = 30 * time.Second
)

// chargeWorker takes one charge as far as its attempts allow.
type chargeWorker struct {
	river.WorkerDefaults[outbox.SendCharge]
	charges *charges.Service
	gateway *stripe.Gateway
	probe   *Probe
	pace    *Pace
	log     *slog.Logger
	metrics *Metrics
	health  *health // nil: nobody else is told how calls end
}

// Work runs one job. It returns nil when the charge waits for no worker, a snooze when it must wait, and an error only
// when the database failed us: River then runs the job again.
func (w *chargeWorker) Work(ctx context.Context, job *river.Job[outbox.SendCharge]) error {
	ctx = onLane(ctx, job.Queue)
	fresh := false
	for range steps {
		if wait := w.ready(ctx); wait > 0 {
			return river.JobSnooze(wait)
		}
		began := time.Now()
		here, err := w.probe.here(ctx, fresh)
		if err != nil {
			return river.JobSnooze(jitter(downWait))
		}
		begun, err := w.charges.Begin(ctx, job.Args.ChargeID, here)
		if errors.Is(err, charges.ErrNotFound) {
			w.log.Error("charge.unknown", "charge_id", job.Args.ChargeID, "job_id", job.ID)
			return river.JobCancel(err)
		}
		if err != nil {
			return err
		}
		fresh = false
		w.reportBegun(begun)

		var wait time.Duration
		switch begun.Action {
		case charges.Nothing:
			return nil
		case charges.ReadClock:
			fresh = true
		case charges.WaitFor:
			return river.JobSnooze(max(begun.Wait, time.Second))
		case charges.Misconfigured:
			w.log.Error("charge.misconfigured", "charge_id", begun.Charge.ID, "reason", begun.Reason)
			w.metrics.misconfigured.Inc()
			return river.JobSnooze(jitter(brokeWait))
		case charges.LookFirst:
			wait, err = w.look(ctx, begun)
		case charges.Send:
			var done bool
			done, wait, err = w.send(ctx, begun, began)
			if done {
				return err
			}
		default:
			return fmt.Errorf("charge %s: unknown action %q", begun.Charge.ID, begun.Action)
		}
		if err != nil {
			return err
		}
		if wait > 0 {
			return river.JobSnooze(wait)
		}
	}
	return river.JobSnooze(time.Second)
}

// ready says how long to wait before anything may be asked of Stripe. It comes before the attempt is
// written, so that an outage leaves no attempts behind.
func (w *chargeWorker) ready(ctx context.Context) time.Duration {
	if !w.probe.known() {
		return time.Second // for another worker: this one takes no more; see retreat
	}
	return w.pace.takeSoon(ctx)
}

// send makes the one call that Begin allowed, and writes down what came of it. The job's cancellation does not reach the
// call: what was begun is finished and saved.
func (w *chargeWorker) send(ctx context.Context, begun charges.Begun, began time.Time) (done bool, wait time.Duration, err error) {
	call := transport.WithNotAfter(context.WithoutCancel(ctx), began.Add(notAfter))
	payment, reply, callErr := w.gateway.Send(call, begun.Attempt)
	answer := Answer{Payment: payment, Reply: reply, Err: callErr}
	if isForbidden(callErr) {
		answer.ProbeErr = w.probe.Read(call)
	}
	d := Decide(answer)
	held, err := w.charges.Settle(ctx, begun.Attempt, d.Result)
	w.health.judge(ctx, began, d, callErr)
	if held {
		d.Verdict, d.Change = GoOn, charges.Change{}
	}
	w.report(begun, d, callErr, time.Since(began), err)
	if err != nil {
		return true, 0, err
	}

	switch d.Verdict {
	case Done:
		return true, 0, nil
	case GoOn:
		return false, 0, nil
	case RetryLater:
		wait = max(d.RetryAfter, backoff(begun.Attempt.Number))
		if d.HTTPStatus == 429 && d.Code != "lock_timeout" { // which is about one object at Stripe, and not about our rate
			w.pace.Hold(max(d.RetryAfter, time.Second))
		}
		return false, wait, nil
	case Misconfigured, ProviderDown, InDoubt:
		w.probe.Doubt()
	}
	return false, backoff(begun.Attempt.Number), nil
}

// report writes the one wide line of an attempt.
func (w *chargeWorker) report(begun charges.Begun, d Decision, callErr error, took time.Duration, settleErr error) {
	w.metrics.attempt(string(d.Verdict), took)
	level := slog.LevelInfo
	switch {
	case settleErr != nil || d.To == charges.NeedsReview || d.Verdict == Misconfigured:
		level = slog.LevelError
	case d.Verdict != Done:
		level = slog.LevelWarn
	}
	attrs := []any{
		"charge_id", begun.Charge.ID, "attempt", begun.Attempt.Number, "outcome", d.Outcome, "verdict", d.Verdict,
		"status", d.To, "code", d.Code, "http_status", d.HTTPStatus, "request_id", d.RequestID, "duration_ms", took.Milliseconds(),
	}
	if d.News != nil {
		attrs = append(attrs, "payment_intent", d.News.ID, "payment_status", d.News.Status)
	}
	if callErr != nil {
		attrs = append(attrs, "error", callErr)
	}
	if settleErr != nil {
		attrs = append(attrs, "settle_error", settleErr)
	}
	w.log.Log(context.Background(), level, "charge.attempt", attrs...)
}

func isForbidden(err error) bool {
	e := (*stripe.Error)(nil)
	return errors.As(err, &e) && e.HTTPStatus == 403
}

// backoff is how long an attempt's successor waits: doubling from a second to a minute, with jitter, so that the first
// few come within 15 s.
func backoff(attempt int) time.Duration {
	return jitter(min(time.Second<<min(attempt-1, 6), time.Minute))
}

// jitter spreads waits over half their length and more, so that jobs that failed together do not come back together.
func jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d)))/2
}
