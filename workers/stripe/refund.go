package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stripe/stripe-go/v76/form"

	"github.com/oncepay/oncepay/charges"
)

const (
	refundsPath  = "/v1/refunds"
	disputesPath = "/v1/disputes"
)

// mostPages bounds a list of what one payment has: ten thousand, far above what anybody makes of it.
const mostPages = 100

// refund is the part of a Refund that is read: https://docs.stripe.com/api/refunds/object
type refund struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Amount        int64  `json:"amount"`
	Currency      string `json:"currency"`
	PaymentIntent string `json:"payment_intent"`
	Status        string `json:"status"`
	Reason        string `json:"reason"`
	FailureReason string `json:"failure_reason"`
}

// dispute is the part of a Dispute that is read: https://docs.stripe.com/api/disputes/object
type dispute struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Amount        int64  `json:"amount"`
	Currency      string `json:"currency"`
	PaymentIntent string `json:"payment_intent"`
	Livemode      *bool  `json:"livemode"`
	Status        string `json:"status"`
	Reason        string `json:"reason"`
	Created       int64  `json:"created"`
	Evidence      struct {
		DueBy int64 `json:"due_by"`
	} `json:"evidence_details"`
}

// ListRefunds reads all refunds of a payment, newest first, whoever made them. An error says that the list was not read to
// its end; then nothing of it is returned.
func (g *Gateway) ListRefunds(ctx context.Context, payment string) ([]charges.RefundNews, error) {
	return listOf(ctx, g, refundsPath, payment, func(r *refund, date time.Time) (charges.RefundNews, error) {
		n := charges.RefundNews{ID: r.ID, Payment: r.PaymentIntent, Amount: r.Amount, Currency: r.Currency, Status: r.Status,
			Reason: g.clean(r.Reason), FailureReason: g.clean(r.FailureReason), AsOf: date}
		if r.Object != "refund" || n.Payment != payment || !n.Sound() {
			return n, errors.New("the list holds what is no refund of the payment")
		}
		return n, nil
	}, func(r *refund) string { return r.ID })
}

// ListDisputes reads all disputes of a payment, newest first. An error says that the list was not read to its end; then nothing
// of it is returned.
func (g *Gateway) ListDisputes(ctx context.Context, payment string) ([]charges.DisputeNews, error) {
	return listOf(ctx, g, disputesPath, payment, func(d *dispute, date time.Time) (charges.DisputeNews, error) {
		n := charges.DisputeNews{ID: d.ID, Payment: d.PaymentIntent, Amount: d.Amount, Currency: d.Currency, Status: d.Status,
			Reason: d.Reason, OpenedAt: time.Unix(d.Created, 0).UTC(), AsOf: date}
		if d.Evidence.DueBy > 0 {
			n.DueBy = time.Unix(d.Evidence.DueBy, 0).UTC()
		}
		switch {
		case d.Object != "dispute" || n.Payment != payment || d.Created <= 0 || !n.Sound():
			return n, errors.New("the list holds what is no dispute of the payment")
		case d.Livemode == nil || *d.Livemode != g.livemode:
			return n, fmt.Errorf("dispute %s is not of our key's mode", n.ID)
		}
		return n, nil
	}, func(d *dispute) string { return d.ID })
}

// listOf reads every page of a list of what a payment has. Each page is news of the second in which Stripe gave it.
func listOf[T, N any](ctx context.Context, g *Gateway, path, payment string, news func(*T, time.Time) (N, error), id func(*T) string) ([]N, error) {
	if !intentID.MatchString(payment) {
		return nil, notSent(errors.New("that is not the id of a PaymentIntent"))
	}
	var all []N
	after := ""
	for range mostPages {
		query := &form.Values{}
		query.Add("payment_intent", payment)
		p, date, err := readPage(ctx, g, path, query, after, id)
		if err != nil {
			return nil, err
		}
		for i := range *p.Data {
			object := &(*p.Data)[i]
			n, err := news(object, date)
			if err != nil {
				return nil, unknown(err.Error())
			}
			all, after = append(all, n), id(object)
		}
		if !*p.HasMore {
			return all, nil
		}
	}
	return nil, unknown("the list does not end")
}
