package charges

import "slices"

// Status is where a charge stands, in Stripe's words where Stripe has one.
type Status string

// The statuses. Succeeded, Failed and Canceled are final.
const (
	Pending         Status = "pending"          // accepted; nothing has been sent
	Processing      Status = "processing"       // sent, or about to be: money may move
	RequiresAction  Status = "requires_action"  // the buyer must do something, such as 3-D Secure
	RequiresCapture Status = "requires_capture" // authorised; the money is held, not taken
	Succeeded       Status = "succeeded"
	Failed          Status = "failed"
	Canceled        Status = "canceled"
	NeedsReview     Status = "needs_review" // a person must decide
)

// Statuses are all statuses.
var Statuses = []Status{Pending, Processing, RequiresAction, RequiresCapture, Succeeded, Failed, Canceled, NeedsReview}

// Final tells whether a charge of this status wants nothing any more.
func (s Status) Final() bool { return s == Succeeded || s == Failed || s == Canceled }

// Waiting tells whether a charge of this status waits for a worker or for Stripe, so that a caller may want to wait too.
func (s Status) Waiting() bool { return s == Pending || s == Processing }

// transitions is the one table of what may follow what. A charge that failed or was canceled can still be found to have
// succeeded, because Stripe's word that money moved outranks ours; any can need a person, when a second payment for it
// appears.
var transitions = map[Status][]Status{
	Pending:         {Processing, RequiresAction, RequiresCapture, Succeeded, Failed, Canceled, NeedsReview},
	Processing:      {RequiresAction, RequiresCapture, Succeeded, Failed, Canceled, NeedsReview},
	RequiresAction:  {Processing, RequiresCapture, Succeeded, Failed, Canceled, NeedsReview},
	RequiresCapture: {Succeeded, Failed, Canceled, NeedsReview},
	NeedsReview:     {NeedsReview, Processing, RequiresAction, RequiresCapture, Succeeded, Failed, Canceled},
	Failed:          {Succeeded, NeedsReview},
	Canceled:        {Succeeded, Failed, NeedsReview},
	Succeeded:       {NeedsReview},
}

// MayBecome tells whether the table allows a change from s to next.
func (s Status) MayBecome(next Status) bool { return slices.Contains(transitions[s], next) }

// from lists the statuses that may become next, for the compare-and-set.
func from(next Status) []string {
	var froms []string
	for _, s := range Statuses {
		if s.MayBecome(next) {
			froms = append(froms, string(s))
		}
	}
	return froms
}
