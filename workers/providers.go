package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/transport"
)

// providersWorker looks after providers in an outage. It runs on a queue of its own, which is never paused, on any worker.
type providersWorker struct {
	river.WorkerDefaults[outbox.ProbeProviders]
	outbox *outbox.Outbox
	probe  *Probe
	log    *slog.Logger
}

// Work makes each provider's queues agree with its row, and starts the trials that are due.
func (w *providersWorker) Work(ctx context.Context, _ *river.Job[outbox.ProbeProviders]) error {
	for _, p := range outbox.Providers {
		now, change, fixed, err := w.outbox.Reconcile(ctx, p)
		if err != nil {
			return err
		}
		logChange(w.log, now, change)
		if len(fixed) > 0 {
			w.log.Warn("provider.reconcile", "provider", p, "queues", fixed, "paused", now.Stopped())
		}
		if now.TrialDue() {
			if err := w.try(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// try asks Stripe with a harmless read whether it is there again. SendGrid has none that says so: its trial is the next mail.
func (w *providersWorker) try(ctx context.Context, p outbox.Provider) error {
	if p == outbox.Stripe {
		if why := w.probe.Read(ctx); why != nil {
			now, change, err := w.outbox.TrialFailed(ctx, p, outageOf(why), transport.Clean(why.Error()))
			if err == nil {
				logChange(w.log, now, change)
			}
			return err
		}
	}
	now, change, err := w.outbox.StartTrial(ctx, p)
	if err == nil {
		logChange(w.log, now, change)
	}
	return err
}

// clearWorker keeps new charges from waiting behind old ones.
type clearWorker struct {
	river.WorkerDefaults[outbox.ClearBacklog]
	outbox *outbox.Outbox
	log    *slog.Logger
}

// Timeout is River's bound on one run.
func (*clearWorker) Timeout(*river.Job[outbox.ClearBacklog]) time.Duration { return upkeepTimeout }

// Work moves all that there is.
func (w *clearWorker) Work(ctx context.Context, _ *river.Job[outbox.ClearBacklog]) error {
	n, err := w.outbox.MoveOverdue(ctx)
	if n > 0 {
		w.log.Info("backlog.clear", "moved", n)
	}
	return err
}

var (
	providerUpDesc = prometheus.NewDesc("oncepay_provider_up", "1: the provider can be called; 0: an outage is not over, whether it is on trial or not.", []string{"provider"}, nil)
	outageDesc     = prometheus.NewDesc("oncepay_provider_outage_seconds", "How long the provider's outage has lasted, by its kind; 0: there is none.", []string{"provider", "kind"}, nil)
	pausedDesc     = prometheus.NewDesc("oncepay_provider_paused_by_operator", "1: an operator has paused everything that calls the provider.", []string{"provider"}, nil)
	rateDesc       = prometheus.NewDesc("oncepay_provider_rate", "Calls per second that all workers together may make now.", []string{"provider"}, nil)
	depthDesc      = prometheus.NewDesc("oncepay_queue_depth", "Jobs that are due and wait, by queue.", []string{"queue"}, nil)
)

// providerCollector asks the database at each scrape, as the backlog's does.
type providerCollector struct {
	outbox *outbox.Outbox
	log    *slog.Logger
}

func (c providerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{providerUpDesc, outageDesc, pausedDesc, rateDesc, depthDesc} {
		ch <- d
	}
}

// Collect leaves its figures out of a scrape for which the database did not answer.
func (c providerCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	depths, err := c.outbox.QueueDepths(ctx)
	if err != nil {
		c.log.Warn("metrics.provider", "error", err)
		return
	}
	for queue, n := range depths {
		gauge(depthDesc, float64(n), queue)
	}
	for _, p := range outbox.Providers {
		h, err := c.outbox.Health(ctx, p)
		if err != nil {
			c.log.Warn("metrics.provider", "error", err)
			return
		}
		gauge(providerUpDesc, truth(h.Outage == ""), string(p))
		for _, kind := range []outbox.Outage{outbox.Down, outbox.Misconfigured} {
			lasted := 0.0
			if h.Outage == kind {
				lasted = h.Now.Sub(h.Since).Seconds()
			}
			gauge(outageDesc, lasted, string(p), string(kind))
		}
		gauge(pausedDesc, truth(h.PausedBy != ""), string(p))
		gauge(rateDesc, h.Rate, string(p))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
