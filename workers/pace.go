package workers

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

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

// Hold makes everybody wait: the provider said that we are too fast.
func (p *Pace) Hold(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.heldUntil) {
		p.heldUntil = until
	}
}
