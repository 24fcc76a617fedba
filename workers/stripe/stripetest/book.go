package stripetest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

const (
	intentKind = "stripe.payment_intent"
	keyKind    = "stripe.key"
)

// book is what one account has in one mode. Payments in it are never changed in place, only replaced, so a
// pointer that was handed out stays as it was.
type book struct {
	intents map[string]*intent
	order   []string            // ids of intents, oldest first
	due     map[string]struct{} // ids of intents that change by themselves as time passes
	keys    keyStore
}

// book returns the caller's book, made when first asked for. s.mu is held.
func (s *Stripe) book(who partition) *book {
	b, ok := s.books[who]
	if !ok {
		b = &book{intents: map[string]*intent{}, due: map[string]struct{}{}, keys: newKeyStore()}
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
	delete(b.due, pi.ID)
	if !pi.DueAt.IsZero() {
		b.due[pi.ID] = struct{}{}
	}
}

// Kinds, Restore and Snapshot implement frame.Keeper.
func (s *Stripe) Kinds() []string { return []string{intentKind, keyKind} }

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
		for _, k := range b.keys.oldestFirst() {
			records = append(records, frame.NewRecord(keyKind, k))
		}
	}
	return records
}

// Payment is a PaymentIntent in the ledger; the members are Stripe's own.
type Payment struct {
	ID             string            `json:"id"`
	Amount         int64             `json:"amount"`
	AmountReceived int64             `json:"amount_received"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Customer       string            `json:"customer,omitempty"`
	IdempotencyKey string            `json:"idempotency_key"` // of the request that created it
	Metadata       map[string]string `json:"metadata"`
	Created        int64             `json:"created"` // seconds since 1970, as at Stripe
	Account        string            `json:"account"`
	Livemode       bool              `json:"livemode"`
}

// Ledger returns every payment of every account and mode, oldest first.
func (s *Stripe) Ledger() []Payment {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*intent{}
	for _, b := range s.books {
		b.settle(s.clock.Now())
		for _, pi := range b.intents {
			all = append(all, pi)
		}
	}
	slices.SortFunc(all, func(x, y *intent) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	payments := make([]Payment, len(all))
	for i, pi := range all {
		payments[i] = Payment{
			ID: pi.ID, Amount: pi.Amount, AmountReceived: pi.AmountReceived, Currency: pi.Currency, Status: pi.Status,
			Customer: pi.Customer, IdempotencyKey: pi.IdempotencyKey, Metadata: pi.Metadata,
			Created: pi.CreatedAt.Unix(), Account: pi.Owner.Account, Livemode: pi.Owner.Livemode,
		}
	}
	return payments
}

func newID(prefix string) string { return prefix + rand.Text() }
