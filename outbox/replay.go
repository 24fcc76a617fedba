package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Report counts the work that a replay or a sweep met, and the jobs that it wrote.
type Report struct {
	Counts   map[Class]int64
	Enqueued int64
}

// Unfinished is the number of pieces of unfinished work met.
func (r Report) Unfinished() int64 {
	var n int64
	for class, k := range r.Counts {
		if class != Settled {
			n += k
		}
	}
	return n
}

func (r Report) plus(page Report) Report {
	sum := Report{Counts: maps.Clone(r.Counts), Enqueued: r.Enqueued + page.Enqueued}
	if sum.Counts == nil {
		sum.Counts = map[Class]int64{}
	}
	for class, k := range page.Counts {
		sum.Counts[class] += k
	}
	return sum
}

// Preview says what [Outbox.Replay] would meet and do now: Enqueued is the number of jobs that it would write.
// It changes nothing and locks nothing.
func (o *Outbox) Preview(ctx context.Context, src Source, f Filter) (Report, error) {
	report, err := o.walk(ctx, src, f, steps{name: "outbox.preview"})
	if err != nil {
		return report, err
	}
	return o.countSettled(ctx, src, f, report, nil)
}

// Replay gives a live job to everything unfinished that wants one and has none, and leaves an audit row that says who
// did so, with what filter, and what was met. Pressed twice, at once or later, it adds nothing: the charges' rows are
// locked while it looks for a live job and writes one. It decides nothing about sending: the worker that runs the job
// asks the charge's attempts, as for any other job.
//
// It writes [ReplayRate] jobs a second. progress, unless nil, is called after each committed page with the work met so far. A replay
// that is cut short has done what it counted; its audit row stays without a finish.
func (o *Outbox) Replay(ctx context.Context, src Source, f Filter, actor string, progress func(Report)) (Report, error) {
	return o.ReplayAt(ctx, src, f, actor, ReplayRate, progress)
}

// ReplayRate is how many jobs per second a replay writes unless it is told otherwise: the database has other work.
const ReplayRate = 1000

// ReplayAt is Replay at a rate of its own, in jobs per second.
func (o *Outbox) ReplayAt(ctx context.Context, src Source, f Filter, actor string, rate float64, progress func(Report)) (Report, error) {
	filter, err := json.Marshal(f)
	if err != nil {
		return Report{}, fmt.Errorf("encode filter: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Report{}, fmt.Errorf("replay id: %w", err)
	}
	err = InTx(ctx, o.pool, "outbox.replay_begin", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO replay (id, actor, filter) VALUES ($1, $2, $3)`, id, actor, filter)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("record replay: %w", err)
	}

	write := func(tx pgx.Tx, wanted []Entry, sofar Report) error {
		if err := o.enqueue(ctx, tx, wanted, true); err != nil {
			return err
		}
		return recordReplay(ctx, tx, id, sofar, false)
	}
	size := min(pageSize, max(1, int(rate))) // at most a second's worth at once
	report, err := o.walk(ctx, src, f, steps{name: "outbox.replay", lock: LockWait, size: size, progress: progress, write: write, rest: atRate(rate)})
	if err != nil {
		return report, err
	}
	return o.countSettled(ctx, src, f, report, func(tx pgx.Tx, sum Report) error {
		return recordReplay(ctx, tx, id, sum, true)
	})
}

// atRate rests for as long as the jobs written so far take at a rate.
func atRate(rate float64) func(context.Context, Report) error {
	began := time.Now()
	return func(ctx context.Context, sofar Report) error {
		due := began.Add(time.Duration(float64(sofar.Enqueued) / rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *Outbox) countSettled(ctx context.Context, src Source, f Filter, report Report, also func(pgx.Tx, Report) error) (Report, error) {
	var sum Report
	err := InTx(ctx, o.pool, "outbox.replay_end", func(tx pgx.Tx) error {
		n, err := src.CountSettled(ctx, tx, f)
		if err != nil {
			return err
		}
		sum = report.plus(Report{Counts: map[Class]int64{Settled: n}})
		if also == nil {
			return nil
		}
		return also(tx, sum)
	})
	if err != nil {
		return report, err
	}
	return sum, nil
}

const updateReplay = `
UPDATE replay
   SET counts = $2, enqueued = $3, finished_at = CASE WHEN $4 THEN clock_timestamp() END
 WHERE id = $1`

func recordReplay(ctx context.Context, tx pgx.Tx, id uuid.UUID, report Report, finished bool) error {
	counts, err := json.Marshal(report.Counts)
	if err != nil {
		return fmt.Errorf("encode counts: %w", err)
	}
	if _, err := tx.Exec(ctx, updateReplay, id, counts, report.Enqueued, finished); err != nil {
		return fmt.Errorf("record replay: %w", err)
	}
	return nil
}
