package charges

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a request. Those of Stripe are from its API reference and its OpenAPI description.
const (
	stripeMetadataKeys     = 50
	ourMetadataKeys        = 2 // oncepay_key and oncepay_charge
	maxMetadataKeys        = stripeMetadataKeys - ourMetadataKeys
	maxMetadataKeyLength   = 40
	maxMetadataValueLength = 500
	maxDescriptionLength   = 1000
	maxReferenceLength     = 200
	maxSendBeforeAhead     = 30 * 24 * time.Hour // further away is a mistyped year, not a deadline
)

// reservedMetadataPrefix begins the keys by which we find our own payments at Stripe; a caller's would be mistaken for one.
const reservedMetadataPrefix = "oncepay_"

var tooManyMetadataKeys = fmt.Sprintf("must have at most %d keys", maxMetadataKeys)

// What Stripe takes as payment_method and customer: a payment method or one of its predecessors, and a customer.
var (
	stripePaymentMethodID = regexp.MustCompile(`^(pm|card|src|ba)_[A-Za-z0-9_]{1,250}$`)
	stripeCustomerID      = regexp.MustCompile(`^cus_[A-Za-z0-9_]{1,250}$`)
)

// Validate refuses what Stripe or SendGrid would refuse later, when the caller has gone. The answer does not depend on the time; see
// [Request.ValidateTime]. The error is an [*InvalidError] with every fault. Amounts below Stripe's minimum pass: the minimum depends on
// the account, and Stripe's answer fails the charge.
func (r Request) Validate() error {
	return invalidOrNil(r.normalised().faults())
}

// ValidateTime refuses a send_before that is not in the future, or more than 30 days ahead. It is for new charges only: a retry must
// get its stored answer also when the time has passed. The error is an [*InvalidError].
func (r Request) ValidateTime(now time.Time) error {
	switch {
	case r.SendBefore == nil:
		return nil
	case !r.SendBefore.After(now):
		return &InvalidError{Fields: []FieldError{{"send_before", "must be in the future"}}}
	case r.SendBefore.After(now.Add(maxSendBeforeAhead)):
		return &InvalidError{Fields: []FieldError{{"send_before", "must be at most 30 days ahead"}}}
	default:
		return nil
	}
}

// faults applies every rule that does not depend on the time. Members are in the order of the documentation.
func (r Request) faults() []FieldError {
	var faults []FieldError
	check := func(field, reason string) {
		if reason != "" {
			faults = append(faults, FieldError{field, reason})
		}
	}
	check("amount", AmountFault(r.Amount, r.Currency))
	check("currency", currencyFault(r.Currency))
	check("payment_method", paymentMethodFault(r.PaymentMethod))
	check("customer", ifGiven(r.Customer, customerFault))
	check("setup_future_usage", ifGiven(r.SetupFutureUsage, futureUsageFault(r.OffSession)))
	check("return_url", ifGiven(r.ReturnURL, returnURLFault))
	check("receipt_email", ifGiven(r.ReceiptEmail, emailFault))
	check("description", maxLengthFault(r.Description, maxDescriptionLength))
	check("statement_descriptor_suffix", ifGiven(r.StatementDescriptorSuffix, descriptorSuffixFault))
	faults = append(faults, metadataFaults(r.Metadata)...)
	check("capture_method", captureMethodFault(r.CaptureMethod))
	check("reference", ifGiven(r.Reference, referenceFault))
	faults = append(faults, itemFaults(r.Items)...)
	return faults
}

func ifGiven(value string, fault func(string) string) string {
	if value == "" {
		return ""
	}
	return fault(value)
}

func currencyFault(code string) string {
	if code == "" {
		return "is required"
	}
	if _, ok := minorUnits[code]; !ok {
		return "must be the three-letter code of a currency that Stripe can charge"
	}
	return ""
}

func paymentMethodFault(id string) string {
	if id == "" {
		return "is required"
	}
	if !stripePaymentMethodID.MatchString(id) {
		return "must be Stripe's id of a payment method (pm_...), card, source or bank account"
	}
	return ""
}

func customerFault(id string) string {
	if !stripeCustomerID.MatchString(id) {
		return "must be Stripe's id of a customer (cus_...)"
	}
	return ""
}

// futureUsageFault knows that Stripe refuses to confirm off session and set up future usage in one payment.
func futureUsageFault(offSession bool) func(string) string {
	return func(usage string) string {
		switch {
		case usage != FutureUsageOnSession && usage != FutureUsageOffSession:
			return "must be on_session or off_session"
		case offSession:
			return "must be left out when off_session is true: an absent buyer cannot agree to it"
		default:
			return ""
		}
	}
}

func captureMethodFault(method string) string {
	if method != CaptureAutomatic && method != CaptureManual {
		return "must be automatic or manual"
	}
	return ""
}

// maxLengthFault counts characters, as Stripe does, not bytes.
func maxLengthFault(s string, limit int) string {
	if utf8.RuneCountInString(s) > limit {
		return fmt.Sprintf("must have at most %d characters", limit)
	}
	return ""
}

func metadataFaults(metadata map[string]string) []FieldError {
	if len(metadata) > maxMetadataKeys {
		return []FieldError{{"metadata", tooManyMetadataKeys}}
	}
	var faults []FieldError
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if reason := metadataFault(key, metadata[key]); reason != "" {
			faults = append(faults, FieldError{metadataField(key), reason})
		}
	}
	return faults
}

func metadataFault(key, value string) string {
	switch {
	case key == "":
		return "must have a key that is not empty"
	case utf8.RuneCountInString(key) > maxMetadataKeyLength:
		return fmt.Sprintf("must have a key of at most %d characters", maxMetadataKeyLength)
	case strings.ContainsAny(key, "[]"):
		return "must have a key without square brackets"
	case len(key) >= len(reservedMetadataPrefix) && strings.EqualFold(key[:len(reservedMetadataPrefix)], reservedMetadataPrefix):
		return "must not begin with " + reservedMetadataPrefix + ", which is reserved"
	case value == "": // Stripe takes it as "remove this key"
		return "must not be empty"
	default:
		return maxLengthFault(value, maxMetadataValueLength)
	}
}
