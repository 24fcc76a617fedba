package bench

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Variants of endtoend.
const (
	settling = "oncepay, charges"
	engine   = "c: no-op jobs"
)

const (
	pollRarely = 200 * time.Millisecond // while it is measured
	fillers    = 64                     // clients that put charges there, which is not measured
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// endToEnd measures how many charges per second are paid and their receipts mailed.
func (b *bench) endToEnd(ctx context.Context) error {
	d, err := b.database(ctx, "endtoend")
	if err != nil {
		return err
	}
	a, err := b.api(ctx, d, true)
	if err != nil {
		return err
	}
	measure := map[string]func() (Sample, error){
		settling: func() (Sample, error) { return b.settleRound(ctx, "endtoend", d, a, b.Charges) },
		engine:   func() (Sample, error) { return b.noopRound(ctx, d, 2*b.Charges) },
	}
	if _, err := b.settleRound(ctx, "", d, a, max(1, b.Charges/10)); err != nil { // warms up
		return err
	}
	for round := range b.Rounds {
		for _, name := range rotated([]string{settling, engine}, round) {
			s, err := measure[name]()
			if err != nil {
				return err
			}
			s.Section, s.Variant, s.Round = "endtoend", name, round+1
			b.add(s)
		}
	}
	return a.stop()
}

const unsettled = `
SELECT EXISTS (SELECT FROM charge WHERE status NOT IN ('succeeded', 'failed', 'canceled'))
    OR EXISTS (SELECT FROM receipt WHERE status IN ('pending', 'sending', 'unknown'))`

// From the first call to the last receipt, all by the database's clock.
const settledSince = `
SELECT count(*) FILTER (WHERE c.status = 'succeeded'), count(*) FILTER (WHERE r.status = 'sent'),
       coalesce(extract(epoch FROM max(r.updated_at) - min(a.sent_at))::float8, 0),
       (SELECT count(*) FROM attempt t JOIN charge s ON s.id = t.charge_id WHERE s.created_at >= $1)
  FROM charge c LEFT JOIN receipt r ON r.charge_id = c.id LEFT JOIN attempt a ON a.charge_id = c.id
 WHERE c.created_at >= $1`

// settleRound puts charges there, then starts a worker and waits until it has paid all and mailed their receipts. What it cost is kept
// under the section's name; empty: it is not.
func (b *bench) settleRound(ctx context.Context, section string, d *database, a *apiProcess, n int) (Sample, error) {
	var s Sample
	var began time.Time
	if err := d.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&began); err != nil {
		return s, err
	}
	if _, err := b.driveCount(ctx, a, fillers, n); err != nil {
		return s, err
	}
	box, providers, err := b.simulators(ctx)
	if err != nil {
		return s, err
	}
	w, err := b.worker(ctx, d, providers, unlimited)
	if err != nil {
		return s, err
	}
	used := b.usedBy(map[string]int{"worker": w.cmd.Process.Pid, "providers": box.cmd.Process.Pid, "load": os.Getpid()})
	err = await(ctx, pollRarely, func() (left bool, err error) {
		err = d.pool.QueryRow(ctx, unsettled).Scan(&left)
		return !left, err
	})
	if err != nil {
		return s, err
	}
	var mailed, attempts int
	if err := d.pool.QueryRow(ctx, settledSince, began).Scan(&s.Count, &mailed, &s.Seconds, &attempts); err != nil {
		return s, err
	}
	if s.Count != n || mailed != n || attempts != n {
		return s, fmt.Errorf("of %d charges, %d were paid and %d receipts mailed, in %d attempts", n, s.Count, mailed, attempts)
	}
	s.PerSecond = float64(n) / s.Seconds
	s.CPU = used(seconds(s.Seconds))
	b.keepCost(section, "worker", w, n)
	if err := w.stop(); err != nil {
		return s, err
	}
	return s, box.stop()
}
