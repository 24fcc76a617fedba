package stripe

import (
	"strings"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/transport"
)

// Failure words an error for the charge's caller. It is never nil.
func Failure(e *Error) *charges.Failure {
	f := failure{Type: e.Type, Code: e.Code, DeclineCode: e.DeclineCode, AdviceCode: e.AdviceCode, Message: e.Message, Param: e.Param}
	return f.toCaller()
}

// concealed are the declines of which the buyer must not learn the reason: a thief would. Stripe asks to show them as
// generic ones, https://docs.stripe.com/declines/codes.
var concealed = map[string]bool{
	"fraudulent": true, "lost_card": true, "merchant_blacklist": true, "pickup_card": true, "restricted_card": true, "stolen_card": true,
}

const concealedMessage = "The payment was declined."

func (f *failure) toCaller() *charges.Failure {
	out := &charges.Failure{Code: transport.Clean(f.Code), DeclineCode: optional(transport.Clean(f.DeclineCode)), Advice: f.advice()}
	if out.Code == "" {
		out.Code = transport.Clean(f.Type)
	}
	// Only card errors have messages for buyers; all others speak to the programmer.
	switch {
	case concealed[f.DeclineCode] || concealed[f.Code]:
		out.Message = optional(concealedMessage)
	case f.Type == cardError:
		out.Message = optional(transport.Clean(f.Message))
	}
	return out
}

const (
	cardError      = "card_error"
	invalidRequest = "invalid_request_error"
)

// advisedByIssuer maps Stripe's advice_code: https://docs.stripe.com/declines#retrying-issuer-declines
var advisedByIssuer = map[string]charges.Advice{
	"try_again_later":   charges.RetryLater,
	"do_not_try_again":  charges.DoNotRetry,
	"confirm_card_data": charges.NewPaymentMethod,
}

// advised has the decline codes for which another payment method is not the advice, after Stripe's "next steps" and the card
// networks' rules on what must not be tried again: https://docs.stripe.com/declines/codes
var advised = map[string]charges.Advice{
	"approve_with_id":      charges.RetryLater,
	"issuer_not_available": charges.RetryLater,
	"processing_error":     charges.RetryLater,
	"reenter_transaction":  charges.RetryLater,
	"try_again_later":      charges.RetryLater,

	"do_not_try_again":                 charges.DoNotRetry,
	"duplicate_transaction":            charges.DoNotRetry,
	"fraudulent":                       charges.DoNotRetry,
	"lost_card":                        charges.DoNotRetry,
	"merchant_blacklist":               charges.DoNotRetry,
	"pickup_card":                      charges.DoNotRetry,
	"restricted_card":                  charges.DoNotRetry,
	"revocation_of_all_authorizations": charges.DoNotRetry,
	"revocation_of_authorization":      charges.DoNotRetry,
	"stolen_card":                      charges.DoNotRetry,
	"stop_payment_order":               charges.DoNotRetry,

	"payment_intent_authentication_failure": charges.NewPaymentMethod,
}

// advice prefers what the issuer advises. Any decline that nobody has heard of asks for another payment method; a request that Stripe
// refuses for another reason than the payment method would be refused again.
func (f *failure) advice() charges.Advice {
	if a, ok := advisedByIssuer[f.AdviceCode]; ok {
		return a
	}
	code := f.DeclineCode
	if code == "" {
		code = f.Code
	}
	if a, ok := advised[code]; ok {
		return a
	}
	ofMethod := strings.HasPrefix(f.Param, "payment_method") || strings.HasPrefix(f.Code, "payment_method_")
	if f.Type == invalidRequest && !ofMethod {
		return charges.DoNotRetry
	}
	return charges.NewPaymentMethod
}
