package stripetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// settle lets the payments change that change by themselves: a bank debit settles, an authorisation expires.
// It follows from what the journal holds and from the clock, so it is not written down.
func (b *book) settle(now time.Time) {
	for id := range b.due {
		pi := b.intents[id]
		if now.Before(pi.DueAt) {
			continue
		}
		next := pi.clone()
		next.DueAt, next.DueStatus, next.DueError = time.Time{}, "", nil
		switch pi.DueStatus {
		case canceled:
			next.cancelAt(pi.DueAt, "automatic")
		case succeeded:
			next.Status, next.AmountReceived = succeeded, pi.Amount
		case requiresPaymentMethod:
			next.Status, next.PaymentMethod, next.LastError = requiresPaymentMethod, "", pi.DueError
		}
		b.put(next)
	}
}

// ErrNoSuchPayment and ErrNotWaiting are what Authenticate can be refused for.
var (
	ErrNoSuchPayment = errors.New("no such PaymentIntent")
	ErrNotWaiting    = errors.New("the PaymentIntent does not wait for its buyer")
)

// Authenticate plays the buyer of a payment in requires_action: who passes the bank's check, so that the
// payment succeeds or waits for its capture, or who fails it and must find another payment method.
func (s *Stripe) Authenticate(id string, passed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for _, b := range s.books {
		pi, ok := b.intents[id]
		if !ok {
			continue
		}
		if pi.Status != requiresAction {
			return fmt.Errorf("%w: it is %s", ErrNotWaiting, pi.Status)
		}
		next := pi.clone()
		if passed {
			next.authorize(now)
		} else {
			next.LastError = &apiError{
				Type: "invalid_request_error", Code: "payment_intent_authentication_failure",
				Message: "The buyer did not pass the bank's check.", PaymentMethod: methodView(next),
			}
			next.Status, next.PaymentMethod = requiresPaymentMethod, ""
			next.ActionURL, next.ReturnURL = "", ""
		}
		if err := s.journal.Append(frame.NewRecord(intentKind, next)); err != nil {
			return fmt.Errorf("authenticate %s: %w", id, err)
		}
		b.put(next)
		return nil
	}
	return ErrNoSuchPayment
}
