package stripetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Settle lets everything change that changes by itself as time passes: a bank debit settles, an authorisation
// expires, a refund ends, a dispute is lost. Requests do the same for what they look at.
func (s *Stripe) Settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.books {
		if err := s.settle(b, s.clock.Now()); err != nil {
			return err
		}
	}
	return nil
}

// settle makes the changes that are due, in the order of their times. s.mu is held.
func (s *Stripe) settle(b *book, now time.Time) error {
	var due []string
	for id, at := range b.due {
		if !now.Before(at) {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(x, y string) int { return cmp.Or(b.due[x].Compare(b.due[y]), cmp.Compare(x, y)) })
	for _, id := range due {
		if err := s.commit(b, b.mature(id), nil, cause{at: b.due[id]}); err != nil {
			return fmt.Errorf("settle %s: %w", id, err)
		}
	}
	return nil
}

// mature is the change that is due to the object.
func (b *book) mature(id string) *change {
	if r, ok := b.refunds[id]; ok {
		failure := ""
		if r.DueStatus == refundFailed {
			failure = "unknown"
		}
		return b.finish(r, r.DueStatus, failure)
	}
	if d, ok := b.disputes[id]; ok {
		return closeDispute(b.intents[d.PaymentIntent].clone(), d.clone(), lost)
	}
	pi := b.intents[id]
	next := pi.clone()
	next.DueAt, next.DueStatus, next.DueError = time.Time{}, "", nil
	switch pi.DueStatus {
	case canceled:
		next.cancelAt(pi.DueAt, "automatic")
	case succeeded:
		next.Status, next.AmountReceived, next.Authorized = succeeded, pi.Amount, pi.LatestCharge
		next.tell("payment_intent.succeeded")
	case requiresPaymentMethod:
		next.fail(pi.DueError)
	}
	return &change{intent: next}
}

// ErrNoSuchPayment and ErrNotWaiting are what Authenticate can be refused for.
var (
	ErrNoSuchPayment = errors.New("no such PaymentIntent")
	ErrNotWaiting    = errors.New("the PaymentIntent does not wait for its buyer")
)

// Authenticate plays the buyer of a payment in requires_action: who passes the bank's check, so that the
// payment succeeds or waits for its capture, or who fails it and must find another payment method.
func (s *Stripe) Authenticate(id string, passed bool) error {
	now := s.clock.Now()
	err := s.control(func(b *book) (*change, error) {
		pi, ok := b.intents[id]
		switch {
		case !ok:
			return nil, nil
		case pi.Status != requiresAction:
			return nil, fmt.Errorf("%w: it is %s", ErrNotWaiting, pi.Status)
		}
		next := pi.clone()
		if passed {
			next.authorize(now)
		} else {
			next.fail(&apiError{
				Type: "invalid_request_error", Code: "payment_intent_authentication_failure",
				Message: "The buyer did not pass the bank's check.", PaymentMethod: methodView(next),
			})
		}
		return &change{intent: next}, nil
	})
	if errors.Is(err, ErrNotFound) {
		return ErrNoSuchPayment
	}
	return err
}
