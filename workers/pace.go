package workers

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// shortWait is one that is not worth giving a job back for.
const shortWait = 2 * time.Second

// Pace bounds how fast we call a provider: a token bucket at the configured rate, held back altogether for as long as the
// provider asked for. Safe for concurrent use.
type Pace struct {
	bucket *rate.Limiter

	mu        sync.Mutex
	heldUntil time.Time
}

// NewPace returns a pace of perSecond calls, with bursts of at most a second's worth.
func NewPace(perSecond float64) *Pace {
	return &Pace{bucket: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))}
}

// Take returns 0 when a call may be made now, and has then used up its token; else how long to wait before asking again.
func (p *Pace) Take() time.Duration {
	p.mu.Lock()
	held := time.Until(p.heldUntil)
	p.mu.Unlock()
	if held > 0 {
		return held
	}
	token := p.bucket.Reserve()
	delay := token.Delay()
	if delay > 0 {
		token.Cancel()
	}
	return delay
}

// takeSoon takes a token as Take does, but waits out short waits in place. A wait that is still due is returned: a long one, or
// what was left of a short one when ctx ended.
func (p *Pace) takeSoon(ctx context.Context) time.Duration {
	for {
		wait := p.Take()
		if wait == 0 || wait > shortWait {
			return wait
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return wait
		}
	}
}

// Hold makes everybody wait: the provider said that we are too fast.
func (p *Pace) Hold(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.heldUntil) {
		p.heldUntil = until
	}
}

// Wait returns when a call may be made, and has then used up its token, or ctx's error.
func (p *Pace) Wait(ctx context.Context) error {
	for {
		wait := p.Take()
		if wait == 0 {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
