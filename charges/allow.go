package charges

import (
	"slices"
	"time"
)

// Action is what may be done next for an operation at Stripe.
type Action string

// The actions.
const (
	Send          Action = "send"          // under Permit.Key; encode the request if Permit.Request is empty
	LookFirst     Action = "look"          // read Stripe's list of payments in Permit.Windows
	WaitFor       Action = "wait"          // until Permit.Until, by PostgreSQL's clock
	UseResult     Action = "use"           // Permit.Last holds the operation's own result: send nothing
	Park          Action = "review"        // a person must decide; Permit.Reason
	Misconfigured Action = "misconfigured" // the attempts are at another account: neither send nor look
	ReadClock     Action = "read_clock"    // ages matter and Stripe's clock was not just read: read it, ask again
	Nothing       Action = "nothing"       // the charge waits for no worker
)

// Clocks are the two clocks on which ages are judged.
type Clocks struct {
	Database time.Time
	Stripe   time.Time
	Fresh    bool // Stripe's was read for this very decision
}

// Policy holds the ages on which [Allow] decides.
type Policy struct {
	Window     time.Duration   // how long an open attempt's key is trusted to be remembered by Stripe
	LookDelays []time.Duration // when to look after a failure that Stripe stored, counted from that failure
	Rekey      bool            // after the last such look: send under a new key, rather than ask a person
}

// DefaultPolicy is what Stripe's published behaviour allows.
var DefaultPolicy = Policy{
	Window:     23 * time.Hour, // Stripe may prune a key after 24 h; an hour for clocks and queues
	LookDelays: []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour},
}

// inCall is how long an attempt that nobody saw end is left to whoever began it: its request leaves within 45 s or not at
// all, and is answered in the 25 s after that. Whoever takes over a little early sends the same bytes under the same key.
const inCall = 60 * time.Second

// inDoubt is how old an attempt must be before an empty list proves that it made no payment: Stripe's lists are
// current, but a request may linger at Stripe.
const inDoubt = 15 * time.Minute

// Permit is [Allow]'s answer.
type Permit struct {
	Action    Action
	Key       string        // Send: the provider key; empty for the first attempt, whose key is the caller's own
	NewKey    bool          // Send: under a key that has never been sent
	Request   string        // Send: the exact bytes of the earlier attempts
	Open      []Attempt     // the attempts that may have moved money; a LookFirst must settle them
	Since     time.Time     // LookFirst: where no attempt is open, look from then on until now, by PostgreSQL's clock
	Restored  []Restoration // LookFirst: where no attempt is open, look at what these may have lost
	Final     bool          // LookFirst: a complete look that finds nothing proves that there is nothing
	NotBefore time.Time     // LookFirst: a look that began earlier is too old, by PostgreSQL's clock
	Until     time.Time     // WaitFor
	Last      Attempt       // UseResult
	Reason    string        // Park, Misconfigured
	Seen      []string      // Park: the payments that a person must decide about, if they are not the charge's own
}

// History is all that is on record of one operation.
type History struct {
	Accepted     time.Time     // when the charge was, by PostgreSQL's clock
	Attempts     []Attempt     // in the order of their numbers
	Looks        []Look        // in the order of their time
	Restorations []Restoration // of the database, in the order of their time
}

// Allow folds over all attempts of one operation, under all its provider keys, and says what may happen next. It is the
// only judge of that: a job, a rescue, a retry, a replay and an operator all ask it.
//
// here is the account that the worker would send to. Stripe's rules on keys: https://docs.stripe.com/api/idempotent_requests.
func Allow(h History, now Clocks, here Account, p Policy) Permit {
	permit := allow(h.Accepted, h.Attempts, h.Looks, now, here, p)
	if permit.restsOnAbsence() {
		return unlessRestored(permit, h, now, p)
	}
	return permit
}

// restsOnAbsence tells a send that is allowed because there is no attempt which may have moved money, or none under its key, from one that
// repeats an open attempt, which Stripe remembers.
func (p Permit) restsOnAbsence() bool { return p.Action == Send && (len(p.Open) == 0 || p.NewKey) }

// allow is Allow for a database that has forgotten nothing, as far as is known.
func allow(accepted time.Time, attempts []Attempt, looks []Look, now Clocks, here Account, p Policy) Permit {
	if i := slices.IndexFunc(attempts, func(a Attempt) bool { return a.Outcome == Answered }); i >= 0 {
		return Permit{Action: UseResult, Last: attempts[i]}
	}
	if slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Code == idempotencyError }) {
		return Permit{Action: Park, Reason: idempotencyError}
	}
	if slices.ContainsFunc(looks, func(l Look) bool { return l.Complete && len(l.Found) > 0 }) {
		return Permit{Action: Park, Reason: paymentFound} // and yet not adopted
	}
	if len(attempts) == 0 {
		return sendUnlessQuiet(Permit{Action: Send}, accepted, looks, now, p)
	}
	last := attempts[len(attempts)-1]
	invalid := slices.IndexFunc(attempts, func(a Attempt) bool { return a.Outcome == Invalid })

	var open []Attempt
	for _, a := range attempts {
		if a.Open() {
			open = append(open, a)
		}
	}
	if len(open) == 0 {
		if invalid >= 0 {
			return Permit{Action: UseResult, Last: attempts[invalid]}
		}
		return sendUnlessQuiet(Permit{Action: Send, Key: last.ProviderKey, Request: last.Request}, last.SentAt, looks, now, p)
	}

	if slices.ContainsFunc(open, func(a Attempt) bool { return a.Account != here }) {
		return Permit{Action: Misconfigured, Reason: "the open attempts were sent to another Stripe account or mode"}
	}
	// Whoever is in a call is given the time to come back. This is judged on PostgreSQL's clock alone: the later
	// clock would cut the wait short.
	for _, a := range open {
		if until := a.SentAt.Add(inCall); a.Outcome == Unseen && now.Database.Before(until) {
			return Permit{Action: WaitFor, Until: until}
		}
	}
	if !now.Fresh {
		return Permit{Action: ReadClock}
	}

	past := slices.ContainsFunc(open, func(a Attempt) bool { return now.age(a) >= p.Window })
	since, stored := doubtful(attempts, last.ProviderKey)
	switch {
	case !since.IsZero():
		return lookAround(open, last, since, stored, looks, now, p)
	case past:
		if until := now.provenAt(open); now.Database.Before(until) {
			return Permit{Action: WaitFor, Until: until}
		}
		return Permit{Action: LookFirst, Open: open, Final: true}
	case anotherKey(open, last.ProviderKey) && !now.Database.Before(latest(looks).At.Add(inCall)):
		return Permit{Action: LookFirst, Open: open, NotBefore: now.Database.Add(-inCall)}
	}
	return Permit{Action: Send, Key: last.ProviderKey, Request: last.Request, Open: open}
}

// sendUnlessQuiet is for a charge that, by its attempts, cannot have moved money. If nothing has been heard of it for longer than
// Stripe is trusted to remember a key, that may be because the database was restored from a backup, and nobody has said so, and what was
// sent meanwhile is not in it: look first, from then on until now. After a look, Stripe remembers whatever could have been sent since.
func sendUnlessQuiet(send Permit, heard time.Time, looks []Look, now Clocks, p Policy) Permit {
	if now.Database.Sub(later(heard, latest(looks).begun())) < p.Window {
		return send
	}
	if !now.Fresh {
		return Permit{Action: ReadClock}
	}
	return Permit{Action: LookFirst, Since: heard, Final: true}
}

// lookAround is for attempts that a re-send cannot settle: Stripe is asked at the policy's delays since then, a look
// serving all delays that have passed. What is not found is believed absent only after the last of them, and only of attempts that
// are old enough; after a failure that Stripe stored it is not believed at all.
func lookAround(open []Attempt, last Attempt, since time.Time, stored bool, looks []Look, now Clocks, p Policy) Permit {
	final := since.Add(p.LookDelays[len(p.LookDelays)-1])
	if proven := now.provenAt(open); !stored && proven.After(final) {
		final = proven
	}
	look := latest(looks)
	if looked := look.begun(); looked.Before(final) {
		due := final
		for _, delay := range p.LookDelays {
			if d := since.Add(delay); looked.Before(d) && d.Before(due) {
				due = d
				break
			}
		}
		if now.Database.Before(due) {
			return Permit{Action: WaitFor, Until: due}
		}
		return Permit{Action: LookFirst, Open: open, Final: !stored && !now.Database.Before(final)}
	}
	switch {
	case !stored:
		return Permit{Action: LookFirst, Open: open, Final: true}
	case !p.Rekey:
		return Permit{Action: Park, Reason: "stored_failure"}
	case now.Database.Before(look.At.Add(inCall)):
		return Permit{Action: Send, NewKey: true, Request: last.Request, Open: open}
	default:
		return Permit{Action: LookFirst, Open: open, NotBefore: now.Database.Add(-inCall)}
	}
}

// latest is the last complete look around attempts; zero: there was none.
func latest(looks []Look) (l Look) {
	for _, look := range looks {
		if look.Complete && look.Restoration == 0 {
			l = look
		}
	}
	return l
}

// anotherKey tells whether an attempt under another key than the present one may have moved money.
func anotherKey(open []Attempt, key string) bool {
	return slices.ContainsFunc(open, func(a Attempt) bool { return a.ProviderKey != key })
}

// provenAt is from when on, by PostgreSQL's clock, an empty list proves that none of the attempts made a payment.
func (c Clocks) provenAt(open []Attempt) (at time.Time) {
	for _, a := range open {
		if t := c.Database.Add(inDoubt - c.age(a)); t.After(at) {
			at = t
		}
	}
	return at
}

// paymentFound is why a person must decide about a charge of which a payment was seen at Stripe that is not, or not simply, its own.
const paymentFound = "payment_found"

// idempotencyError is Stripe's type for a key that was used with another request. Trying again cannot help, and a new
// key might charge again.
const idempotencyError = "idempotency_error"

// age is how old an attempt is on the clock that makes it older.
func (c Clocks) age(a Attempt) time.Duration {
	return max(c.Database.Sub(a.SentAt), c.Stripe.Sub(a.StripeSentAt))
}

// doubtful says since when sending again under key is of no use and looks must tell: since a failure that Stripe stored
// under it (stored), or since a refusal that is final only if nothing else went through. Zero: not at all.
func doubtful(attempts []Attempt, key string) (since time.Time, stored bool) {
	for _, a := range attempts {
		if a.Outcome == StoredFailure && a.ProviderKey == key {
			return a.EndedAt, true
		}
	}
	for _, a := range attempts {
		if a.Outcome == Invalid {
			return a.EndedAt, false
		}
	}
	return time.Time{}, false
}
