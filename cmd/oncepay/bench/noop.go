package bench

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncepay/oncepay/workers"
)

// noop is a job that does nothing: what is left is the queue itself.
type noop struct{}

// Kind names the job in River's table; its queue has the same name.
func (noop) Kind() string { return "bench_noop" }

type noopWorker struct{ river.WorkerDefaults[noop] }

// Work does nothing.
func (noopWorker) Work(context.Context, *river.Job[noop]) error { return nil }

// WorkNoops works no-op jobs until ctx ends, with River set as the product's workers set it. It is a process of its own, as they are.
func WorkNoops(ctx context.Context, url string, conns, concurrency int) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns, config.AfterConnect = int32(conns), assertDurable
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	jobs := river.NewWorkers()
	river.AddWorker(jobs, &noopWorker{})
	settings := &river.Config{
		Queues:  map[string]river.QueueConfig{noop{}.Kind(): {MaxWorkers: concurrency}},
		Workers: jobs, FetchOnlyKnownKinds: true, ReindexerSchedule: river.NeverSchedule(), Logger: slog.Default(),
	}
	workers.Clocks(settings)
	client, err := river.NewClient(riverpgxv5.New(pool), settings)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx))
}

// A job as River inserts it.
const insertNoops = `
INSERT INTO river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags)
SELECT '{}', $2, 25, '{}', 1, $2, now(), 'available', '{}' FROM generate_series(1, $1::bigint)`

const noopsLeft = `SELECT EXISTS (SELECT FROM river_job WHERE kind = $1 AND state <> 'completed')`

// The time is that between the jobs' own ends, as River has written them.
const noopsWorked = `
SELECT count(*), extract(epoch FROM max(finalized_at) - min(attempted_at))::float8 FROM river_job WHERE kind = $1 AND state = 'completed'`

// noopRound works n jobs that wait, and then removes them.
func (b *bench) noopRound(ctx context.Context, d *database, n, concurrency int) (Sample, error) {
	kind := noop{}.Kind()
	if _, err := d.pool.Exec(ctx, insertNoops, n, kind); err != nil {
		return Sample{}, err
	}
	p, err := b.start("noop", []string{"DATABASE_URL=" + d.url}, "bench-noop", fmt.Sprint("--database-conns=", b.Conns), fmt.Sprint("--concurrency=", concurrency))
	if err != nil {
		return Sample{}, err
	}
	used := b.usedBy(map[string]int{"engine": p.cmd.Process.Pid})
	err = await(ctx, pollRarely, func() (left bool, err error) {
		err = d.pool.QueryRow(ctx, noopsLeft, kind).Scan(&left)
		return !left, err
	})
	if err != nil {
		return Sample{}, err
	}
	s := Sample{}
	if err := d.pool.QueryRow(ctx, noopsWorked, kind).Scan(&s.Count, &s.Seconds); err != nil {
		return s, err
	}
	if s.Count != n {
		return s, fmt.Errorf("%d of %d no-op jobs were worked", s.Count, n)
	}
	s.PerSecond = float64(n) / s.Seconds
	s.CPU = used()
	if err := p.stop(); err != nil {
		return s, err
	}
	_, err = d.pool.Exec(ctx, `DELETE FROM river_job WHERE kind = $1`, kind)
	return s, err
}
