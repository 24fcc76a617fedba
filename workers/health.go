package workers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

const (
	// enoughFailures in a row, by one process, are an outage and not bad luck.
	enoughFailures = 5

	// noteEvery is how often a process writes down that calls succeed.
	noteEvery = time.Second

	reportBound = 5 * time.Second
)

// health judges, from what this process sees of its own calls, whether a provider can be called. What follows from that for all processes
// is decided on the provider's row. A nil health judges nothing.
type health struct {
	provider outbox.Provider
	outbox   *outbox.Outbox
	log      *slog.Logger
	metrics  *Metrics

	mu         sync.Mutex
	failures   int       // in a row
	noted      time.Time // when a success was last written down
	stopped    bool      // as last heard
	trial      time.Time // when this process first heard of the trial that is on; zero: there is none
	alone      time.Time // until when this process does not call although others do
	aloneWhy   string
	aloneSince time.Time
	refuted    bool // its failing probe stopped all once, and others went on: until it works again it has no say
}

// heard takes over what the row said.
func (h *health) heard(now outbox.Health) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = now.Stopped()
	switch {
	case !now.Trial():
		h.trial = time.Time{}
	case h.trial.IsZero():
		h.trial = time.Now()
	}
}

// succeeded is for a call that only a working provider answers, with a decline as well as with a payment.
func (h *health) succeeded(ctx context.Context) {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.failures = 0
	due := time.Since(h.noted) >= noteEvery || h.stopped || !h.trial.IsZero()
	if due {
		h.noted = time.Now()
	}
	h.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportBound)
	defer cancel()
	before := time.Now()
	now, change, err := h.outbox.ProviderSucceeded(ctx, h.provider)
	h.report(now, change, err)
	if err != nil {
		h.mu.Lock()
		h.noted = before.Add(-noteEvery) // the next one writes it down
		h.mu.Unlock()
	}
}

// failed is for a call, begun at a time, that ended as in an outage. Sure evidence needs no other. It tells whether all processes have
// stopped calling.
func (h *health) failed(ctx context.Context, began time.Time, kind outbox.Outage, why error, sure bool) (stopped bool) {
	if h == nil || time.Since(began) >= notAfter { // our own clock kept the request from leaving
		return false
	}
	h.mu.Lock()
	h.failures++
	enough := sure || h.failures >= enoughFailures
	onTrial := !h.trial.IsZero() && !began.Before(h.trial)
	ask := (enough || onTrial) && !h.stopped
	stopped = h.stopped
	h.mu.Unlock()
	if !ask {
		return stopped
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportBound)
	defer cancel()
	now, change, err := h.outbox.ProviderFailed(ctx, h.provider, kind, transport.Clean(why.Error()), enough, onTrial)
	h.report(now, change, err)
	return err == nil && now.Stopped()
}

// failing tells whether this process sees an outage, whatever others see.
func (h *health) failing() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures >= enoughFailures
}

// standBack is for a process whose own calls are refused while others' are not.
func (h *health) standBack(d time.Duration, why error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.After(h.alone) {
		h.aloneSince = now
	}
	h.alone, h.aloneWhy = time.Now().Add(d), transport.Clean(why.Error())
}

// stoodBack says why and since when this process has stood back; nil: it has not.
func (h *health) stoodBack() (since time.Time, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(h.alone) {
		return time.Time{}, nil
	}
	return h.aloneSince, errors.New(h.aloneWhy)
}

// able tells whether this process has not stood back.
func (h *health) able() bool {
	_, why := h.stoodBack()
	return why == nil
}

// probed is for a read of our account: one that fails is sure evidence, but for a process whose network or key alone is broken.
func (h *health) probed(err error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	if err == nil {
		h.refuted = false
	}
	quiet := err == nil || h.refuted
	h.mu.Unlock()
	if quiet {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportBound)
	defer cancel()
	now, change, reportErr := h.outbox.ProviderFailed(ctx, h.provider, outageOf(err), transport.Clean(err.Error()), true, false)
	h.report(now, change, reportErr)
	if change == outbox.Stop {
		h.mu.Lock()
		h.refuted = true
		h.mu.Unlock()
	}
}

// report takes over what a report to the row has led to, and says so where it changed something.
func (h *health) report(now outbox.Health, c outbox.Change, err error) {
	if err != nil {
		h.log.Error("provider.report", "provider", h.provider, "error", err)
		return
	}
	h.heard(now)
	if c != outbox.Unchanged {
		h.mu.Lock()
		h.failures = 0
		h.mu.Unlock()
	}
	logChange(h.log, now, c)
}

func (h *health) throttled() {
	if h != nil {
		h.metrics.throttled.WithLabelValues(string(h.provider)).Inc()
	}
}

func logChange(log *slog.Logger, now outbox.Health, c outbox.Change) {
	switch c {
	case outbox.Stop:
		level := slog.LevelError
		if now.FailedTrials > 0 {
			level = slog.LevelWarn // it goes on
		}
		log.Log(context.Background(), level, "provider.down", "provider", now.Provider, "kind", now.Outage, "reason", now.Reason, "since", now.Since,
			"trial_at", now.TrialAt, "failed_trials", now.FailedTrials)
	case outbox.Try:
		log.Info("provider.trial", "provider", now.Provider, "kind", now.Outage, "since", now.Since, "failed_trials", now.FailedTrials)
	case outbox.Over:
		log.Info("provider.up", "provider", now.Provider)
	}
}

// outageOf says what a read of our account that failed means.
func outageOf(err error) outbox.Outage {
	if e := (*stripe.Error)(nil); errors.As(err, &e) && (e.HTTPStatus == http.StatusUnauthorized || e.HTTPStatus == http.StatusForbidden) {
		return outbox.Misconfigured
	}
	return outbox.Down
}

// judge tells a provider's health what the answer to a send says about it. Answers that ask for patience say nothing, and neither does a charge that is
// forbidden although our account can be read: they are Stripe's own, and no payment.
func (h *health) judge(ctx context.Context, began time.Time, d Decision, callErr error) {
	switch {
	case d.Verdict == Done && d.Outcome != charges.Refused:
		h.succeeded(ctx)
	case d.Verdict == Misconfigured:
		h.failed(ctx, began, outbox.Misconfigured, callErr, true)
	case d.Verdict == ProviderDown, d.Verdict == InDoubt && (d.HTTPStatus == 0 || d.HTTPStatus >= 500):
		h.failed(ctx, began, outbox.Down, callErr, false)
	}
}
