package stripetest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

const (
	intentKind  = "stripe.payment_intent"
	refundKind  = "stripe.refund"
	disputeKind = "stripe.dispute"
	keyKind     = "stripe.key"
)

// book is what one account has in one mode. Objects in it are never changed in place, only replaced, so a
// pointer that was handed out stays as it was. Orders are of ids, oldest first.
type book struct {
	owner        partition
	intents      map[string]*intent
	order        []string
	charges      map[string]string // ids of charges to ids of their intents
	refunds      map[string]*refund
	refundOrder  []string
	disputes     map[string]*dispute
	disputeOrder []string
	disputed     map[string]string    // ids of intents to ids of their disputes
	due          map[string]time.Time // when objects change by themselves, by their ids
	keys         keyStore
}

// book returns the caller's book, made when first asked for. s.mu is held.
func (s *Stripe) book(who partition) *book {
	b, ok := s.books[who]
	if !ok {
		b = &book{
			owner: who, intents: map[string]*intent{}, charges: map[string]string{}, refunds: map[string]*refund{},
			disputes: map[string]*dispute{}, disputed: map[string]string{}, due: map[string]time.Time{}, keys: newKeyStore(),
		}
		s.books[who] = b
	}
	return b
}

func (b *book) find(id string) (*intent, *apiError) {
	pi, ok := b.intents[id]
	if !ok {
		return nil, missing(404, "payment_intent", id, "intent")
	}
	return pi, nil
}

func (b *book) put(pi *intent) {
	if _, known := b.intents[pi.ID]; !known {
		b.order = append(b.order, pi.ID)
	}
	b.intents[pi.ID] = pi
	if pi.LatestCharge != "" {
		b.charges[pi.LatestCharge] = pi.ID
	}
	b.changesAt(pi.ID, pi.DueAt)
}

func (b *book) putRefund(r *refund) {
	if _, known := b.refunds[r.ID]; !known {
		b.refundOrder = append(b.refundOrder, r.ID)
	}
	b.refunds[r.ID] = r
	b.changesAt(r.ID, r.DueAt)
}

func (b *book) putDispute(d *dispute) {
	if _, known := b.disputes[d.ID]; !known {
		b.disputeOrder = append(b.disputeOrder, d.ID)
	}
	b.disputes[d.ID], b.disputed[d.PaymentIntent] = d, d.ID
	b.changesAt(d.ID, d.DueAt)
}

// changesAt notes when the object changes by itself; zero for never.
func (b *book) changesAt(id string, at time.Time) {
	delete(b.due, id)
	if !at.IsZero() {
		b.due[id] = at
	}
}

// Kinds, Restore and Snapshot implement frame.Keeper.
func (s *Stripe) Kinds() []string { return []string{intentKind, refundKind, disputeKind, keyKind} }

func (s *Stripe) Restore(r frame.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Kind {
	case intentKind:
		var pi intent
		if err := json.Unmarshal(r.Value, &pi); err != nil {
			return err
		}
		s.book(pi.Owner).put(&pi)
	case refundKind:
		var re refund
		if err := json.Unmarshal(r.Value, &re); err != nil {
			return err
		}
		s.book(re.Owner).putRefund(&re)
	case disputeKind:
		var d dispute
		if err := json.Unmarshal(r.Value, &d); err != nil {
			return err
		}
		s.book(d.Owner).putDispute(&d)
	case keyKind:
		var k storedAnswer
		if err := json.Unmarshal(r.Value, &k); err != nil {
			return err
		}
		s.book(k.Owner).keys.put(&k, s.clock.Now())
	default:
		return fmt.Errorf("not a record of Stripe: %s", r.Kind)
	}
	return nil
}

func (s *Stripe) Snapshot() []frame.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []frame.Record
	for _, b := range s.books {
		for _, id := range b.order {
			records = append(records, frame.NewRecord(intentKind, b.intents[id]))
		}
		for _, id := range b.refundOrder {
			records = append(records, frame.NewRecord(refundKind, b.refunds[id]))
		}
		for _, id := range b.disputeOrder {
			records = append(records, frame.NewRecord(disputeKind, b.disputes[id]))
		}
		for _, k := range b.keys.oldestFirst() {
			records = append(records, frame.NewRecord(keyKind, k))
		}
	}
	return records
}

func newID(prefix string) string { return prefix + rand.Text() }
