package outbox

import (
	"math"
	"time"
)

// Lane is a share of a provider's rate.
type Lane int

// The lanes. While both want more than there is, the backlog gets a quarter; what one leaves unused is the other's.
const (
	Fresh Lane = iota
	Backlog
)

const (
	backlogShare = 0.25
	climb        = 0.05                   // of the configured rate, regained each second after we were slowed down
	leaseFor     = 200 * time.Millisecond // whoever finds no token waits for what the rate allows in this time, so that a call costs no update of the row
	keepFor      = 400 * time.Millisecond // what either lane keeps at most, at the whole rate, for a burst after a quiet time
	slowAgain    = time.Second            // answers of calls that left before the rate was halved do not halve it again
	longestHold  = time.Hour              // nobody is believed who asks for more
	maxLeaseWait = time.Minute            // a rate far below one a second; what the other lane leaves comes sooner
	leastRate    = 1                      // per second, or the configured rate where that is lower
)

// bucket is the token bucket of one provider as it is in its row. Its functions are pure; now is always the database's clock.
type bucket struct {
	Rate      *float64 // nil: as configured
	RateAt    *time.Time
	SlowedAt  *time.Time
	HeldUntil *time.Time
	Tokens    [2]float64 // by lane
	Refilled  time.Time
}

// rate is how many calls per second are allowed now.
func (b bucket) rate(configured float64, now time.Time) float64 {
	if b.Rate == nil {
		return configured
	}
	from := *b.RateAt
	if b.HeldUntil != nil && b.HeldUntil.After(from) {
		from = *b.HeldUntil // it climbs once calls are made again
	}
	return min(configured, *b.Rate+climb*configured*max(0, now.Sub(from).Seconds()))
}

func share(l Lane) float64 {
	if l == Backlog {
		return backlogShare
	}
	return 1 - backlogShare
}

// worth is how many calls may be made at a rate in so much time, at least one.
func worth(rate float64, of time.Duration) float64 { return max(1, math.Ceil(rate*of.Seconds())) }

// notLaterThan undoes what a clock has left that was set back since, such as that of a primary before a failover: nobody waits for it.
func (b bucket) notLaterThan(now time.Time) bucket {
	ahead := b.Refilled.After(now) || b.SlowedAt != nil && b.SlowedAt.After(now)
	if b.HeldUntil != nil && (ahead || b.HeldUntil.After(now.Add(longestHold))) {
		b.HeldUntil = nil // how much of it is left cannot be told
	}
	if b.Refilled.After(now) {
		b.Refilled = now
	}
	if b.SlowedAt != nil && b.SlowedAt.After(now) {
		b.SlowedAt = nil
	}
	return b
}

// fills is how fast a lane fills: with its share, or with everything while the other has all that it keeps.
func (b bucket) fills(l Lane, rate float64) float64 {
	if b.Tokens[1-l] >= worth(rate, keepFor) {
		return rate
	}
	return share(l) * rate
}

// refill brings the bucket up to now: each lane is given its share, and what does not fit there the other lane.
func (b bucket) refill(configured float64, now time.Time) bucket {
	b = b.notLaterThan(now)
	rate := b.rate(configured, now)
	if b.Rate != nil {
		if rate >= configured {
			b.Rate, b.RateAt = nil, nil
		} else {
			b.Rate, b.RateAt = &rate, &now
		}
	}
	from := b.Refilled
	if b.HeldUntil != nil && b.HeldUntil.After(from) {
		from = *b.HeldUntil
	}
	if !now.After(from) {
		return b
	}
	given := rate * now.Sub(from).Seconds()
	most := worth(rate, keepFor)
	var over [2]float64
	for l := range b.Tokens {
		b.Tokens[l] += share(Lane(l)) * given
		over[l] = max(0, b.Tokens[l]-most)
		b.Tokens[l] -= over[l]
	}
	b.Tokens[Fresh] = min(b.Tokens[Fresh]+over[Backlog], most)
	b.Tokens[Backlog] = min(b.Tokens[Backlog]+over[Fresh], most)
	b.Refilled = now
	return b
}

// lease takes as many tokens as are wanted out of a refilled bucket. Without a whole token it says how long those that are wanted take to come,
// or as many as come in the time of a lease.
func (b bucket) lease(l Lane, want int, configured float64, now time.Time) (after bucket, tokens int, wait time.Duration) {
	if b.HeldUntil != nil && b.HeldUntil.After(now) {
		return b, 0, b.HeldUntil.Sub(now)
	}
	rate := b.rate(configured, now)
	fills := b.fills(l, rate)
	if whole := math.Floor(b.Tokens[l]); whole >= 1 {
		n := min(whole, float64(max(1, want)))
		b.Tokens[l] -= n
		return b, int(n), 0
	}
	seconds := (min(worth(fills, leaseFor), float64(max(1, want))) - b.Tokens[l]) / fills
	return b, 0, min(time.Duration(seconds*float64(time.Second)), maxLeaseWait)
}

// slow is what the provider asked for: half the rate, and nobody calls for so long.
func (b bucket) slow(configured float64, hold time.Duration, now time.Time) bucket {
	if b.SlowedAt == nil || now.Sub(*b.SlowedAt) >= slowAgain {
		half := max(b.rate(configured, now)/2, min(leastRate, configured))
		b.Rate, b.RateAt, b.SlowedAt = &half, &now, &now
	}
	if until := now.Add(min(max(hold, slowAgain), longestHold)); b.HeldUntil == nil || until.After(*b.HeldUntil) {
		b.HeldUntil = &until
	}
	b.Tokens = [2]float64{}
	return b
}

// trial is the bucket of a provider that is called again after an outage, and of one that has just passed its trial: one call a second, and climbing.
func (b bucket) trial(configured float64, now time.Time) bucket {
	first := min(leastRate, configured)
	return bucket{Rate: &first, RateAt: &now, SlowedAt: b.SlowedAt, HeldUntil: b.HeldUntil, Tokens: [2]float64{1, 1}, Refilled: now}
}
