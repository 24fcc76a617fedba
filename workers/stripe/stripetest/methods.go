package stripetest

import "strings"

// outcome is what a payment method does when it is charged.
type outcome int

const (
	pays          outcome = iota
	declines              // 402 card_error
	authenticates         // requires_action on session, an authentication_required decline off session
	debits                // processing, until it settles
)

type method struct {
	kind    string // card, us_bank_account, sepa_debit
	outcome outcome

	brand, last4 string // of a card

	code, declineCode, adviceCode string // of a decline

	currency string // the only one it pays in; "" for any
	settles  string // the state a debit reaches; "" for never

	refund string // the state that a refund reaches after bankDelay; "" for one that succeeds at once
}

func card(brand, last4 string) method { return method{kind: "card", brand: brand, last4: last4} }

func declined(last4, code, declineCode string) method {
	m := card("visa", last4)
	m.outcome, m.code, m.declineCode, m.adviceCode = declines, code, declineCode, advice[declineCode]
	return m
}

func authenticated(last4 string) method {
	m := card("visa", last4)
	m.outcome = authenticates
	return m
}

func bank(kind, currency, settles string) method {
	return method{kind: kind, outcome: debits, currency: currency, settles: settles, code: "insufficient_funds", declineCode: "insufficient_funds", refund: refundSucceeded}
}

func refunded(last4, state string) method {
	m := card("visa", last4)
	m.refund = state
	return m
}

// advice is what the issuer says to do about a decline: https://docs.stripe.com/declines/codes
var advice = map[string]string{
	"do_not_try_again": "do_not_try_again", "stolen_card": "do_not_try_again", "lost_card": "do_not_try_again",
	"pickup_card": "do_not_try_again", "expired_card": "confirm_card_data", "incorrect_cvc": "confirm_card_data",
	"insufficient_funds": "try_again_later", "processing_error": "try_again_later",
}

// methods are Stripe's own test payment methods: https://docs.stripe.com/testing
var methods = map[string]method{
	"pm_card_visa":               card("visa", "4242"),
	"pm_card_visa_debit":         card("visa", "5556"),
	"pm_card_us":                 card("visa", "4242"),
	"pm_card_mastercard":         card("mastercard", "4444"),
	"pm_card_mastercard_debit":   card("mastercard", "3222"),
	"pm_card_mastercard_prepaid": card("mastercard", "5100"),
	"pm_card_amex":               card("amex", "8431"),
	"pm_card_discover":           card("discover", "1117"),
	"pm_card_diners":             card("diners", "3222"),
	"pm_card_jcb":                card("jcb", "0505"),
	"pm_card_unionpay":           card("unionpay", "0005"),

	"pm_card_chargeDeclined":                  declined("0002", "card_declined", "generic_decline"),
	"pm_card_visa_chargeDeclined":             declined("0002", "card_declined", "generic_decline"),
	"pm_card_chargeDeclinedInsufficientFunds": declined("9995", "card_declined", "insufficient_funds"),
	"pm_card_chargeDeclinedLostCard":          declined("9987", "card_declined", "lost_card"),
	"pm_card_chargeDeclinedStolenCard":        declined("9979", "card_declined", "stolen_card"),
	"pm_card_chargeDeclinedExpiredCard":       declined("0069", "expired_card", "expired_card"),
	"pm_card_chargeDeclinedIncorrectCvc":      declined("0127", "incorrect_cvc", "incorrect_cvc"),
	"pm_card_chargeDeclinedProcessingError":   declined("0119", "processing_error", "processing_error"),
	"pm_card_chargeCustomerFail":              declined("0341", "card_declined", "generic_decline"),

	"pm_card_authenticationRequired":     authenticated("3184"),
	"pm_card_threeDSecure2Required":      authenticated("3220"),
	"pm_card_threeDSecureRequired":       authenticated("3063"),
	"pm_card_threeDSecureOptional":       card("visa", "3055"),
	"pm_card_pendingRefund":              refunded("7726", refundSucceeded),
	"pm_card_refundFail":                 refunded("5126", refundFailed),
	"pm_usBankAccount_success":           bank("us_bank_account", "usd", succeeded),
	"pm_usBankAccount":                   bank("us_bank_account", "usd", succeeded),
	"pm_usBankAccount_processing":        bank("us_bank_account", "usd", ""),
	"pm_usBankAccount_insufficientFunds": bank("us_bank_account", "usd", requiresPaymentMethod),
	"pm_success_sepaDebit":               bank("sepa_debit", "eur", succeeded),
	"pm_failed_sepaDebit":                bank("sepa_debit", "eur", requiresPaymentMethod),
}

// declinedPrefix, followed by any decline code, is the sandbox's own: it plays the codes for which Stripe
// has no test card, and codes that nobody has heard of.
const declinedPrefix = "pm_sandbox_declined_"

func methodByID(id string) (method, bool) {
	if code, ok := strings.CutPrefix(id, declinedPrefix); ok && code != "" {
		return declined("0002", "card_declined", code), true
	}
	m, ok := methods[id]
	return m, ok
}

type paymentMethodView struct {
	ID     string    `json:"id"`
	Object string    `json:"object"`
	Card   *cardView `json:"card,omitempty"`
	Type   string    `json:"type"`
}

type cardView struct {
	Brand string `json:"brand"`
	Last4 string `json:"last4"`
}

func methodView(pi *intent) *paymentMethodView {
	m, _ := methodByID(pi.PaymentMethod)
	v := &paymentMethodView{ID: pi.PaymentMethod, Object: "payment_method", Type: m.kind}
	if m.kind == "card" {
		v.Card = &cardView{Brand: m.brand, Last4: m.last4}
	}
	return v
}
