package workers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/transport"
)

// How often the periodic jobs run. They run on whichever worker leads, and once more when it starts to.
const (
	expireEvery  = time.Minute
	sweepEvery   = 30 * time.Second
	clearEvery   = 10 * time.Second
	forgetsEvery = time.Hour
	lostEvery    = time.Minute
)

// keepAttempts is how long the attempts of a final charge are kept unless that is said: 400 days. A buyer's bank may take a payment back for 13
// months, and whoever answers it wants to see what was sent.
const keepAttempts = 400 * 24 * time.Hour

func periodicJobs() []*river.PeriodicJob {
	now := &river.PeriodicJobOpts{RunOnStart: true}
	return []*river.PeriodicJob{
		river.NewPeriodicJob(river.PeriodicInterval(expireEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.ExpireKeys{Version: 1}, nil }, now),
		river.NewPeriodicJob(river.PeriodicInterval(sweepEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.Sweep{Version: 1}, nil }, now),
		river.NewPeriodicJob(river.PeriodicInterval(clearEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.ClearBacklog{Version: 1}, nil }, now),
		river.NewPeriodicJob(river.PeriodicInterval(outbox.ProbeEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.ProbeProviders{Version: 1}, nil }, now),
		river.NewPeriodicJob(river.PeriodicInterval(forgetsEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.RemoveAttempts{Version: 1}, nil }, now),
		river.NewPeriodicJob(river.PeriodicInterval(lostEvery),
			func() (river.JobArgs, *river.InsertOpts) { return outbox.ReadLost{Version: 1}, nil }, now),
	}
}

// upkeepTimeout is for a database that is large or slow; each of these jobs' transactions is short, and the next run in this
// process goes on where one was cut short. River takes
// a job for alive for as long as its timeout, and lets no other of its kind in meanwhile: after a kill -9 there is no sweep until then.
const upkeepTimeout = 90 * time.Second

// expireWorker removes stored answers and readings whose time is over, and notes that the database is where it was.
type expireWorker struct {
	river.WorkerDefaults[outbox.ExpireKeys]
	charges *charges.Service
	log     *slog.Logger
	metrics *Metrics
}

// Timeout is River's bound on one run.
func (*expireWorker) Timeout(*river.Job[outbox.ExpireKeys]) time.Duration { return upkeepTimeout }

// Work removes all that there is.
func (w *expireWorker) Work(ctx context.Context, _ *river.Job[outbox.ExpireKeys]) error {
	n, err := w.charges.ExpireKeys(ctx)
	w.metrics.expired.Add(float64(n))
	_, removeErr := w.charges.RemoveReadings(ctx)
	return errors.Join(err, removeErr)
}

// sweepWorker gives a live job to whatever waits without one.
type sweepWorker struct {
	river.WorkerDefaults[outbox.Sweep]
	charges *charges.Service
	outbox  *outbox.Outbox
	log     *slog.Logger
	metrics *Metrics
}

// Timeout is River's bound on one run.
func (*sweepWorker) Timeout(*river.Job[outbox.Sweep]) time.Duration { return upkeepTimeout }

// Work sweeps once through everything, or as far as it comes within its bound; the next run goes on there.
func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[outbox.Sweep]) error {
	report, err := w.outbox.Sweep(ctx, w.charges)
	w.metrics.swept.Add(float64(report.Enqueued))
	if report.Enqueued > 0 {
		w.log.Warn("outbox.sweep", "enqueued", report.Enqueued)
	}
	if err != nil {
		return err
	}
	strange, err := w.outbox.UnknownKinds(ctx)
	for kind, n := range strange {
		w.log.Warn("outbox.unknown_kind", "kind", transport.Clean(kind), "jobs", n)
	}
	return err
}

// attemptsWorker removes old attempts.
type attemptsWorker struct {
	river.WorkerDefaults[outbox.RemoveAttempts]
	charges *charges.Service
	keep    time.Duration
	log     *slog.Logger
}

// Timeout is River's bound on one run.
func (*attemptsWorker) Timeout(*river.Job[outbox.RemoveAttempts]) time.Duration { return upkeepTimeout }

// Work removes what it comes to within its bound; the next run in this process goes on there.
func (w *attemptsWorker) Work(ctx context.Context, _ *river.Job[outbox.RemoveAttempts]) error {
	n, err := w.charges.RemoveAttempts(ctx, w.keep)
	if n > 0 {
		w.log.Info("attempts.remove", "removed", n)
	}
	return err
}
