package workers

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncepay/oncepay/outbox"
)

const (
	// leaseKept is for how long leased calls may be made. Those left over are dropped: the row has moved on.
	leaseKept = time.Second

	// leaseAhead is for how long ahead calls are leased: those that were made in as much time before.
	leaseAhead = 200 * time.Millisecond

	// askAgain is how soon the row is asked again that said that nobody calls, or could not be read.
	askAgain = 500 * time.Millisecond

	leaseBound = 5 * time.Second
)

// leases are the calls that this process may make out of the bucket that all processes share.
type leases struct {
	outbox     *outbox.Outbox
	provider   outbox.Provider
	configured float64 // calls per second of all processes together
	health     *health
	log        *slog.Logger
	stopping   chan struct{} // closed when the process stops: nobody waits any more

	lanes [2]lane
}

// lane is what is left of the latest lease of one lane.
type lane struct {
	mu     sync.Mutex
	tokens int
	taken  int       // since the latest lease
	asked  time.Time // when that was
	until  time.Time
	next   time.Time // the row is not asked before
	err    error     // what it said last

	wanting atomic.Int32 // jobs that wait for a call
}

// wants counts one more job that waits for a call, until done.
func (l *leases) wants(of outbox.Lane) (done func()) {
	l.lanes[of].wanting.Add(1)
	return func() { l.lanes[of].wanting.Add(-1) }
}

// take returns 0 and uses up a token, or how long to wait, or errStopped. One caller at a time asks the row; the others then use what it
// brought.
func (l *leases) take(ctx context.Context, of outbox.Lane) (time.Duration, error) {
	job, _ := ctx.Value(trialCallKey{}).(*trialCall)
	job.end() // one that asks for another call has ended its last
	s := &l.lanes[of]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.tokens > 0 && now.Before(s.until) {
		s.tokens--
		s.taken++
		return 0, nil
	}
	if now.Before(s.next) {
		return s.next.Sub(now), s.err
	}
	bound, cancel := context.WithTimeout(ctx, leaseBound)
	defer cancel()
	lease, err := l.outbox.Lease(bound, l.provider, of, int(s.wanting.Load())+s.ahead(now), l.configured)
	switch {
	case err != nil && ctx.Err() != nil:
		return askAgain, nil
	case err != nil: // whoever waits asks again; the job gives up in its own time
		l.log.Warn("provider.lease", "provider", l.provider, "error", err)
		s.tokens, s.err, s.next = 0, nil, now.Add(askAgain)
		return askAgain, nil
	}
	l.health.heard(lease.Health)
	if lease.Stopped() {
		s.tokens, s.err, s.next = 0, errStopped, now.Add(askAgain)
		return askAgain, errStopped
	}
	s.tokens, s.err, s.until, s.next = lease.Tokens, nil, now.Add(leaseKept), now.Add(lease.Wait)
	if s.tokens == 0 {
		return lease.Wait, nil
	}
	s.tokens--
	s.taken, s.asked = 1, now
	job.begin(l, lease.TrialCall)
	return 0, nil
}

// ahead is how many calls may be expected beside those that are wanted already, going by what was taken since the latest lease. What is leased
// and not used is lost to everybody.
func (s *lane) ahead(now time.Time) int {
	since := now.Sub(s.asked)
	if since > leaseKept || since <= 0 {
		return 0
	}
	return int(float64(s.taken) * min(1, float64(leaseAhead)/float64(since)))
}

// slow tells all processes that the provider finds us too fast, and drops what is left of our own leases.
func (l *leases) slow(hold time.Duration) {
	for i := range l.lanes {
		l.lanes[i].mu.Lock()
		l.lanes[i].tokens = 0
		l.lanes[i].mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseBound)
	defer cancel()
	rate, err := l.outbox.SlowDown(ctx, l.provider, l.configured, hold)
	l.health.throttled()
	if err != nil {
		l.log.Error("provider.rate", "provider", l.provider, "error", err)
		return
	}
	l.log.Warn("provider.rate", "provider", l.provider, "rate", rate, "configured", l.configured, "hold_ms", hold.Milliseconds())
}
