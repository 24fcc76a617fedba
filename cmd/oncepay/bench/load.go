package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// patience is for an answer. Nothing takes that long: whoever does not answer then has lost the request.
const patience = time.Minute

// driven is what came of a load.
type driven struct {
	acknowledged int             // all answers, each the order's
	counted      int             // those within the time that was measured
	took         time.Duration   // that time
	latencies    []time.Duration // of those counted, ascending
	generator    time.Duration   // CPU time of this process
}

func (d driven) perSecond() float64 { return float64(d.counted) / d.took.Seconds() }

// quantile is the latency that a share of answers did not exceed, in milliseconds.
func (d driven) quantile(share float64) float64 {
	if len(d.latencies) == 0 {
		return 0
	}
	at := min(int(share*float64(len(d.latencies))), len(d.latencies)-1)
	return float64(d.latencies[at]) / float64(time.Millisecond)
}

// driveFor lets clients post an order for so long. Answers that come later are awaited, and not counted; where there was none before, the time is that
// which those took.
func (b *bench) driveFor(ctx context.Context, a *apiProcess, o order, clients int, d time.Duration) (driven, error) {
	return b.drive(ctx, a, o, clients, d, func(began time.Time) bool { return time.Since(began) < d })
}

// driveCount lets clients post n charges together.
func (b *bench) driveCount(ctx context.Context, a *apiProcess, o order, clients, n int) (driven, error) {
	var left atomic.Int64
	left.Store(int64(n))
	return b.drive(ctx, a, o, min(clients, n), 0, func(time.Time) bool { return left.Add(-1) >= 0 })
}

// drive lets clients post while there is more to do. limit bounds what is counted; 0: everything is.
func (b *bench) drive(ctx context.Context, a *apiProcess, o order, n int, limit time.Duration, more func(began time.Time) bool) (driven, error) {
	clients := make([]*client, 0, n)
	defer func() {
		for _, c := range clients {
			c.conn.Close()
		}
	}()
	for range n {
		c, err := dial(a.address, token, o)
		if err != nil {
			return driven{}, err
		}
		clients = append(clients, c)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range clients {
			_ = c.conn.Close() // ends what waits
		}
	})
	defer stop()

	var d driven
	var late []time.Duration
	var mu sync.Mutex
	var group errgroup.Group
	cpu, began := cpuOf(os.Getpid()), time.Now()
	for _, c := range clients {
		group.Go(func() error {
			var within, after []time.Duration
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				d.latencies, late = append(d.latencies, within...), append(late, after...)
			}()
			for more(began) {
				took, err := c.post()
				if err != nil {
					return err
				}
				if limit == 0 || time.Since(began) <= limit {
					within = append(within, took)
				} else {
					after = append(after, took)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	d.took, d.generator = time.Since(began), cpuOf(os.Getpid())-cpu
	d.acknowledged = len(d.latencies) + len(late)
	switch {
	case limit > 0 && len(d.latencies) > 0:
		d.took = limit
	case limit > 0:
		d.latencies = late
	}
	if cause := context.Cause(ctx); cause != nil {
		return d, cause
	}
	if err != nil {
		return d, fmt.Errorf("load with %d clients: %w", n, err)
	}
	slices.Sort(d.latencies)
	d.counted = len(d.latencies)
	return d, nil
}
