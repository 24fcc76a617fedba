package charges

import (
	"strings"
	"time"
)

// Values of [Request.CaptureMethod].
const (
	CaptureAutomatic = "automatic" // the money moves when the payment is confirmed; the default
	CaptureManual    = "manual"    // the payment is authorised, and captured by a later call
)

// Values of [Request.SetupFutureUsage]; empty means that the payment method is not kept.
const (
	FutureUsageOnSession  = "on_session"
	FutureUsageOffSession = "off_session"
)

// MaxRequestBytes bounds the body of a create request. The largest valid request, with every character of
// its metadata written as a pair of \u escapes, stays below it.
const MaxRequestBytes = 512 << 10

// Request asks for one charge. It is what a caller posted, decoded and normalised: the currency is lower case,
// defaults are filled in, and an optional string that was left out is empty. [DecodeRequest] makes one from a body,
// [ParseCanonical] from the form that is kept with the charge.
//
// The field tags carry the OpenAPI schema. They describe the rules that one member can state alone; [Request.Validate] has all of them.
type Request struct {
	Amount                    int64             `json:"amount" minimum:"1" maximum:"999999999999" example:"1099" doc:"Amount in the currency's minor unit at Stripe's scale: 1099 is 10.99 USD, 500 is 500 JPY. At most 99999999, for IDR 999999999999. BHD, JOD, KWD, OMR and TND have three decimals and end in 0; ISK and UGX have two decimals and are multiples of 100."`
	Currency                  string            `json:"currency" pattern:"^[A-Za-z]{3}$" example:"usd" doc:"Three-letter ISO code of a currency that Stripe can charge, in any letter case."`
	PaymentMethod             string            `json:"payment_method" pattern:"^(pm|card|src|ba)_[A-Za-z0-9_]{1,250}$" example:"pm_card_visa" doc:"Stripe's id of the payment method to charge."`
	Customer                  string            `json:"customer,omitempty" pattern:"^cus_[A-Za-z0-9_]{1,250}$" example:"cus_NffrFeUfNV2Hib" doc:"Stripe's id of the customer whom the payment method belongs to."`
	OffSession                bool              `json:"off_session,omitempty" doc:"The buyer is not present and cannot authenticate. Default false. Not together with setup_future_usage."`
	SetupFutureUsage          string            `json:"setup_future_usage,omitempty" enum:"on_session,off_session" doc:"Keep the payment method for later payments with the buyer present (on_session) or absent (off_session)."`
	ReturnURL                 string            `json:"return_url,omitempty" format:"uri" maxLength:"2048" example:"https://shop.example/paid" doc:"Where the buyer's browser or app goes after authenticating elsewhere. Without it, payment methods that redirect are not offered."`
	ReceiptEmail              string            `json:"receipt_email,omitempty" format:"email" maxLength:"254" example:"buyer@example.com" doc:"One bare address that gets the receipt after the payment succeeded. Without it no receipt is sent."`
	Description               string            `json:"description,omitempty" minLength:"1" maxLength:"1000" example:"Order 1234" doc:"Free text, shown at Stripe and on the receipt."`
	StatementDescriptorSuffix string            `json:"statement_descriptor_suffix,omitempty" minLength:"1" maxLength:"22" example:"ORDER 1234" doc:"Follows the account's prefix on the buyer's card statement: printable ASCII with at least one letter and none of < > \\ ' \" *. Prefix, separator and suffix together have at most 22 characters."`
	Metadata                  map[string]string `json:"metadata,omitempty" maxProperties:"48" doc:"Up to 48 keys of up to 40 characters without square brackets, with values of 1 to 500 characters. Keys that begin with oncepay_ are reserved."`
	CaptureMethod             string            `json:"capture_method,omitempty" enum:"automatic,manual" default:"automatic" doc:"manual only authorises the payment; capture it with a later call."`
	Reference                 string            `json:"reference,omitempty" minLength:"1" maxLength:"200" example:"order-1234" doc:"The caller's own name for what is paid. At most one open or succeeded charge may carry it."`
	Items                     []Item            `json:"items,omitempty" minItems:"1" maxItems:"50" nullable:"false" doc:"What is sold, each SKU once. It is held with the charge, so that nobody else can buy it, taken when the charge succeeds, and given back when it fails or is canceled. Left out: nothing is."`
	SendBefore                *time.Time        `json:"send_before,omitempty" format:"date-time" example:"2030-01-31T12:00:00Z" doc:"A charge that was not sent to Stripe by then is canceled. In the future, at most 30 days ahead; kept to the microsecond."`
}

// normalised gives every spelling of one request the same value. It is idempotent.
func (r Request) normalised() Request {
	r.Currency = lowerASCII(r.Currency)
	if r.CaptureMethod == "" {
		r.CaptureMethod = CaptureAutomatic
	}
	if len(r.Metadata) == 0 {
		r.Metadata = nil
	}
	if r.SendBefore != nil {
		t := r.SendBefore.UTC().Truncate(time.Microsecond) // what PostgreSQL keeps
		r.SendBefore = &t
	}
	return r
}

// FieldError says what is wrong with one member of a request.
type FieldError struct {
	Field  string // the member's name, metadata.<key> inside metadata, items[<place>].<name> inside items, or "body" for the whole
	Reason string // follows the name in a sentence ("must be ..."); never holds the value
}

// InvalidError refuses a request and names each member at fault. It never holds a value that the caller sent;
// names that the caller made up are cut and cleaned of control characters.
type InvalidError struct {
	Fields []FieldError // at least one

	// Restored is when the database was found to be restored, where only its send_before has passed and what was lost is not known yet: then a
	// charge that was made under the key in time may be among it. Zero: there is no such doubt.
	Restored time.Time
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Field + " " + f.Reason
	}
	return "invalid request: " + strings.Join(parts, "; ")
}

// invalidOrNil wraps faults, or is nil when there are none.
func invalidOrNil(faults []FieldError) error {
	if len(faults) == 0 {
		return nil
	}
	return &InvalidError{Fields: faults}
}
