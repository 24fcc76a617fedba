package charges

import (
	"slices"
	"time"
)

// Reading is one reading of Stripe's list of payments, all of those that were created in a stretch of Stripe's time at one account
// and mode, by whichever workers come along, page by page. It is as good as a look of its own for every charge that it serves,
// so that after an outage the same pages are read once and not once for each charge.
//
// # Why sharing keeps the proof
//
// What a complete reading says is this: a payment of that stretch which Stripe's list had when the reading began, and which names the key, is
// among what it found. Nothing is said of what came later. Stripe lists the newest first and each page follows the last payment of the page
// before, so what appears while the pages are read lies in front of them, and may be missed or not; what was there at the beginning lies
// behind, and cannot move out of the way, however long the reading takes and whoever goes on with it.
//
// So a reading is judged by the moment at which it began, on the two clocks that a worker had then, PostgreSQL's and Stripe's, both taken before the
// first page was asked for: it serves a charge if, with all that is known of the charge by now, [Allow] would have allowed at that
// moment the very look that it asks for now. That brings along every rule there is about when an empty list proves something, without
// repeating one of them here:
//
//   - An attempt that was sent later cannot be in it, and one that was sent shortly before may linger at Stripe, or may not have been listed
//     yet: at that moment Allow would have said to wait.
//   - A look that became due later was not due then.
//   - An attempt that was dated by a clock which was set since has another window; Allow's windows for that moment follow from how far the two
//     clocks had moved against each other by then. The worker that begins a reading has read Stripe's clock for that purpose.
//   - A payment at another account, or in the other mode, is in another list.
//
// The reading's stretch must hold the whole of each of those windows. A page that failed ends a worker's turn, not the reading: it is complete
// when a page was the last one, and until then it is no answer. What it found is kept by key and id alone. Before anything is adopted
// the payment is read again by its id, for its present state, and one that names the key and differs is a person's to see, never "none".
//
// A customer's charges are looked for in the customer's own list, which is short; but not what a restored database has lost, since nobody knows
// any more for which customer that was.
type Reading struct {
	ID       int64
	Account  Account
	From, To time.Time // by Stripe's clock
	Begun    Clocks
	After    string // the last payment that was read; empty: no page was read yet
	Seen     int    // payments read
	Complete bool
	Held     bool // somebody is on it
}

const (
	// dateError is by how much two readings of Stripe's clock may be wrong against each other: its dates are whole seconds, and travel. Too little costs a
	// reading, too much would let one serve that began before the attempt.
	dateError = 5 * time.Second

	// grain is what stretches are rounded outwards to, so that charges of the same time share them.
	grain = 15 * time.Minute

	// lease is for how long a reading belongs to whoever saved its latest page. Nobody reads for longer than 40 s.
	lease = 60 * time.Second

	// keepReading is how long a reading is kept; one for a restoration is kept for as long as that matters.
	keepReading = 24 * time.Hour

	// oldestReading bounds the age at which a reading is still used, and gone on with. What it proves does not fade, but what is in doubt
	// now was sent lately.
	oldestReading = 12 * time.Hour
)

// covers tells whether every payment that was created in the window is in the reading's stretch.
func (r Reading) covers(w Window) bool { return !w.From.Before(r.From) && !w.To.After(r.To) }

// beganBefore tells whether the attempt was sent after the reading began: by PostgreSQL's clock, or, as that may have been set back, clearly so
// by Stripe's, which is known to a second or two.
func (r Reading) beganBefore(a Attempt) bool {
	return !a.SentAt.Before(r.Begun.Database) || a.StripeSentAt.Sub(r.Begun.Stripe) > dateError
}

// stretch is the window, rounded outwards.
func (w Window) stretch() Window {
	to := w.To.Truncate(grain)
	if to.Before(w.To) {
		to = to.Add(grain)
	}
	return Window{From: w.From.Truncate(grain), To: to}
}

// lookup is a charge's wish to look: all that [Allow] knew, and what it said.
type lookup struct {
	history History
	permit  Permit
	now     Clocks
	here    Account
	policy  Policy
}

func (q lookup) windows() []Window { return q.permit.Windows(q.now) }

// servedBy tells whether a reading answers for the i-th of the lookup's windows, once it is complete. See [Reading].
func (q lookup) servedBy(r Reading, i int) bool {
	switch begun := r.Begun.Database; {
	case r.Account != q.here:
		return false
	case len(q.permit.Restored) > 0:
		// What a restored database has lost is a stretch of the past, whoever asks and whenever.
		lost := q.permit.Restored[i]
		return !begun.Before(lost.DetectedAt) && lost.settledBy(begun, q.now, q.policy) && r.covers(q.windows()[i])
	case q.now.Database.Sub(begun) > min(oldestReading, q.policy.Window/2):
		return false
	case begun.Before(q.permit.NotBefore) && !q.goesOn(r):
		return false
	case slices.ContainsFunc(q.history.Attempts, r.beganBefore):
		return false
	}
	then := Allow(q.history, r.Begun, q.here, q.policy)
	switch {
	case then.Action != LookFirst || len(then.Restored) > 0 || !then.Since.Equal(q.permit.Since) || len(then.Open) != len(q.permit.Open):
		return false
	case q.permit.Final && !then.Final:
		return false
	}
	windows := then.Windows(r.Begun)
	return len(windows) == len(q.windows()) && r.covers(windows[i])
}

// goesOn tells whether the charge's own latest look was cut short on the reading: it may be gone on with for as long as that takes.
func (q lookup) goesOn(r Reading) bool {
	looks := q.history.Looks
	return len(looks) > 0 && !looks[len(looks)-1].Complete && slices.Contains(looks[len(looks)-1].Readings, r.ID)
}

// served returns, for each of the lookup's windows, the reading that answers for it best: a complete one, else one that is under way; the
// zero Reading if there is none.
func (q lookup) served(readings []Reading) []Reading {
	best := make([]Reading, len(q.windows()))
	for i := range best {
		for _, r := range readings {
			if better(r, best[i]) && q.servedBy(r, i) {
				best[i] = r
			}
		}
	}
	return best
}

// better prefers what is complete, then what somebody is on, then what is furthest.
func better(a, b Reading) bool {
	switch {
	case b.ID == 0:
		return true
	case a.Complete != b.Complete:
		return a.Complete
	case a.Held != b.Held:
		return a.Held
	}
	return a.Seen > b.Seen
}

// complete tells whether every window has its answer.
func complete(readings []Reading) bool {
	return !slices.ContainsFunc(readings, func(r Reading) bool { return !r.Complete })
}
