package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// How often what providers have told is looked after. Hardly anything waits: an event's charge is nearly always here first.
const (
	applyEvery  = 10 * time.Second
	removeEvery = 10 * time.Minute
)

// webhookJobs adds the workers that look after providers' events, and returns their periodic jobs.
func webhookJobs(jobs *river.Workers, c Config) []*river.PeriodicJob {
	metrics := newEventMetrics(c.Metrics)
	c.Metrics.MustRegister(eventCollector{c.Charges, c.Log})
	river.AddWorker(jobs, &applyEventsWorker{charges: c.Charges, log: c.Log, metrics: metrics})
	river.AddWorker(jobs, &removeEventsWorker{charges: c.Charges, keep: c.KeepEvents, metrics: metrics})
	now := &river.PeriodicJobOpts{RunOnStart: true}
	return []*river.PeriodicJob{
		river.NewPeriodicJob(river.PeriodicInterval(applyEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.ApplyEvents{Version: 1}, nil }, now),
		river.NewPeriodicJob(river.PeriodicInterval(removeEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.RemoveEvents{Version: 1}, nil }, now),
	}
}

// applyEventsWorker applies events that had to wait.
type applyEventsWorker struct {
	river.WorkerDefaults[outbox.ApplyEvents]
	charges *charges.Service
	log     *slog.Logger
	metrics *eventMetrics
}

func (w *applyEventsWorker) Work(ctx context.Context, _ *river.Job[outbox.ApplyEvents]) error {
	taken, err := w.charges.ApplyPending(ctx)
	for _, e := range taken {
		w.metrics.applied.WithLabelValues(string(e.Provider), string(e.Status), string(e.Note)).Inc()
		level := slog.LevelInfo
		switch {
		case e.Note.Alarm():
			level = slog.LevelError
		case e.Note.Odd() && e.Status == charges.EventIgnored:
			level = slog.LevelWarn
		case e.Status == charges.EventPending:
			level = slog.LevelDebug
		}
		w.log.Log(ctx, level, "webhook.event", "provider", e.Provider, "event_id", e.EventID, "type", e.Type, "result", e.Status,
			"note", e.Note, "charge_id", e.ChargeID, "tries", e.Tries+1)
	}
	return err
}

// removeEventsWorker removes old events.
type removeEventsWorker struct {
	river.WorkerDefaults[outbox.RemoveEvents]
	charges *charges.Service
	keep    time.Duration
	metrics *eventMetrics
}

func (w *removeEventsWorker) Work(ctx context.Context, _ *river.Job[outbox.RemoveEvents]) error {
	n, err := w.charges.RemoveEvents(ctx, w.keep)
	w.metrics.removed.Add(float64(n))
	return err
}

type eventMetrics struct {
	applied *prometheus.CounterVec
	removed prometheus.Counter
}

func newEventMetrics(reg prometheus.Registerer) *eventMetrics {
	m := &eventMetrics{
		applied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_webhook_retries_total", Help: "Tries to apply providers' events that had to wait, by what became of them and why.",
		}, []string{"provider", "result", "note"}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncepay_webhook_removed_total", Help: "Providers' events removed after their time.",
		}),
	}
	reg.MustRegister(m.applied, m.removed)
	return m
}

var (
	eventsWaitingDesc = prometheus.NewDesc("oncepay_webhook_waiting", "Providers' events that wait to be applied.", nil, nil)
	eventsOldestDesc  = prometheus.NewDesc("oncepay_webhook_oldest_seconds", "How long ago the oldest of the waiting events was received.", nil, nil)
)

// eventCollector asks the database at each scrape, as the backlog's does.
type eventCollector struct {
	charges *charges.Service
	log     *slog.Logger
}

func (c eventCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- eventsWaitingDesc
	ch <- eventsOldestDesc
}

// Collect leaves its figures out of a scrape for which the database did not answer.
func (c eventCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	waiting, oldest, err := c.charges.EventBacklog(ctx)
	if err != nil {
		c.log.Warn("metrics.webhook", "error", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(eventsWaitingDesc, prometheus.GaugeValue, float64(waiting))
	ch <- prometheus.MustNewConstMetric(eventsOldestDesc, prometheus.GaugeValue, oldest.Seconds())
}
