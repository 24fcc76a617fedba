package main

import "errors"

// late is the setting of whoever hears that a payment has succeeded: workers, which call Stripe, and the API, which takes its events.
type late struct {
	LateSuccess lateSuccess `name:"late-success" env:"ONCEPAY_LATE_SUCCESS" default:"review" placeholder:"review" help:"When a payment succeeds whose charge was over, and whose items were given back and are sold out: ask a person (review)."`
}

// lateSuccess is what to do about such a payment. There is one answer so far, which is what charges gives.
type lateSuccess string

// UnmarshalText refuses what cannot be done.
func (l *lateSuccess) UnmarshalText(text []byte) error {
	switch string(text) {
	case "review":
		*l = "review"
		return nil
	case "refund":
		return errors.New("refund: refunds are not available yet; review is")
	}
	return errors.New("must be review")
}
