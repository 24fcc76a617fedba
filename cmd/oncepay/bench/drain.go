package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/outbox"
)

// Variants of drain.
const (
	allCalls   = "calls to Stripe"
	newCharges = "new, until they are settled"
)

// Drained is how a backlog was worked off.
type Drained struct {
	Waiting int     `json:"waiting"` // charges behind the outage
	Seconds float64 `json:"seconds"` // from its end until the last of them was sent
	Allowed float64 `json:"allowed_per_second"`
	Reached float64 `json:"reached_per_second"` // calls for new charges are among them, as they are among those allowed
	Busiest int     `json:"busiest_second"`
	New     int     `json:"new"` // charges that came meanwhile
}

// drain measures how well a backlog uses the rate that Stripe allows, and how long new charges take meanwhile.
func (b *bench) drain(ctx context.Context) error {
	d, err := b.database(ctx, "drain")
	if err != nil {
		return err
	}
	a, err := b.api(ctx, d, true)
	if err != nil {
		return err
	}
	sim, providers, err := b.simulators(ctx)
	if err != nil {
		return err
	}
	w, err := b.worker(ctx, d, providers, b.DrainRate)
	if err != nil {
		return err
	}
	box, err := d.outbox()
	if err != nil {
		return err
	}
	if _, err := box.PauseProvider(ctx, outbox.Stripe, "bench", "the outage that is measured"); err != nil {
		return err
	}
	if _, err := b.driveCount(ctx, a, usual, fillers, b.Drain); err != nil {
		return err
	}
	if sent, err := d.count(ctx, `SELECT count(*) FROM attempt`); err != nil {
		return err
	} else if sent > 0 {
		return fmt.Errorf("%d charges were sent in an outage", sent)
	}
	b.say("  %d charges wait; Stripe may be called %g times a second again, and %g new ones come", b.Drain, b.DrainRate, b.DrainNew)

	used := b.usedBy(map[string]int{"worker": w.cmd.Process.Pid, "api": a.cmd.Process.Pid, "providers": sim.cmd.Process.Pid})
	resumed, err := b.drainBacklog(ctx, d, a, box)
	if err != nil {
		return err
	}
	result, latency, calls, err := b.drained(ctx, d, resumed)
	if err != nil {
		return err
	}
	if n, err := payments(ctx, providers); err != nil {
		return err
	} else if n != b.Drain+result.New {
		return fmt.Errorf("the simulated Stripe has %d payments for %d charges", n, b.Drain+result.New)
	}
	b.report.Drain = &result
	b.add(Sample{Section: "drain", Variant: allCalls, Round: 1, Count: calls, Seconds: result.Seconds, PerSecond: result.Reached,
		CPU: used()})
	latency.Section, latency.Variant, latency.Round = "drain", newCharges, 1
	latency.Count, latency.Seconds, latency.PerSecond = result.New, result.Seconds, float64(result.New)/result.Seconds
	b.add(latency)
	for _, p := range []*process{w, sim, a.process} {
		if err := p.stop(); err != nil {
			return err
		}
	}
	return nil
}

const waitingSince = `SELECT EXISTS (SELECT FROM charge WHERE created_at < $1 AND status NOT IN ('succeeded', 'failed', 'canceled'))`

// drainBacklog ends the outage, lets new charges come while the backlog is worked off, and returns when the outage ended and all is settled.
func (b *bench) drainBacklog(ctx context.Context, d *database, a *apiProcess, box *outbox.Outbox) (resumed time.Time, err error) {
	if err := d.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&resumed); err != nil {
		return resumed, err
	}
	group, both := errgroup.WithContext(ctx)
	drained := make(chan struct{})
	group.Go(func() error {
		c, err := dial(a.address, token, usual)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		every := time.NewTicker(seconds(1 / b.DrainNew))
		defer every.Stop()
		for {
			select {
			case <-drained:
				return nil
			case <-both.Done():
				return nil // the other has failed
			case <-every.C:
			}
			if _, err := c.post(); err != nil {
				return err
			}
		}
	})
	group.Go(func() error {
		defer close(drained)
		if _, _, err := box.ResumeProvider(both, outbox.Stripe, "bench", "the outage is over"); err != nil {
			return err
		}
		return await(both, pollRarely, func() (waiting bool, err error) {
			err = d.pool.QueryRow(both, waitingSince, resumed).Scan(&waiting)
			return !waiting, err
		})
	})
	if err := group.Wait(); err != nil {
		return resumed, errors.Join(context.Cause(ctx), err)
	}
	return resumed, b.awaitSettled(ctx, d)
}

// The last call for the backlog ends the time that is measured; what was still called later, for new charges, is not counted.
const drainedSince = `
WITH sent AS (SELECT a.sent_at, c.created_at < $1 AS old FROM attempt a JOIN charge c ON c.id = a.charge_id),
     last AS (SELECT max(sent_at) AS at FROM sent WHERE old)
SELECT extract(epoch FROM last.at - $1)::float8,
       (SELECT count(*) FROM sent WHERE sent_at <= last.at),
       (SELECT max(n) FROM (SELECT count(*) AS n FROM sent GROUP BY date_trunc('second', sent_at)) AS each),
       (SELECT count(*) FROM charge WHERE created_at >= $1)
  FROM last`

const newLatency = `
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), 0)::float8, coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY ms), 0)::float8
  FROM (SELECT extract(epoch FROM e.at - c.created_at) * 1000 AS ms
          FROM charge c JOIN charge_event e ON e.charge_id = c.id AND e.to_status = 'succeeded' AND e.from_status IS DISTINCT FROM 'succeeded'
         WHERE c.created_at >= $1) AS settled`

func (b *bench) drained(ctx context.Context, d *database, resumed time.Time) (result Drained, latency Sample, calls int, err error) {
	result = Drained{Waiting: b.Drain, Allowed: b.DrainRate}
	if err := d.pool.QueryRow(ctx, drainedSince, resumed).Scan(&result.Seconds, &calls, &result.Busiest, &result.New); err != nil {
		return result, latency, calls, err
	}
	result.Reached = float64(calls) / result.Seconds
	return result, latency, calls, d.pool.QueryRow(ctx, newLatency, resumed).Scan(&latency.P50, &latency.P99)
}

// payments is how many payments the simulated Stripe has.
func payments(ctx context.Context, providers string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, providers+"/_sandbox/ledger", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var ledger struct {
		PaymentIntents []struct {
			Status string `json:"status"`
		} `json:"payment_intents"`
	}
	err = json.NewDecoder(answer.Body).Decode(&ledger)
	return len(ledger.PaymentIntents), err
}
