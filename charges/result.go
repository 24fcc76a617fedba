package charges

// Payment is what Stripe says of one PaymentIntent, reduced to what a charge needs.
type Payment struct {
	ID       string // "pi_..."
	Status   string // Stripe's own word
	Amount   int64  // in the currency's minor unit, at Stripe's scale
	Currency string
	Received int64 // what the buyer was charged; less than Amount where less was captured
	Livemode bool
	Key      string   // metadata.oncepay_key: the caller's idempotency key
	Failure  *Failure // of its latest failed try, if any
}

// Result is what came of an attempt: what is now known of the attempt, and what follows for the charge.
type Result struct {
	Outcome    Outcome
	Code       string // the provider's error code, if it gave one
	HTTPStatus int    // 0: no answer
	RequestID  string // the provider's, if it gave one
	News       *News  // what Stripe said of the payment, if it did: the charge goes where that leads
	Change            // else what follows for the charge; its zero value changes nothing
}

// Change is one step of a charge along the transition table.
type Change struct {
	To      Status   // empty: no change
	Payment string   // the PaymentIntent's id, where one is known
	Failure *Failure // set where To is Failed
	Reason  string   // set where To is NeedsReview

	stock Stock // where the charge's items are then; empty: it has none, or they stay where they are
}
