package stripe_test

import (
	"testing"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
)

func TestAdvice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, code, decline, advice, param string
		want                               charges.Advice
	}{
		{"card_error", "card_declined", "generic_decline", "", "", charges.NewPaymentMethod},
		{"card_error", "card_declined", "insufficient_funds", "", "", charges.NewPaymentMethod},
		{"card_error", "card_declined", "insufficient_funds", "try_again_later", "", charges.RetryLater},
		{"card_error", "card_declined", "stolen_card", "", "", charges.DoNotRetry},
		{"card_error", "card_declined", "lost_card", "", "", charges.DoNotRetry},
		{"card_error", "card_declined", "pickup_card", "", "", charges.DoNotRetry},
		{"card_error", "card_declined", "fraudulent", "", "", charges.DoNotRetry},
		{"card_error", "card_declined", "do_not_try_again", "", "", charges.DoNotRetry},
		{"card_error", "card_declined", "duplicate_transaction", "", "", charges.DoNotRetry},
		{"card_error", "card_declined", "try_again_later", "", "", charges.RetryLater},
		{"card_error", "card_declined", "issuer_not_available", "", "", charges.RetryLater},
		{"card_error", "card_declined", "approve_with_id", "", "", charges.RetryLater},
		{"card_error", "card_declined", "reenter_transaction", "", "", charges.RetryLater},
		{"card_error", "processing_error", "", "", "", charges.RetryLater},
		{"card_error", "expired_card", "", "confirm_card_data", "", charges.NewPaymentMethod},
		{"card_error", "card_declined", "try_again_later", "do_not_try_again", "", charges.DoNotRetry},
		{"card_error", "card_declined", "stolen_card", "advice_of_next_year", "", charges.DoNotRetry},
		{"card_error", "card_declined", "code_of_next_year", "", "", charges.NewPaymentMethod},
		{"card_error", "", "", "", "", charges.NewPaymentMethod},
		{"invalid_request_error", "amount_too_small", "", "", "amount", charges.DoNotRetry},
		{"invalid_request_error", "", "", "", "", charges.DoNotRetry},
		{"invalid_request_error", "resource_missing", "", "", "payment_method", charges.NewPaymentMethod},
		{"invalid_request_error", "payment_method_customer_decline", "", "", "", charges.NewPaymentMethod},
		{"invalid_request_error", "payment_intent_authentication_failure", "", "", "", charges.NewPaymentMethod},
	} {
		f := stripe.Failure(&stripe.Error{Type: tt.kind, Code: tt.code, DeclineCode: tt.decline, AdviceCode: tt.advice, Param: tt.param})
		if f.Advice != tt.want {
			t.Errorf("%+v: got %s", tt, f.Advice)
		}
	}
}

func TestWhatTheBuyerMaySee(t *testing.T) {
	t.Parallel()
	const said = "Your card was reported stolen."
	for _, tt := range []struct {
		kind, code, decline string
		code2, message      string
	}{
		{"card_error", "card_declined", "insufficient_funds", "card_declined", said},
		{"card_error", "card_declined", "stolen_card", "card_declined", "The payment was declined."},
		{"card_error", "card_declined", "lost_card", "card_declined", "The payment was declined."},
		{"card_error", "card_declined", "fraudulent", "card_declined", "The payment was declined."},
		{"card_error", "card_declined", "merchant_blacklist", "card_declined", "The payment was declined."},
		{"card_error", "card_declined", "pickup_card", "card_declined", "The payment was declined."},
		{"card_error", "stolen_card", "", "stolen_card", "The payment was declined."},
		{"invalid_request_error", "amount_too_small", "", "amount_too_small", ""},
		{"invalid_request_error", "", "", "invalid_request_error", ""},
	} {
		f := stripe.Failure(&stripe.Error{Type: tt.kind, Code: tt.code, DeclineCode: tt.decline, Message: said})
		message := ""
		if f.Message != nil {
			message = *f.Message
		}
		if f.Code != tt.code2 || message != tt.message || (f.DeclineCode != nil) != (tt.decline != "") {
			t.Errorf("%+v: got %+v with message %q", tt, f, message)
		}
	}
}
