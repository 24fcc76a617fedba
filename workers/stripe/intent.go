package stripe

import (
	"errors"
	"fmt"
	"regexp"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/transport"
)

// intent is the part of a PaymentIntent that is read. The client secret is not: what is never decoded cannot leak.
type intent struct {
	stripego.APIResource
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Amount           *int64            `json:"amount"`
	Currency         string            `json:"currency"`
	Livemode         *bool             `json:"livemode"`
	Status           string            `json:"status"`
	Metadata         map[string]string `json:"metadata"`
	LastPaymentError *failure          `json:"last_payment_error"`
}

var (
	intentID = regexp.MustCompile(`^pi_[A-Za-z0-9_]{1,250}$`)
	word     = regexp.MustCompile(`^[a-z0-9_]{1,60}$`)
)

// payment checks that what was decoded is a PaymentIntent of our mode: any other JSON, such as {}, would decode as well.
func (g *Gateway) payment(i *intent) (charges.Payment, error) {
	switch {
	case i.Object != "payment_intent" || !intentID.MatchString(i.ID):
		return charges.Payment{}, errors.New("the answer is not a PaymentIntent")
	case i.Amount == nil || i.Livemode == nil || !word.MatchString(i.Currency) || !word.MatchString(i.Status):
		return charges.Payment{}, fmt.Errorf("PaymentIntent %s lacks its amount, currency, mode or status", i.ID)
	case *i.Livemode != g.livemode:
		return charges.Payment{}, fmt.Errorf("PaymentIntent %s is not of our key's mode", i.ID)
	}
	p := charges.Payment{
		ID: i.ID, Status: i.Status, Amount: *i.Amount, Currency: i.Currency, Livemode: *i.Livemode, Key: i.Metadata[keyMetadata],
	}
	if i.LastPaymentError != nil {
		p.Failure = i.LastPaymentError.toCaller()
	}
	return p, nil
}

// disagrees says why a payment cannot be what was asked for; empty if it can.
func (a asked) disagrees(p charges.Payment) string {
	what := ""
	switch {
	case p.Amount != a.amount:
		what = "amount"
	case p.Currency != a.currency:
		what = "currency"
	case p.Key != a.key:
		what = keyMetadata
	default:
		return ""
	}
	return fmt.Sprintf("PaymentIntent %s has another %s than was asked for", p.ID, what)
}

// unknown is the error of a call that may have been carried out.
func unknown(why string) error {
	return fmt.Errorf("stripe: %w: %s", transport.ErrUnknown, transport.Clean(why))
}

// notSent is the error of a call that was not made.
func notSent(why error) error {
	return fmt.Errorf("stripe: %w: %s", transport.ErrNotSent, transport.Reason(why))
}
