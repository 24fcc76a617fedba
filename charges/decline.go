package charges

import (
	"regexp"
	"strings"
	"unicode"
)

// Decline is Stripe's error object, as the answer to a call and as a payment's last_payment_error:
// https://docs.stripe.com/api/errors
type Decline struct {
	Type        string `json:"type"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	AdviceCode  string `json:"advice_code"`
	Message     string `json:"message"`
	Param       string `json:"param"`
}

const (
	cardError      = "card_error"
	invalidRequest = "invalid_request_error"
)

// concealed are the declines of which the buyer must not learn the reason: a thief would. Stripe asks to show them as
// generic ones, https://docs.stripe.com/declines/codes.
var concealed = map[string]bool{
	"fraudulent": true, "lost_card": true, "merchant_blacklist": true, "pickup_card": true, "restricted_card": true, "stolen_card": true,
}

const concealedMessage = "The payment was declined."

// Failure words a decline for the charge's caller, the same whether it was an answer or an event. It is never nil.
func (d Decline) Failure() *Failure {
	f := &Failure{Code: cleanText(d.Code), DeclineCode: optional(cleanText(d.DeclineCode)), Advice: d.advice()}
	if f.Code == "" {
		f.Code = cleanText(d.Type)
	}
	if f.Code == "" {
		f.Code = "unknown"
	}
	// Only card errors have messages for buyers; all others speak to the programmer.
	switch {
	case concealed[d.DeclineCode] || concealed[d.Code]:
		f.Message = optional(concealedMessage)
	case d.Type == cardError:
		f.Message = optional(cleanText(d.Message))
	}
	return f
}

// advisedByIssuer maps Stripe's advice_code: https://docs.stripe.com/declines#retrying-issuer-declines
var advisedByIssuer = map[string]Advice{
	"try_again_later":   RetryLater,
	"do_not_try_again":  DoNotRetry,
	"confirm_card_data": NewPaymentMethod,
}

// advised has the decline codes for which another payment method is not the advice, after Stripe's "next steps" and the card
// networks' rules on what must not be tried again: https://docs.stripe.com/declines/codes
var advised = map[string]Advice{
	"approve_with_id":      RetryLater,
	"issuer_not_available": RetryLater,
	"processing_error":     RetryLater,
	"reenter_transaction":  RetryLater,
	"try_again_later":      RetryLater,

	"do_not_try_again":                 DoNotRetry,
	"duplicate_transaction":            DoNotRetry,
	"fraudulent":                       DoNotRetry,
	"lost_card":                        DoNotRetry,
	"merchant_blacklist":               DoNotRetry,
	"pickup_card":                      DoNotRetry,
	"restricted_card":                  DoNotRetry,
	"revocation_of_all_authorizations": DoNotRetry,
	"revocation_of_authorization":      DoNotRetry,
	"stolen_card":                      DoNotRetry,
	"stop_payment_order":               DoNotRetry,

	"payment_intent_authentication_failure": NewPaymentMethod,
}

// advice prefers what the issuer advises. Any decline that nobody has heard of asks for another payment method; a request that Stripe
// refuses for another reason than the payment method would be refused again.
func (d Decline) advice() Advice {
	if a, ok := advisedByIssuer[d.AdviceCode]; ok {
		return a
	}
	code := d.DeclineCode
	if code == "" {
		code = d.Code
	}
	if a, ok := advised[code]; ok {
		return a
	}
	ofMethod := strings.HasPrefix(d.Param, "payment_method") || strings.HasPrefix(d.Code, "payment_method_")
	if d.Type == invalidRequest && !ofMethod {
		return DoNotRetry
	}
	return NewPaymentMethod
}

const maxProviderText = 500 // how much of a provider's text is kept, in characters

// secretText is what must not be kept in a text although a provider repeats it.
var secretText = regexp.MustCompile(`\w*_secret_\w*|\b[sr]k_(test|live)_\w+|\bwhsec_\w+|\bSG\.[\w.-]+`)

// cleanText makes a provider's text fit to be stored and shown: valid UTF-8 on one line, without secrets, cut.
func cleanText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", ""))
	s = strings.TrimSpace(secretText.ReplaceAllString(s, "[removed]"))
	if runes := []rune(s); len(runes) > maxProviderText {
		s = string(runes[:maxProviderText])
	}
	return s
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
