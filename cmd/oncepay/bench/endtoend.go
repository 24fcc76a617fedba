package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Variants of endtoend.
const (
	settling    = "oncepay, charges"
	settlingHot = "oncepay, a hot item"
	engine      = "c: no-op jobs"
)

const (
	pollRarely = 200 * time.Millisecond // while it is measured
	manyNoops  = 1000                   // at once: more fetches do not help
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
		settling:    func() (Sample, error) { return b.settleRound(ctx, "endtoend", d, a, usual, b.Charges) },
		settlingHot: func() (Sample, error) { return b.settleRound(ctx, "", d, a, hot, b.Charges) },
		engine:      func() (Sample, error) { return b.noopRound(ctx, d, 2*b.Charges, b.Concurrency) },
	}
	if _, err := b.settleRound(ctx, "", d, a, usual, max(1, b.Charges/10)); err != nil { // warms up
		return err
	}
	// With so many at once as ours, (c) is held back by how often River fetches; this tells what it can do.
	free, err := b.noopRound(ctx, d, 2*b.Charges, manyNoops)
	if err != nil {
		return err
	}
	b.note("a River client that works %d no-op jobs at once, and not %d, comes to %.0f/s", manyNoops, b.Concurrency, free.PerSecond)
	for round := range b.Rounds {
		for _, name := range rotated([]string{settling, settlingHot, engine}, round) {
			s, err := measure[name]()
			if err != nil {
				return err
			}
			s.Section, s.Variant, s.Round = "endtoend", name, round+1
			b.add(s)
		}
	}
	b.noteCeiling()
	if err := checkTaken(ctx, d); err != nil {
		return err
	}
	return a.stop()
}

// checkTaken sees that every item that was sold has its place with its charge, and that all of it is counted.
func checkTaken(ctx context.Context, d *database) error {
	var sold, taken, allocated int
	err := d.pool.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE stock = 'taken'), (SELECT sum(allocated)::bigint FROM inventory) FROM charge_item`).Scan(&sold, &taken, &allocated)
	if err == nil && (sold != taken || sold != allocated) {
		err = fmt.Errorf("%d items were sold, of which %d are taken and %d allocated", sold, taken, allocated)
	}
	return err
}

const unsettled = `
SELECT EXISTS (SELECT FROM charge WHERE status NOT IN ('succeeded', 'failed', 'canceled'))
    OR EXISTS (SELECT FROM receipt WHERE status IN ('pending', 'sending', 'unknown'))`

// From the first call to the last receipt, all by the database's clock. Ids ascend with time.
const settledFrom = `
SELECT count(*) FILTER (WHERE c.status = 'succeeded'), count(*) FILTER (WHERE r.status = 'sent'),
       coalesce(extract(epoch FROM max(r.updated_at) - min(a.sent_at))::float8, 0), count(a.id)
  FROM charge c LEFT JOIN receipt r ON r.charge_id = c.id LEFT JOIN attempt a ON a.charge_id = c.id
 WHERE c.id >= $1`

// idOf is the least id that a charge could be given at a time.
func idOf(at time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16)
	return id
}

// settleRound puts charges there and settles them.
func (b *bench) settleRound(ctx context.Context, section string, d *database, a *apiProcess, o order, n int) (Sample, error) {
	began := time.Now()
	if _, err := b.driveCount(ctx, a, o, fillers, n); err != nil {
		return Sample{}, err
	}
	return b.settle(ctx, section, d, began, n)
}

// settle starts a worker and waits until it has paid the charges that came since, and mailed their receipts. What it cost is kept under the
// section's name; empty: it is not.
func (b *bench) settle(ctx context.Context, section string, d *database, since time.Time, n int) (Sample, error) {
	var s Sample
	box, providers, err := b.simulators(ctx)
	if err != nil {
		return s, err
	}
	server := familyCPU(b.postmaster)
	w, err := b.worker(ctx, d, providers, unlimited)
	if err != nil {
		return s, err
	}
	used := b.usedBy(map[string]int{"worker": w.cmd.Process.Pid, "providers": box.cmd.Process.Pid})
	if err := b.awaitSettled(ctx, d); err != nil {
		return s, err
	}
	s.CPU = used()
	b.keepCost(section, "worker", cpuOf(w.cmd.Process.Pid), peakOf(w.cmd.Process.Pid), n)
	b.keepCost(section, "postgres", familyCPU(b.postmaster)-server, 0, n)
	var mailed, attempts int
	if err := d.pool.QueryRow(ctx, settledFrom, idOf(since)).Scan(&s.Count, &mailed, &s.Seconds, &attempts); err != nil {
		return s, err
	}
	if s.Count != n || mailed != n || attempts != n {
		return s, fmt.Errorf("of %d charges, %d were paid and %d receipts mailed, in %d attempts", n, s.Count, mailed, attempts)
	}
	s.PerSecond = float64(n) / s.Seconds
	if err := w.stop(); err != nil {
		return s, err
	}
	return s, box.stop()
}

func (b *bench) awaitSettled(ctx context.Context, d *database) error {
	return await(ctx, pollRarely, func() (left bool, err error) {
		err = d.pool.QueryRow(ctx, unsettled).Scan(&left)
		return !left, err
	})
}

// noteCeiling says how near charges come to what the queue allows.
func (b *bench) noteCeiling() {
	stats := summarise(b.report.Samples)
	if us, c := find(stats, "endtoend", settling, 0), find(stats, "endtoend", engine, 0); us != nil && c != nil {
		b.note("a charge is two jobs of the queue: charges came to %.2f of what its no-op jobs allow", 2*us.PerSecond.Median/c.PerSecond.Median)
	}
}
