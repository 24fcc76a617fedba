package stripetest

import (
	"errors"
	"fmt"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// change is what one step makes of a book; nil for nothing. What it tells is in the news of its objects.
type change struct {
	intent  *intent
	refund  *refund
	dispute *dispute
}

// view is what the API answers: the refund where one was made, else the payment.
func (c *change) view() any {
	switch {
	case c == nil:
		return nil
	case c.refund != nil:
		return c.refund.view()
	}
	return c.intent.view()
}

// commit remembers a change, what it tells and the answer under its key together, then shows them. s.mu is held.
func (s *Stripe) commit(b *book, c *change, stored *storedAnswer, why cause) error {
	var records []frame.Record
	var events []told
	if c != nil && c.intent != nil {
		events = append(events, c.intent.told...)
		c.intent.told = nil
		records = append(records, frame.NewRecord(intentKind, c.intent))
	}
	if c != nil && c.refund != nil {
		events = append(events, c.refund.told...)
		c.refund.told = nil
		records = append(records, frame.NewRecord(refundKind, c.refund))
	}
	if c != nil && c.dispute != nil {
		events = append(events, c.dispute.told...)
		c.dispute.told = nil
		records = append(records, frame.NewRecord(disputeKind, c.dispute))
	}
	parcels := s.draft(b.owner, events, why)
	for _, p := range parcels {
		records = append(records, p.Record())
	}
	if stored != nil {
		records = append(records, frame.NewRecord(keyKind, stored))
	}
	if len(records) == 0 {
		return nil
	}
	if err := s.journal.Append(records...); err != nil {
		return fmt.Errorf("keep payment: %w", err)
	}
	b.apply(c)
	if stored != nil {
		b.keys.put(stored, s.clock.Now())
	}
	s.webhooks.Post(parcels...)
	return nil
}

func (b *book) apply(c *change) {
	if c == nil {
		return
	}
	if c.intent != nil {
		b.put(c.intent)
	}
	if c.refund != nil {
		b.putRefund(c.refund)
	}
	if c.dispute != nil {
		b.putDispute(c.dispute)
	}
}

// What a control is refused for.
var (
	ErrNotFound   = errors.New("there is no such object")
	ErrWrongState = errors.New("the object is in another state")
	ErrBadControl = errors.New("bad control")
)

// control makes the change in the first book for which do returns one. Its cause is nobody's request.
func (s *Stripe) control(do func(*book) (*change, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for _, b := range s.books {
		if err := s.settle(b, now); err != nil {
			return err
		}
		c, err := do(b)
		if err != nil {
			return err
		}
		if c != nil {
			return s.commit(b, c, nil, cause{at: now})
		}
	}
	return ErrNotFound
}
