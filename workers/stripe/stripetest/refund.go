package stripetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const refundsPath = "/v1/refunds"

// The states of a refund: https://docs.stripe.com/api/refunds/object#refund_object-status
const (
	refundPending   = "pending"
	refundSucceeded = "succeeded"
	refundFailed    = "failed"
)

// refund is a Refund as the book and the journal hold it.
type refund struct {
	news

	ID             string
	Owner          partition
	CreatedAt      time.Time
	IdempotencyKey string // of the request that created it
	PaymentIntent  string
	Charge         string
	Amount         int64
	Currency       string
	Metadata       map[string]string
	Reason         string
	Status         string
	FailureReason  string

	// DueAt is when the refund changes by itself, to DueStatus; zero for never.
	DueAt     time.Time
	DueStatus string
}

func (r *refund) clone() *refund {
	c := *r
	c.Metadata, c.told = maps.Clone(r.Metadata), nil
	return &c
}

type refundView struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Amount        int64             `json:"amount"`
	Charge        string            `json:"charge"`
	Created       int64             `json:"created"`
	Currency      string            `json:"currency"`
	FailureReason string            `json:"failure_reason,omitempty"`
	Metadata      map[string]string `json:"metadata"`
	PaymentIntent string            `json:"payment_intent"`
	Reason        *string           `json:"reason"`
	ReceiptNumber *string           `json:"receipt_number"`
	Status        string            `json:"status"`
}

func (r *refund) view() *refundView {
	return &refundView{
		ID: r.ID, Object: "refund", Amount: r.Amount, Charge: r.Charge, Created: r.CreatedAt.Unix(), Currency: r.Currency,
		FailureReason: r.FailureReason, Metadata: r.Metadata, PaymentIntent: r.PaymentIntent, Reason: orNull(r.Reason), Status: r.Status,
	}
}

// tell notes an event of the refund.
func (r *refund) tell(kind string, previous map[string]any) {
	r.news.tell(kind, refundsPath, r.ID, r.view(), previous)
}

// createRefund is POST /v1/refunds.
func createRefund(b *book, p *params, env environment) (*change, *apiError) {
	intentID, chargeID := p.text("payment_intent", 255), p.text("charge", 255)
	amount, given := p.integer("amount")
	r := &refund{
		ID: newID("re_"), Owner: env.who, CreatedAt: env.now, IdempotencyKey: env.key, Status: refundSucceeded,
		Metadata: p.metadata(), Reason: p.oneOf("reason", "duplicate", "fraudulent", "requested_by_customer"),
	}
	if intentID+chargeID == "" {
		p.fail("parameter_missing", "payment_intent", "One of payment_intent and charge is needed.")
	}
	if given && amount < 1 {
		p.fail("parameter_invalid_integer", "amount", "Invalid positive integer for amount.")
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	pi, err := b.refundable(intentID, chargeID)
	if err != nil {
		return nil, err
	}
	if !given {
		amount = pi.unrefunded()
	}
	if amount > pi.unrefunded() {
		// Stripe gives this refusal no code.
		return nil, invalid(400, "", "amount", fmt.Sprintf("Refund amount (%d) is greater than unrefunded amount on charge (%d).", amount, pi.unrefunded()))
	}
	r.PaymentIntent, r.Charge, r.Amount, r.Currency = pi.ID, pi.LatestCharge, amount, pi.Currency
	if m, _ := methodByID(pi.PaymentMethod); m.refund != "" {
		r.DueAt, r.DueStatus = env.now.Add(bankDelay), m.refund
		if m.refund == refundSucceeded {
			r.Status = refundPending
		}
	}
	next := pi.clone()
	next.AmountRefunded += amount
	previous := map[string]any{"amount_refunded": pi.charge().AmountRefunded}
	if next.charge().Refunded {
		previous["refunded"] = false
	}
	next.news.tell("charge.refunded", chargesPath, next.LatestCharge, next.charge(), previous)
	r.tell("refund.created", nil)
	return &change{intent: next, refund: r}, nil
}

// refundable finds the payment, and refuses one that has nothing to give back.
func (b *book) refundable(intentID, chargeID string) (pi *intent, err *apiError) {
	if chargeID != "" {
		if pi, err = b.findCharge(chargeID, 404, "charge"); err != nil {
			return nil, err
		}
	}
	if intentID != "" {
		byIntent, ok := b.intents[intentID]
		switch {
		case !ok:
			return nil, missing(404, "payment_intent", intentID, "payment_intent")
		case pi != nil && pi != byIntent:
			return nil, invalid(400, "", "charge", "The charge does not belong to the PaymentIntent.")
		}
		pi = byIntent
	}
	switch {
	case pi.Status != succeeded:
		return nil, invalid(400, "", "payment_intent", fmt.Sprintf("The PaymentIntent %s does not have a successful charge to refund: it is %s.", pi.ID, pi.Status))
	case pi.Disputed:
		return nil, invalid(400, "charge_disputed", "", fmt.Sprintf("Charge %s has been charged back; it cannot be refunded.", pi.LatestCharge))
	case pi.unrefunded() == 0:
		return nil, invalid(400, "charge_already_refunded", "", fmt.Sprintf("Charge %s has already been refunded.", pi.LatestCharge))
	}
	return pi, nil
}

// finish lets a refund end in a state. One that fails gives the amount back to the payment.
func (b *book) finish(r *refund, status, failure string) *change {
	next := r.clone()
	next.DueAt, next.DueStatus = time.Time{}, ""
	previous := map[string]any{"status": r.Status}
	next.Status, next.FailureReason = status, failure
	c := &change{refund: next}
	if status == refundFailed {
		previous["failure_reason"] = nil
		c.intent = b.intents[r.PaymentIntent].clone()
		c.intent.AmountRefunded -= r.Amount
	}
	next.tell("charge.refund.updated", previous)
	next.tell("refund.updated", previous)
	if status == refundFailed {
		next.tell("refund.failed", nil)
	}
	return c
}

// listRefunds is GET /v1/refunds.
func (b *book) listRefunds(p *params, visibleUntil time.Time) (any, *apiError) {
	intentID, chargeID := p.text("payment_intent", 255), p.text("charge", 255)
	created := p.createdFilter()
	return page(p, refundsPath, "refund", b.refundOrder, func(id string) (*refundView, bool) {
		r := b.refunds[id]
		return r.view(), !r.CreatedAt.After(visibleUntil) && created(r.CreatedAt.Unix()) &&
			(intentID == "" || intentID == r.PaymentIntent) && (chargeID == "" || chargeID == r.Charge)
	})
}

// failures are the reasons for which Stripe lets a refund fail.
var failures = []string{
	"lost_or_stolen_card", "expired_or_canceled_card", "charge_for_pending_refund_disputed", "insufficient_funds", "declined",
	"merchant_request", "unknown",
}

// FailRefund lets a refund fail that was pending or had succeeded, as banks do days later; reason "" is "unknown". It fails with
// ErrNotFound, ErrWrongState or ErrBadControl.
func (s *Stripe) FailRefund(id, reason string) error {
	if reason == "" {
		reason = "unknown"
	}
	if !slices.Contains(failures, reason) {
		return fmt.Errorf("%w: reason must be one of %s", ErrBadControl, strings.Join(failures, ", "))
	}
	return s.control(func(b *book) (*change, error) {
		r, ok := b.refunds[id]
		switch {
		case !ok:
			return nil, nil
		case r.Status != refundPending && r.Status != refundSucceeded:
			return nil, fmt.Errorf("%w: the refund is %s", ErrWrongState, r.Status)
		}
		return b.finish(r, refundFailed, reason), nil
	})
}
