package stripetest

import (
	"cmp"
	"slices"
)

// Payment is a PaymentIntent in the ledger; the members are Stripe's own.
type Payment struct {
	ID             string            `json:"id"`
	Amount         int64             `json:"amount"`
	AmountReceived int64             `json:"amount_received"`
	AmountRefunded int64             `json:"amount_refunded"` // by refunds that have not failed
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	LatestCharge   string            `json:"latest_charge,omitempty"`
	Customer       string            `json:"customer,omitempty"`
	IdempotencyKey string            `json:"idempotency_key"` // of the request that created it
	Metadata       map[string]string `json:"metadata"`
	Created        int64             `json:"created"` // seconds since 1970, as at Stripe
	Account        string            `json:"account"`
	Livemode       bool              `json:"livemode"`
}

// Refund is a refund in the ledger; the members are Stripe's own.
type Refund struct {
	ID             string            `json:"id"`
	PaymentIntent  string            `json:"payment_intent"`
	Charge         string            `json:"charge"`
	Amount         int64             `json:"amount"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Reason         string            `json:"reason,omitempty"`
	FailureReason  string            `json:"failure_reason,omitempty"`
	IdempotencyKey string            `json:"idempotency_key"` // of the request that created it
	Metadata       map[string]string `json:"metadata"`
	Created        int64             `json:"created"`
	Account        string            `json:"account"`
	Livemode       bool              `json:"livemode"`
}

// Dispute is a dispute in the ledger; the members are Stripe's own.
type Dispute struct {
	ID            string `json:"id"`
	PaymentIntent string `json:"payment_intent"`
	Charge        string `json:"charge"`
	Amount        int64  `json:"amount"`
	Currency      string `json:"currency"`
	Reason        string `json:"reason"`
	Status        string `json:"status"`
	DueBy         int64  `json:"due_by"` // evidence_details.due_by
	Created       int64  `json:"created"`
	Account       string `json:"account"`
	Livemode      bool   `json:"livemode"`
}

// Payments returns every payment of every account and mode, oldest first.
func (s *Stripe) Payments() []Payment {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*intent{}
	for _, b := range s.books {
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
			ID: pi.ID, Amount: pi.Amount, AmountReceived: pi.AmountReceived, AmountRefunded: pi.AmountRefunded, Currency: pi.Currency,
			Status: pi.Status, LatestCharge: pi.LatestCharge, Customer: pi.Customer, IdempotencyKey: pi.IdempotencyKey,
			Metadata: pi.Metadata, Created: pi.CreatedAt.Unix(), Account: pi.Owner.Account, Livemode: pi.Owner.Livemode,
		}
	}
	return payments
}

// Refunds returns every refund of every account and mode, oldest first.
func (s *Stripe) Refunds() []Refund {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*refund{}
	for _, b := range s.books {
		for _, r := range b.refunds {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(x, y *refund) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	refunds := make([]Refund, len(all))
	for i, r := range all {
		refunds[i] = Refund{
			ID: r.ID, PaymentIntent: r.PaymentIntent, Charge: r.Charge, Amount: r.Amount, Currency: r.Currency, Status: r.Status,
			Reason: r.Reason, FailureReason: r.FailureReason, IdempotencyKey: r.IdempotencyKey, Metadata: r.Metadata,
			Created: r.CreatedAt.Unix(), Account: r.Owner.Account, Livemode: r.Owner.Livemode,
		}
	}
	return refunds
}

// Disputes returns every dispute of every account and mode, oldest first.
func (s *Stripe) Disputes() []Dispute {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*dispute{}
	for _, b := range s.books {
		for _, d := range b.disputes {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(x, y *dispute) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	disputes := make([]Dispute, len(all))
	for i, d := range all {
		disputes[i] = Dispute{
			ID: d.ID, PaymentIntent: d.PaymentIntent, Charge: d.Charge, Amount: d.Amount, Currency: d.Currency, Reason: d.Reason,
			Status: d.Status, DueBy: d.EvidenceBy.Unix(), Created: d.CreatedAt.Unix(), Account: d.Owner.Account, Livemode: d.Owner.Livemode,
		}
	}
	return disputes
}
