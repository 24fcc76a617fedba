package workers

import (
	"context"
	"sync"
	"time"
)

// trialCall is the call that one job makes for a provider's trial, which makes one at a time over all processes. What the call says of the
// provider's health ends the trial; where it says nothing, or was not made, its end lets the next one be made. A nil one notes nothing.
type trialCall struct {
	mu     sync.Mutex
	leases *leases
	at     time.Time // when it was handed out; zero: there is none
}

type trialCallKey struct{}

// withTrialCall returns a context under which one job runs, and what is to be called when that has ended.
func withTrialCall(ctx context.Context) (_ context.Context, end func()) {
	c := &trialCall{}
	return context.WithValue(ctx, trialCallKey{}, c), c.end
}

func (c *trialCall) begin(l *leases, at time.Time) {
	if c == nil || at.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases, c.at = l, at
}

// end tells the row, which hears it also when the job was cancelled. If it does not, the trial waits for as long as the call could take.
func (c *trialCall) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseBound)
	defer cancel()
	if err := c.leases.outbox.TrialCallEnded(ctx, c.leases.provider, c.at); err != nil {
		c.leases.log.Warn("provider.trial_call", "provider", c.leases.provider, "error", err)
	}
	c.at = time.Time{}
}
