package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// River knows a queue only once a worker has started it.
const knowQueues = `
INSERT INTO river_queue (name, created_at, updated_at)
SELECT name, now(), now() FROM unnest($1::text[]) AS q (name)
    ON CONFLICT (name) DO NOTHING`

// setQueues pauses a provider's queues, or lets them run, as its state says.
func (o *Outbox) setQueues(ctx context.Context, tx pgx.Tx, h Health) error {
	if _, err := tx.Exec(ctx, knowQueues, h.Provider.queues()); err != nil {
		return fmt.Errorf("make the queues of %s known: %w", h.Provider, err)
	}
	set, done := o.river.QueueResumeTx, "resume"
	if h.Stopped() {
		set, done = o.river.QueuePauseTx, "pause"
	}
	for _, queue := range h.Provider.queues() {
		if err := set(ctx, tx, queue, nil); err != nil {
			return fmt.Errorf("%s queue %s: %w", done, queue, err)
		}
	}
	return nil
}

// run lets a provider's queues run after an outage or a pause, unless the other of the two goes on, and makes what waited until then backlog.
func (o *Outbox) run(ctx context.Context, tx pgx.Tx, h Health) error {
	if h.Provider == Stripe && !h.Stopped() {
		if _, err := moveJobs(ctx, tx, waitingJobs); err != nil {
			return err
		}
	}
	return o.setQueues(ctx, tx, h)
}

const queuesThatDiffer = `
SELECT w.name
  FROM unnest($1::text[]) AS w (name)
  LEFT JOIN river_queue q ON q.name = w.name
 WHERE (q.paused_at IS NOT NULL) <> $2
 ORDER BY w.name`

// disagreeing are the queues of a provider that run and should not, or the other way round.
func disagreeing(ctx context.Context, tx pgx.Tx, h Health) ([]string, error) {
	rows, err := tx.Query(ctx, queuesThatDiffer, h.Provider.queues(), h.Stopped())
	if err != nil {
		return nil, fmt.Errorf("compare the queues of %s: %w", h.Provider, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("compare the queues of %s: %w", h.Provider, err)
	}
	return names, nil
}

// moveAtOnce bounds the jobs that one transaction moves: each costs an entry in every index of river_job.
const moveAtOnce = 2000

// moveJobsSQL takes one state at a time, in the order of River's own index, so that no job is read but those that are moved, however many wait. Jobs
// that run are left alone, and so are those that another transaction holds.
const moveJobsSQL = `
UPDATE river_job
   SET queue = 'backlog'
 WHERE id = ANY (ARRAY(
       SELECT id
         FROM river_job
        WHERE state = $1::river_job_state AND queue = 'charges' AND (NOT $2 OR scheduled_at < now() - interval '30 seconds')
        ORDER BY priority, scheduled_at, id
        LIMIT $3
          FOR UPDATE SKIP LOCKED))`

// movable says which jobs are moved to the backlog.
type movable struct {
	states  []string
	overdue bool // only those that should have gone more than 30 s ago
}

var (
	waitingJobs = movable{states: []string{"available", "retryable", "scheduled"}}
	overdueJobs = movable{states: []string{"available"}, overdue: true}
)

func moveJobs(ctx context.Context, tx pgx.Tx, which movable) (moved int64, err error) {
	for _, state := range which.states {
		tag, err := tx.Exec(ctx, moveJobsSQL, state, which.overdue, moveAtOnce-moved)
		if err != nil {
			return 0, fmt.Errorf("move jobs to the backlog: %w", err)
		}
		if moved += tag.RowsAffected(); moved == moveAtOnce {
			break
		}
	}
	return moved, nil
}

// clearFor moves most of what [Outbox.run] will, in transactions of its own, while nothing runs: the one that resumes stays short.
func (o *Outbox) clearFor(ctx context.Context, h Health) error {
	if h.Provider != Stripe {
		return nil // receipts are all alike
	}
	_, err := o.moveAll(ctx, waitingJobs)
	return err
}

func (o *Outbox) moveAll(ctx context.Context, which movable) (moved int64, err error) {
	for {
		var n int64
		err := InTx(ctx, o.pool, "backlog.move", func(tx pgx.Tx) (err error) {
			n, err = moveJobs(ctx, tx, which)
			return err
		})
		if err != nil {
			return moved, err
		}
		if moved += n; n < moveAtOnce {
			return moved, nil
		}
	}
}

// MoveOverdue makes backlog of the charges that should have gone more than 30 s ago, so that new ones do not wait behind them: all workers were
// away, or more comes in than goes out. While the queue is paused nothing is touched. It returns how many it moved.
func (o *Outbox) MoveOverdue(ctx context.Context) (int64, error) {
	h, err := o.Health(ctx, Stripe)
	if err != nil || h.Stopped() {
		return 0, err
	}
	return o.moveAll(ctx, overdueJobs)
}

const queueDepths = `
SELECT q.name, (SELECT count(*) FROM river_job j WHERE j.queue = q.name AND j.state IN ('available', 'retryable', 'scheduled') AND j.scheduled_at <= now())
  FROM unnest($1::text[]) AS q (name)`

// QueueDepths counts the jobs that are due, by the queue in which they wait. What takes long to count is a [Figure].
func (o *Outbox) QueueDepths(ctx context.Context) (map[string]int64, error) {
	return o.depths.Of(ctx, func() (map[string]int64, error) { return o.countDepths(ctx) })
}

func (o *Outbox) countDepths(ctx context.Context) (map[string]int64, error) {
	depths := map[string]int64{}
	err := InTx(ctx, o.pool, "queues.depths", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, queueDepths, []string{QueueCharges, QueueBacklog, QueueReceipts})
		if err != nil {
			return err
		}
		var name string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
			depths[name] = n
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("queue depths: %w", err)
	}
	return depths, nil
}
