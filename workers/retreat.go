package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/outbox"
)

const (
	retreatStep  = 200 * time.Millisecond // how often it is looked whether this process can call
	retreatBound = 100 * time.Millisecond // to make a queue stop fetching; its jobs in flight end in their own time
)

// retreat keeps a process from taking jobs that it alone cannot do, because its network or its key is broken while others' work. Jobs that it
// took only to give them back would wait for nothing. Queues that are paused for all are another matter: see outbox.
type retreat struct {
	client *river.Client[pgx.Tx]
	log    *slog.Logger
	queues []*retreatable
}

// retreatable is a queue that is worked on while this process can call its provider.
type retreatable struct {
	name    string
	workers int
	can     func() bool
	working bool
}

// run follows what this process can do until ctx ends.
func (r *retreat) run(ctx context.Context) {
	tick := time.NewTicker(retreatStep)
	defer tick.Stop()
	for {
		r.follow(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *retreat) follow(ctx context.Context) {
	for _, q := range r.queues {
		switch can := q.can(); {
		case can && !q.working:
			if err := r.client.Queues().Add(q.name, river.QueueConfig{MaxWorkers: q.workers}); err != nil {
				r.log.Error("worker.queue", "queue", q.name, "error", err)
				continue
			}
			q.working = true
			r.log.Info("worker.queue", "queue", q.name, "working", true)
		case !can && q.working:
			bound, cancel := context.WithTimeout(ctx, retreatBound)
			err := r.client.Queues().Remove(bound, q.name)
			cancel()
			if err != nil {
				continue // it fetches no more, and has jobs in flight
			}
			q.working = false
			r.log.Warn("worker.queue", "queue", q.name, "working", false)
		}
	}
}

// retreats are the queues that each need a provider.
func retreats(c Config, stripe, mail func() bool) []*retreatable {
	return []*retreatable{
		{name: outbox.QueueCharges, workers: c.Charging, can: stripe},
		{name: outbox.QueueBacklog, workers: max(2, c.Charging/2), can: stripe},
		{name: outbox.QueueReceipts, workers: mailing, can: mail},
	}
}
