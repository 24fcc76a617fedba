package charges

import (
	"time"

	"github.com/google/uuid"
)

// Outcome is what is known of an attempt. The empty outcome says that nobody has seen its call end.
type Outcome string

// The outcomes. Unseen, Unknown and StoredFailure leave an attempt open: it may have moved money. All
// others close it.
const (
	Unseen        Outcome = ""
	Unknown       Outcome = "unknown"        // the call ended without an answer that can be believed
	StoredFailure Outcome = "stored_failure" // Stripe stored a 5xx under the key and replays it
	NotSent       Outcome = "not_sent"       // no connection was obtained: nothing was written
	Refused       Outcome = "refused"        // Stripe answered before executing: 401, 403, 409 in use, 429
	Absent        Outcome = "absent"         // a complete look found no payment
	Invalid       Outcome = "invalid"        // refused as a request that can never work, stored nowhere
	Answered      Outcome = "answered"       // the operation's own result
)

// Attempt is one request to Stripe, written down before it was sent.
type Attempt struct {
	ID           uuid.UUID
	ChargeID     uuid.UUID
	Number       int    // 1 for the first
	ProviderKey  string // sent as Stripe's Idempotency-Key
	Account      Account
	Request      string    // the encoded form
	SentAt       time.Time // by PostgreSQL's clock
	StripeSentAt time.Time // by Stripe's clock
	EndedAt      time.Time // zero while nobody has seen the call end
	Outcome      Outcome
	Code         string // the provider's error code, if it gave one
	HTTPStatus   int    // 0: no answer
	RequestID    string // Stripe's Request-Id
	Payment      string // the PaymentIntent that it cancels; empty: it makes one
}

// Open tells whether the attempt may have moved money, as far as is known.
func (a Attempt) Open() bool {
	return a.Outcome == Unseen || a.Outcome == Unknown || a.Outcome == StoredFailure
}

// Account is a Stripe account in one of its two modes. A key of one says nothing about payments of another.
type Account struct {
	ID       string // "acct_..."
	Livemode bool
}

// Look is what Stripe's lists said of a charge. One that is cut short is gone on with by the next, so that a long list is read to
// its end.
type Look struct {
	ID          int64     // 0: not stored yet
	At          time.Time // when it was written down, by PostgreSQL's clock
	Begun       time.Time // by PostgreSQL's clock: it says nothing of what was created later
	Complete    bool      // every page was read
	Seen        int       // payment intents read
	Found       []string  // the ids of the payments that are ours
	Error       string    // why it was cut short; empty: it was not
	Rest        []Window  // what is left to read of a list of its own
	Readings    []int64   // those that it shares with others; empty: it read a list of its own
	Restoration int64     // it read what this [Restoration], and all before it, may have lost; 0: it looked around attempts
}

// begun is when the look began, as far as is known.
func (l Look) begun() time.Time {
	if l.Begun.IsZero() {
		return l.At
	}
	return l.Begun
}
