package charges

import (
	"slices"
	"time"
)

// The window around an attempt in which its payment must have been created, by Stripe's clock: some minutes for the
// difference between our notion of it and its own, and for a request that lingered.
const (
	lookBefore = 5 * time.Minute
	lookAfter  = 10 * time.Minute

	// clockDrift is by how much Stripe's clock and PostgreSQL's may have moved against each other since an attempt before
	// its date is not trusted any more. Servers' clocks agree to the second; an answer's Date may be a minute old.
	clockDrift = 2 * time.Minute
)

// Window is a stretch of Stripe's time whose payments are read, the newest first.
type Window struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	After string    `json:"after,omitempty"` // the last payment that was read; empty: none yet
}

// Windows are the stretches of Stripe's time in which the payments that the permit asks to look for must have been created, those of
// attempts that overlap made one. Where one of the two clocks was set since an attempt, its date says little, and the stretch goes on until
// now. Without open attempts it is everything since nothing was heard any more, or what a restoration may have lost, one for each.
func (p Permit) Windows(now Clocks) []Window {
	switch {
	case len(p.Restored) > 0:
		var each []Window
		for _, r := range p.Restored {
			each = append(each, r.window(now))
		}
		return each
	case len(p.Open) == 0:
		return []Window{{From: now.stripe(p.Since).Add(-lookBefore), To: now.Stripe.Add(lookAfter)}}
	}
	var each []Window
	for _, a := range p.Open {
		first, last := a.StripeSentAt, a.StripeSentAt
		if now.drifted(a.SentAt, a.StripeSentAt) {
			first, last = earlier(first, now.Stripe), later(last, now.Stripe)
		}
		each = append(each, Window{From: first.Add(-lookBefore), To: last.Add(lookAfter)})
	}
	slices.SortFunc(each, func(a, b Window) int { return a.From.Compare(b.From) })
	var merged []Window
	for _, w := range each {
		if n := len(merged); n > 0 && !w.From.After(merged[n-1].To) {
			merged[n-1].To = later(merged[n-1].To, w.To)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// window is when, by Stripe's clock, what a restored database does not know of can have been sent.
func (r Restoration) window(now Clocks) Window {
	from, to := now.stripe(r.LostFrom), now.stripe(r.DetectedAt)
	if !r.LostFromStripe.IsZero() && now.drifted(r.LostFrom, r.LostFromStripe) {
		from, to = earlier(from, r.LostFromStripe), later(to, now.Stripe)
	}
	return Window{From: from.Add(-lookBefore), To: to.Add(lookAfter)}
}

// stripe converts a time of PostgreSQL's clock.
func (c Clocks) stripe(database time.Time) time.Time { return c.Stripe.Add(database.Sub(c.Database)) }

// drifted tells whether the two clocks have moved against each other since they showed these times.
func (c Clocks) drifted(database, stripe time.Time) bool {
	drift := c.Stripe.Sub(stripe) - c.Database.Sub(database)
	return drift.Abs() > clockDrift
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
