package stripe

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/transport"
)

// intent is the part of a PaymentIntent that is read.
type intent struct {
	stripego.APIResource
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Amount           *int64            `json:"amount"`
	AmountReceived   int64             `json:"amount_received"`
	Currency         string            `json:"currency"`
	Created          int64             `json:"created"`
	Livemode         *bool             `json:"livemode"`
	Status           string            `json:"status"`
	Metadata         map[string]string `json:"metadata"`
	LastPaymentError *failure          `json:"last_payment_error"`
	ClientSecret     string            `json:"client_secret"`
	NextAction       *struct {
		RedirectToURL *struct {
			URL string `json:"url"`
		} `json:"redirect_to_url"`
	} `json:"next_action"`
}

var (
	intentID  = regexp.MustCompile(`^pi_[A-Za-z0-9_]{1,250}$`)
	printable = regexp.MustCompile(`^[ -~]*$`) // what cannot be stored is left out, rather than that the payment's whole news is lost with it
	word      = regexp.MustCompile(`^[a-z0-9_]{1,60}$`)
)

// payment checks that what was decoded is a PaymentIntent of our mode: any other JSON, such as {}, would decode as well.
func (g *Gateway) payment(i *intent, date time.Time) (charges.News, error) {
	switch {
	case i.Object != "payment_intent" || !intentID.MatchString(i.ID):
		return charges.News{}, errors.New("the answer is not a PaymentIntent")
	case i.Amount == nil || i.Livemode == nil || !word.MatchString(i.Currency) || !word.MatchString(i.Status):
		return charges.News{}, fmt.Errorf("PaymentIntent %s lacks its amount, currency, mode or status", i.ID)
	case *i.Livemode != g.livemode:
		return charges.News{}, fmt.Errorf("PaymentIntent %s is not of our key's mode", i.ID)
	}
	n := charges.News{AsOf: date, Payment: charges.Payment{
		ID: i.ID, Status: i.Status, Amount: *i.Amount, Currency: i.Currency, Livemode: *i.Livemode, Key: i.Metadata[keyMetadata],
		Received: max(0, i.AmountReceived),
	}}
	if i.LastPaymentError != nil {
		n.Failure = i.LastPaymentError.toCaller()
	}
	// Whoever has the client secret can pay, so it is taken along only where the buyer needs it.
	if i.Status == "requires_action" && printable.MatchString(i.ClientSecret) {
		n.ClientSecret = i.ClientSecret
		if a := i.NextAction; a != nil && a.RedirectToURL != nil && printable.MatchString(a.RedirectToURL.URL) {
			n.RedirectURL = a.RedirectToURL.URL
		}
	}
	return n, nil
}

// toldAt is the time of an answer's news. One that Stripe had stored under the key tells of when the payment was made.
func (i *intent) toldAt(date time.Time, reply Reply) time.Time {
	if reply.Replayed {
		return time.Unix(i.Created, 0).UTC()
	}
	return date
}

// disagrees says why a payment cannot be what was asked for; empty if it can.
func (a asked) disagrees(p charges.News) string {
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
