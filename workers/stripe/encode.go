package stripe

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/oncepay/oncepay/charges"
)

// The metadata by which our payments are found again at Stripe, and lead a person from there to the charge.
const (
	keyMetadata    = "oncepay_key"
	chargeMetadata = "oncepay_charge"
)

// Encode makes the form that creates and confirms the charge's payment, in one call. It is a pure function of the charge, so that
// every process makes the same bytes: parameters are in the SDK's order and metadata is sorted. Stripe's own receipt_email is not
// used, since it would mail a second receipt.
//
// Without a return_url, payment methods that redirect are switched off: since API version 2023-08-16 a confirm is refused
// otherwise, https://docs.stripe.com/upgrades#2023-08-16.
func (*Gateway) Encode(c charges.Charge) (string, error) {
	switch {
	case c.ID == uuid.Nil || c.IdempotencyKey == uuid.Nil:
		return "", errors.New("encode charge: it has no id or no idempotency key")
	case c.Amount <= 0 || c.Currency == "" || c.PaymentMethod == "":
		return "", fmt.Errorf("encode charge %s: it has no amount, currency or payment method", c.ID)
	}
	metadata := map[string]string{keyMetadata: c.IdempotencyKey.String(), chargeMetadata: c.ID.String()}
	for name := range metadata {
		if _, taken := c.Metadata[name]; taken {
			return "", fmt.Errorf("encode charge %s: its metadata has a %s of its own", c.ID, name)
		}
	}
	maps.Copy(metadata, c.Metadata)
	automatic := &stripego.PaymentIntentAutomaticPaymentMethodsParams{Enabled: stripego.Bool(true)}
	if c.ReturnURL == "" {
		automatic.AllowRedirects = stripego.String("never")
	}
	params := &stripego.PaymentIntentParams{
		Amount:                    stripego.Int64(c.Amount),
		AutomaticPaymentMethods:   automatic,
		CaptureMethod:             optional(c.CaptureMethod),
		Confirm:                   stripego.Bool(true),
		Currency:                  stripego.String(c.Currency),
		Customer:                  optional(c.Customer),
		Description:               optional(c.Description),
		Metadata:                  metadata,
		PaymentMethod:             stripego.String(c.PaymentMethod),
		ReturnURL:                 optional(c.ReturnURL),
		SetupFutureUsage:          optional(c.SetupFutureUsage),
		StatementDescriptorSuffix: optional(c.StatementDescriptorSuffix),
	}
	if c.OffSession {
		params.OffSession = stripego.Bool(true)
	}
	values := &form.Values{}
	form.AppendTo(values, params)
	return values.Encode(), nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// decodeForm takes an encoded request apart, in order. It refuses one that would not be sent as the same bytes.
func decodeForm(encoded string) (*form.Values, error) {
	values := &form.Values{}
	for pair := range strings.SplitSeq(encoded, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if err := errors.Join(nameErr, valueErr); err != nil {
			return nil, errors.New("the stored request is not an encoded form")
		}
		values.Add(name, value)
	}
	if values.Encode() != encoded {
		return nil, errors.New("the stored request would not be sent as it was stored")
	}
	return values, nil
}

// asked is what an answer to a request must agree with.
type asked struct {
	amount   int64
	currency string
	key      string
}

func askedFor(values *form.Values) (asked, error) {
	one := func(name string) string {
		if got := values.Get(name); len(got) == 1 {
			return got[0]
		}
		return ""
	}
	a := asked{currency: one("currency"), key: one("metadata[" + keyMetadata + "]")}
	var err error
	if a.amount, err = strconv.ParseInt(one("amount"), 10, 64); err != nil || a.currency == "" || a.key == "" {
		return asked{}, errors.New("the stored request lacks amount, currency or " + keyMetadata)
	}
	return a, nil
}
