package workers

import (
	"context"
	"errors"
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
	leaving bool // it fetches no more, and has jobs in flight: River has to be told again, until they have ended
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
		can := q.can()
		if q.leaving = q.leaving || q.working && !can; q.leaving {
			r.leave(ctx, q)
		}
		if can && !q.working {
			r.enter(q)
		}
	}
}

// leave goes on with what was begun, also if the process could call again meanwhile: River does not take back that a queue is to be left.
func (r *retreat) leave(ctx context.Context, q *retreatable) {
	ctx, cancel := context.WithTimeout(ctx, retreatBound)
	defer cancel()
	err, gone := r.client.Queues().Remove(ctx, q.name), (*river.QueueNotFoundError)(nil)
	if err != nil && !errors.As(err, &gone) {
		return
	}
	q.working, q.leaving = false, false
	r.log.Warn("worker.queue", "queue", q.name, "working", false)
}

func (r *retreat) enter(q *retreatable) {
	if err := r.client.Queues().Add(q.name, river.QueueConfig{MaxWorkers: q.workers}); err != nil {
		r.log.Error("worker.queue", "queue", q.name, "error", err)
		return
	}
	q.working = true
	r.log.Info("worker.queue", "queue", q.name, "working", true)
}

// retreats are the queues that each need a provider.
func retreats(c Config, stripe, mail func() bool) []*retreatable {
	return []*retreatable{
		{name: outbox.QueueCharges, workers: c.Charging, can: stripe},
		{name: outbox.QueueBacklog, workers: max(2, c.Charging/2), can: stripe},
		{name: outbox.QueueReceipts, workers: c.Mailing, can: mail},
	}
}
