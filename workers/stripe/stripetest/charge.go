package stripetest

import "time"

const chargesPath = "/v1/charges"

// newCharge begins the payment's latest charge.
func (pi *intent) newCharge(prefix string, now time.Time) {
	pi.LatestCharge, pi.ChargedAt = newID(prefix), now
}

// unrefunded is what of the payment can still be given back.
func (pi *intent) unrefunded() int64 { return pi.AmountReceived - pi.AmountRefunded }

// chargeView is the API's form of a payment's latest charge: https://docs.stripe.com/api/charges/object
type chargeView struct {
	ID                        string            `json:"id"`
	Object                    string            `json:"object"`
	Amount                    int64             `json:"amount"`
	AmountCaptured            int64             `json:"amount_captured"`
	AmountRefunded            int64             `json:"amount_refunded"`
	Captured                  bool              `json:"captured"`
	Created                   int64             `json:"created"`
	Currency                  string            `json:"currency"`
	Customer                  *string           `json:"customer"`
	Description               *string           `json:"description"`
	Disputed                  bool              `json:"disputed"`
	FailureCode               *string           `json:"failure_code"`
	FailureMessage            *string           `json:"failure_message"`
	Livemode                  bool              `json:"livemode"`
	Metadata                  map[string]string `json:"metadata"`
	Paid                      bool              `json:"paid"`
	PaymentIntent             string            `json:"payment_intent"`
	PaymentMethod             *string           `json:"payment_method"`
	ReceiptEmail              *string           `json:"receipt_email"`
	Refunded                  bool              `json:"refunded"`
	StatementDescriptor       *string           `json:"statement_descriptor"`
	StatementDescriptorSuffix *string           `json:"statement_descriptor_suffix"`
	Status                    string            `json:"status"` // pending, succeeded, failed
}

// charge shows the latest charge. What a capture left over counts as refunded, as at Stripe.
func (pi *intent) charge() *chargeView {
	v := &chargeView{
		ID: pi.LatestCharge, Object: "charge", Amount: pi.Amount, AmountCaptured: pi.AmountReceived, AmountRefunded: pi.AmountRefunded,
		Captured: pi.Status == succeeded, Created: pi.ChargedAt.Unix(), Currency: pi.Currency, Customer: orNull(pi.Customer),
		Description: orNull(pi.Description), Disputed: pi.Disputed, Livemode: pi.Owner.Livemode, Metadata: pi.Metadata,
		PaymentIntent: pi.ID, PaymentMethod: orNull(pi.PaymentMethod), ReceiptEmail: orNull(pi.ReceiptEmail),
		StatementDescriptor: orNull(pi.StatementDescriptor), StatementDescriptorSuffix: orNull(pi.StatementDescriptorSuffix),
	}
	switch {
	case pi.Status == succeeded:
		v.AmountRefunded += pi.Amount - pi.AmountReceived
		v.Refunded = v.AmountRefunded == pi.Amount
		v.Status, v.Paid = "succeeded", true
	case pi.Status == requiresCapture:
		v.Status, v.Paid = "succeeded", true
	case pi.Status == processing:
		v.Status = "pending"
	case pi.Status == canceled && pi.Authorized == pi.LatestCharge: // an authorisation that was let go
		v.Status, v.Paid, v.AmountRefunded, v.Refunded = "succeeded", true, pi.Amount, true
	default:
		v.Status = "failed"
		if pi.LastError != nil {
			v.FailureCode, v.FailureMessage = orNull(pi.LastError.Code), orNull(pi.LastError.Message)
		}
	}
	return v
}

// findCharge finds the payment whose latest charge it is.
func (b *book) findCharge(id string, status int, param string) (*intent, *apiError) {
	pi, ok := b.intents[b.charges[id]]
	if !ok || pi.LatestCharge != id {
		return nil, missing(status, "charge", id, param)
	}
	return pi, nil
}
