package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lease is a block of calls that one process may make, or what it has to wait for instead.
type Lease struct {
	Tokens    int
	Wait      time.Duration // 0, unless there are no tokens yet: when to ask again
	TrialCall time.Time     // zero, unless its one token is the call of a trial: [Outbox.TrialCallEnded] is told when that has ended
	Health                  // if it is Stopped there are no tokens, and no wait that would bring some
}

// Lease takes some calls out of the bucket that all processes share, for about 200 ms of one lane's work at most; want is how many
// could be made at once. While the provider is on trial one call is handed out at a time, over all processes and lanes. configured is how many calls per second all processes together may make, as this one was told.
func (o *Outbox) Lease(ctx context.Context, p Provider, l Lane, want int, configured float64) (lease Lease, err error) {
	err = InTx(ctx, o.pool, "provider.lease", func(tx pgx.Tx) error {
		// The row is held for a moment only: a lease that a crash of the database forgets is made again, and no harm is done.
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = off`); err != nil {
			return err
		}
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		lease = Lease{Health: r.Health}
		if r.Stopped() {
			return nil
		}
		if r.trialCallOut() {
			lease.Wait = trialPoll
			return nil
		}
		b := r.bucket.refill(configured, r.Now)
		b, lease.Tokens, lease.Wait = b.lease(l, want, configured, r.Now)
		if r.Trial() && lease.Tokens > 0 {
			b.Tokens[l] += float64(lease.Tokens - 1)
			lease.Tokens, lease.TrialCall, r.TrialCallAt = 1, r.Now, r.Now
			if err := saveOutage(ctx, tx, r.Health); err != nil {
				return err
			}
		}
		lease.Configured, lease.Rate = configured, b.rate(configured, r.Now)
		return b.save(ctx, tx, p, configured)
	})
	return lease, err
}

// SlowDown is what a provider asks for that says we are too fast: the rate is halved, at most once a second, and no process calls
// for so long, at least a second. It returns the rate from then on.
func (o *Outbox) SlowDown(ctx context.Context, p Provider, configured float64, hold time.Duration) (rate float64, err error) {
	err = InTx(ctx, o.pool, "provider.slow", func(tx pgx.Tx) error {
		r, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		b := r.bucket.refill(configured, r.Now).slow(configured, hold, r.Now)
		rate = b.rate(configured, r.Now)
		return b.save(ctx, tx, p, configured)
	})
	return rate, err
}
