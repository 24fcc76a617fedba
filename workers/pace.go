package workers

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oncepay/oncepay/outbox"
)

const (
	// shortWait is one that is not worth giving a job back for.
	shortWait = 2 * time.Second

	// inPlace bounds all waits of one job for one call of those that all share: there must be time left in which to make it. However long
	// the wait, the job is kept for that long, so that few are taken only to be given back, and not the whole queue.
	inPlace = 20 * time.Second

	// restBound bounds the same where nobody may call: this process has not heard yet that the queue is paused.
	restBound = 10 * time.Second
)

var errStopped = errors.New("nobody calls the provider now: it is paused")

// Pace bounds how fast we call a provider: a token bucket at the configured rate, held back altogether for as long as the
// provider asked for. Safe for concurrent use.
type Pace struct {
	bucket *rate.Limiter // of this process alone; nil: all processes share one
	leases *leases

	mu        sync.Mutex
	heldUntil time.Time
}

// NewPace returns a pace of perSecond calls by this process, with bursts of at most a second's worth. Workers that run
// share one; see [newSharedPace].
func NewPace(perSecond float64) *Pace {
	return &Pace{bucket: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))}
}

// newSharedPace returns a pace of perSecond calls by all processes together.
func newSharedPace(l *leases) *Pace { return &Pace{leases: l} }

// take returns 0 when a call may be made now, and has then used up its token; else how long to wait before asking again.
func (p *Pace) take(ctx context.Context) (time.Duration, error) {
	p.mu.Lock()
	held := time.Until(p.heldUntil)
	p.mu.Unlock()
	switch {
	case held > 0:
		return held, nil
	case p.leases != nil:
		return p.leases.take(ctx, laneOf(ctx))
	}
	token := p.bucket.Reserve()
	delay := token.Delay()
	if delay > 0 {
		token.Cancel()
	}
	return delay, nil
}

// takeSoon takes a token as take does, but waits out short waits in place, and of longer ones a part. A wait that is still due is returned, also
// when ctx ended or the process was told to stop.
func (p *Pace) takeSoon(ctx context.Context) time.Duration {
	defer p.wants(ctx)()
	for began := time.Now(); ; {
		wait, err := p.take(ctx)
		switch {
		case err != nil && time.Since(began) > restBound:
			return jitter(downWait)
		case err == nil && wait == 0:
			return 0
		case p.leases == nil && wait > shortWait || time.Since(began) > inPlace:
			return wait
		}
		if !p.sleep(ctx, min(wait, shortWait)) {
			return wait
		}
	}
}

func (p *Pace) wants(ctx context.Context) (done func()) {
	if p.leases == nil {
		return func() {}
	}
	return p.leases.wants(laneOf(ctx))
}

// sleep is false if ctx ended, or the process was told to stop.
func (p *Pace) sleep(ctx context.Context, d time.Duration) bool {
	var stopping chan struct{}
	if p.leases != nil {
		stopping = p.leases.stopping
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
	case <-stopping:
	}
	return false
}

// Hold makes everybody wait, in all processes that share the pace: the provider said that we are too fast. The rate is halved, too.
func (p *Pace) Hold(d time.Duration) {
	p.holdHere(d)
	if p.leases != nil {
		p.leases.slow(d)
	}
}

// holdHere makes this process wait.
func (p *Pace) holdHere(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.heldUntil) {
		p.heldUntil = until
	}
}

// Wait returns when a call may be made, and has then used up its token, or ctx's error, or that nobody may call now.
func (p *Pace) Wait(ctx context.Context) error {
	defer p.wants(ctx)()
	for {
		wait, err := p.take(ctx)
		if err != nil || wait == 0 {
			return err
		}
		if !p.sleep(ctx, wait) {
			if err := ctx.Err(); err != nil {
				return err
			}
			return errStopped
		}
	}
}

type laneKey struct{}

// onLane returns a context whose calls are made out of the share that a job's queue has of the rate.
func onLane(ctx context.Context, queue string) context.Context {
	if queue == outbox.QueueBacklog {
		return context.WithValue(ctx, laneKey{}, outbox.Backlog)
	}
	return ctx
}

func laneOf(ctx context.Context) outbox.Lane {
	lane, _ := ctx.Value(laneKey{}).(outbox.Lane) // the zero lane is the fresh one
	return lane
}
