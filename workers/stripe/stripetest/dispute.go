package stripetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// evidenceTime is how long a dispute waits for evidence; without any it is lost: https://docs.stripe.com/disputes/how-disputes-work
const evidenceTime = 9 * 24 * time.Hour

// The states of a dispute: https://docs.stripe.com/api/disputes/object#dispute_object-status
const (
	needsResponse = "needs_response"
	underReview   = "under_review"
	won           = "won"
	lost          = "lost"
)

// reasons of a dispute: https://docs.stripe.com/api/disputes/object#dispute_object-reason
var reasons = []string{
	"bank_cannot_process", "check_returned", "credit_not_processed", "customer_initiated", "debit_not_authorized", "duplicate",
	"fraudulent", "general", "incorrect_account_details", "insufficient_funds", "product_not_received", "product_unacceptable",
	"subscription_canceled", "unrecognized",
}

const disputesPath = "/v1/disputes"

// dispute is a Dispute as the book and the journal hold it.
type dispute struct {
	news

	ID            string
	Owner         partition
	CreatedAt     time.Time
	PaymentIntent string
	Charge        string
	Amount        int64
	Currency      string
	Reason        string
	Status        string
	Submissions   int // of evidence
	EvidenceBy    time.Time
	DueAt         time.Time // when it is lost by itself; zero once it is closed
}

func (d *dispute) clone() *dispute {
	c := *d
	c.told = nil
	return &c
}

func (d *dispute) open() bool { return d.Status == needsResponse || d.Status == underReview }

type disputeView struct {
	ID                 string              `json:"id"`
	Object             string              `json:"object"`
	Amount             int64               `json:"amount"`
	Charge             string              `json:"charge"`
	Created            int64               `json:"created"`
	Currency           string              `json:"currency"`
	EvidenceDetails    evidenceDetailsView `json:"evidence_details"`
	IsChargeRefundable bool                `json:"is_charge_refundable"`
	Livemode           bool                `json:"livemode"`
	Metadata           map[string]string   `json:"metadata"`
	PaymentIntent      string              `json:"payment_intent"`
	Reason             string              `json:"reason"`
	Status             string              `json:"status"`
}

type evidenceDetailsView struct {
	DueBy           int64 `json:"due_by"`
	HasEvidence     bool  `json:"has_evidence"`
	PastDue         bool  `json:"past_due"`
	SubmissionCount int   `json:"submission_count"`
}

func (d *dispute) view() *disputeView {
	return &disputeView{
		ID: d.ID, Object: "dispute", Amount: d.Amount, Charge: d.Charge, Created: d.CreatedAt.Unix(), Currency: d.Currency,
		EvidenceDetails: evidenceDetailsView{DueBy: d.EvidenceBy.Unix(), HasEvidence: d.Submissions > 0, SubmissionCount: d.Submissions},
		Livemode:        d.Owner.Livemode, Metadata: map[string]string{}, PaymentIntent: d.PaymentIntent, Reason: d.Reason, Status: d.Status,
	}
}

// tell notes an event of the dispute.
func (d *dispute) tell(kind string, previous map[string]any) {
	d.news.tell(kind, disputesPath, d.ID, d.view(), previous)
}

// listDisputes is GET /v1/disputes: https://docs.stripe.com/api/disputes/list
func (b *book) listDisputes(p *params, visibleUntil time.Time) (any, *apiError) {
	intentID, chargeID := p.text("payment_intent", 255), p.text("charge", 255)
	created := p.createdFilter()
	return page(p, disputesPath, "dispute", b.disputeOrder, func(id string) (*disputeView, bool) {
		d := b.disputes[id]
		return d.view(), !d.CreatedAt.After(visibleUntil) && created(d.CreatedAt.Unix()) &&
			(intentID == "" || intentID == d.PaymentIntent) && (chargeID == "" || chargeID == d.Charge)
	})
}

// A Challenge opens a dispute about a payment, or, with an Outcome, closes the open one; with an Outcome and none open it does both.
type Challenge struct {
	Reason  string `json:"reason,omitempty"`  // Stripe's word; default fraudulent
	Amount  int64  `json:"amount,omitempty"`  // default: all that is not refunded
	Outcome string `json:"outcome,omitempty"` // won or lost
}

func (c Challenge) check() error {
	switch {
	case c.Reason != "" && !slices.Contains(reasons, c.Reason):
		return fmt.Errorf("%w: reason must be one of %s", ErrBadControl, strings.Join(reasons, ", "))
	case c.Outcome != "" && c.Outcome != won && c.Outcome != lost:
		return fmt.Errorf("%w: outcome must be won or lost", ErrBadControl)
	}
	return nil
}

// Dispute plays the buyer who disputes a succeeded payment, and the bank that decides. Evidence counts as submitted when it
// decides; without a decision the dispute is lost after nine days. It fails with ErrNotFound, ErrWrongState or ErrBadControl.
func (s *Stripe) Dispute(paymentIntent string, c Challenge) error {
	if err := c.check(); err != nil {
		return err
	}
	now := s.clock.Now()
	return s.control(func(b *book) (*change, error) {
		pi, ok := b.intents[paymentIntent]
		if !ok {
			return nil, nil
		}
		d := b.disputes[b.disputed[pi.ID]]
		switch {
		case d == nil:
			return pi.dispute(c, now)
		case !d.open() || c.Outcome == "":
			return nil, fmt.Errorf("%w: its dispute is %s", ErrWrongState, d.Status)
		case c.Reason != "" || c.Amount != 0:
			return nil, fmt.Errorf("%w: reason and amount of an open dispute are settled", ErrBadControl)
		}
		return decide(pi.clone(), d.clone(), c.Outcome), nil
	})
}

// dispute opens a dispute about the payment, and decides it where the challenge says how.
func (pi *intent) dispute(c Challenge, now time.Time) (*change, error) {
	amount := cmp.Or(c.Amount, pi.unrefunded())
	switch {
	case pi.Status != succeeded:
		return nil, fmt.Errorf("%w: the PaymentIntent is %s", ErrWrongState, pi.Status)
	case amount < 1 || amount > pi.AmountReceived:
		return nil, fmt.Errorf("%w: amount must be from 1 to %d", ErrBadControl, pi.AmountReceived)
	}
	by := now.Add(evidenceTime)
	d := &dispute{
		ID: newID("dp_"), Owner: pi.Owner, CreatedAt: now, PaymentIntent: pi.ID, Charge: pi.LatestCharge, Amount: amount,
		Currency: pi.Currency, Reason: cmp.Or(c.Reason, "fraudulent"), Status: needsResponse, EvidenceBy: by, DueAt: by,
	}
	next := pi.clone()
	next.Disputed, next.AmountDisputed = true, amount
	d.tell("charge.dispute.created", nil)
	if c.Outcome != "" {
		return decide(next, d, c.Outcome), nil
	}
	return &change{intent: next, dispute: d}, nil
}

// decide takes the evidence and closes the dispute; pi and d are copies that may be changed.
func decide(pi *intent, d *dispute, outcome string) *change {
	d.Status, d.Submissions = underReview, 1
	d.tell("charge.dispute.updated", map[string]any{"status": needsResponse, "evidence_details": map[string]any{"has_evidence": false, "submission_count": 0}})
	return closeDispute(pi, d, outcome)
}

// closeDispute ends the dispute; one that is won gives the money back to the seller.
func closeDispute(pi *intent, d *dispute, outcome string) *change {
	d.Status, d.DueAt = outcome, time.Time{}
	if outcome == won {
		pi.AmountDisputed = 0
	}
	d.tell("charge.dispute.closed", nil)
	return &change{intent: pi, dispute: d}
}
