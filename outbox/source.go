package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Class says, for the operator's counts, where a piece of work stands. The charges package decides it.
type Class string

// The classes. Those from NeverSent to ReceiptSending, and AtProvider, want a job; the others do not, but for ReceiptUnknown where
// that is sent again.
const (
	NeverSent      Class = "never_sent"        // nothing has left for Stripe: send
	InWindow       Class = "inside_window"     // the same key again is safe: Stripe remembers it
	PastWindow     Class = "past_window"       // Stripe may have forgotten the key, or a restored database what was sent: look first
	PastSendBefore Class = "past_send_before"  // the caller no longer wants it sent: cancel
	ReceiptWaiting Class = "receipt_waiting"   // paid, the receipt not yet claimed
	ReceiptSending Class = "receipt_sending"   // claimed, its outcome not yet known: settle, do not send again
	AtProvider     Class = "waits_at_provider" // Stripe or the buyer has the next word: ask from time to time
	NeedsReview    Class = "needs_review"      // a person has the next word
	ReceiptUnknown Class = "receipt_unknown"   // it may have been sent: settled by evidence, not by sending again
	Settled        Class = "settled"           // final
	Live           Class = "live"              // wants a job, and has one
)

// Classes are all classes, in the order in which they are shown.
var Classes = []Class{NeverSent, InWindow, PastWindow, PastSendBefore, ReceiptWaiting, ReceiptSending,
	Live, AtProvider, NeedsReview, ReceiptUnknown, Settled}

// Item is one piece of unfinished work.
type Item struct {
	Entry
	Class     Class
	Wants     bool      // a job should exist for it
	Reason    string    // why a person is needed or the outcome is in doubt; empty: the class says all
	CreatedAt time.Time // of the charge
}

// Filter narrows a list, a replay or a sweep. Its zero value takes everything.
type Filter struct {
	Since     time.Time   `json:"since,omitzero"`    // charges created at or after it
	Until     time.Time   `json:"until,omitzero"`    // charges created before it
	Caller    string      `json:"caller,omitempty"`  // charges of this caller
	ChargeIDs []uuid.UUID `json:"charges,omitempty"` // these charges only
	Wanting   bool        `json:"-"`                 // only what may want a job
}

// Lock says what [Source.Unfinished] does to the rows it returns.
type Lock int

// NoLock only reads. LockWait waits for rows that others hold; LockSkip leaves them out.
const (
	NoLock Lock = iota
	LockWait
	LockSkip
)

// Source is asked what is unfinished, because the outbox itself knows nothing of charges.
type Source interface {
	// Unfinished returns the work on at most limit charges with an id greater than after, in the order
	// of their ids, and the last id it considered; the zero id says that there are no more charges.
	// With a lock it holds the charges' rows until tx ends, so that nobody else can enqueue for them meanwhile.
	Unfinished(ctx context.Context, tx pgx.Tx, f Filter, after uuid.UUID, limit int, lock Lock) (items []Item, last uuid.UUID, err error)

	// CountSettled counts the charges that want nothing any more, up to a million.
	CountSettled(ctx context.Context, tx pgx.Tx, f Filter) (int64, error)
}
