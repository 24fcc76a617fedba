package workers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

// TestDecide has a row for each answer of Stripe's.
func TestDecide(t *testing.T) {
	t.Parallel()
	payment := func(status string) Answer {
		return Answer{Payment: charges.News{Payment: charges.Payment{ID: "pi_1", Status: status}}, Reply: stripe.Reply{HTTPStatus: 200, RequestID: "req_1"}}
	}
	failed := func(e stripe.Error) Answer { return Answer{Err: fmt.Errorf("call: %w", &e)} }
	decline := stripe.Error{Type: "card_error", Code: "card_declined", DeclineCode: "stolen_card", HTTPStatus: 402, Payment: &charges.News{Payment: charges.Payment{ID: "pi_2", Status: "requires_payment_method"}}}
	bare := decline
	bare.Payment = nil
	invalid := stripe.Error{Type: "invalid_request_error", Code: "amount_too_small", HTTPStatus: 400}
	forbidden := failed(stripe.Error{Type: "invalid_request_error", HTTPStatus: 403})
	brokenKey := forbidden
	brokenKey.ProbeErr = errors.New("403 as well")

	for _, tc := range []struct {
		name    string
		answer  Answer
		verdict Verdict
		outcome charges.Outcome
		to      charges.Status
		code    string // of the attempt, or of the charge's failure or review; or the payment that there are news of
	}{
		{"a payment, whatever its status", payment("succeeded"), Done, charges.Answered, "", "pi_1"},
		{"one with a status that is not known", payment("frozen"), Done, charges.Answered, "", "pi_1"},
		{"declined", failed(decline), Done, charges.Answered, "", "pi_2"},
		{"declined without naming the payment", failed(bare), Done, charges.Answered, charges.Failed, "card_declined"},
		{"invalid", failed(invalid), Done, charges.Invalid, charges.Failed, "amount_too_small"},
		{"invalid without a code", failed(stripe.Error{Type: "invalid_request_error", HTTPStatus: 404}), Done, charges.Invalid, charges.Failed, "invalid_request"},
		{"idempotency error", failed(stripe.Error{Type: "idempotency_error", HTTPStatus: 400}), Done, charges.Refused, charges.NeedsReview, "idempotency_error"},
		{"key in use", failed(stripe.Error{Type: "invalid_request_error", Code: "idempotency_key_in_use", HTTPStatus: 409}), RetryLater, charges.Refused, "", "idempotency_key_in_use"},
		{"lock timeout", failed(stripe.Error{Type: "invalid_request_error", Code: "lock_timeout", HTTPStatus: 429}), RetryLater, charges.Refused, "", "lock_timeout"},
		{"rate limit", failed(stripe.Error{Type: "invalid_request_error", Code: "rate_limit", HTTPStatus: 429}), RetryLater, charges.Refused, "", "rate_limit"},
		{"unauthorized", failed(stripe.Error{Type: "invalid_request_error", HTTPStatus: 401}), Misconfigured, charges.Refused, "", ""},
		{"forbidden, as the account is", brokenKey, Misconfigured, charges.Refused, "", ""},
		{"forbidden, this charge alone", forbidden, Done, charges.Refused, charges.NeedsReview, "forbidden"},
		{"500", failed(stripe.Error{Type: "api_error", HTTPStatus: 500}), InDoubt, charges.Unknown, "", ""},
		{"500, stored and replayed", failed(stripe.Error{Type: "api_error", HTTPStatus: 500, Replayed: true}), GoOn, charges.StoredFailure, "", ""},
		{"an unheard-of 4xx", failed(stripe.Error{Type: "api_error", HTTPStatus: 424}), InDoubt, charges.Unknown, "", ""},
		{"no connection", Answer{Err: fmt.Errorf("dial: %w", transport.ErrNotSent)}, ProviderDown, charges.NotSent, "", ""},
		{"connection lost", Answer{Err: errors.New("EOF")}, InDoubt, charges.Unknown, "", ""},
		{"our own context ended", Answer{Err: context.Canceled}, InDoubt, charges.Unknown, "", ""},
		{"too late", Answer{Err: context.DeadlineExceeded}, InDoubt, charges.Unknown, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := Decide(tc.answer)
			if d.Verdict != tc.verdict || d.Outcome != tc.outcome || d.To != tc.to {
				t.Errorf("%s, %s, to %q; want %s, %s, to %q", d.Verdict, d.Outcome, d.To, tc.verdict, tc.outcome, tc.to)
			}
			code := d.Code
			switch {
			case d.News != nil:
				code = d.News.ID
				if (d.News.Status == "requires_payment_method") != (d.News.Failure != nil) {
					t.Errorf("news without their reason: %+v", d.News)
				}
			case d.Failure != nil:
				code = d.Failure.Code
			case d.Reason != "":
				code = d.Reason
			}
			if code != tc.code {
				t.Errorf("code %q, want %q", code, tc.code)
			}
			if (d.To == charges.Failed) != (d.Failure != nil) || (d.To == charges.NeedsReview) != (d.Reason != "") {
				t.Errorf("change without its reason: %+v", d.Change)
			}
		})
	}
}

// TestDecideCancel: whatever Stripe says of the payment is taken, and a charge never moves on an error alone.
func TestDecideCancel(t *testing.T) {
	t.Parallel()
	paid := &charges.News{Payment: charges.Payment{ID: "pi_1", Status: "succeeded"}}
	for _, tc := range []struct {
		name    string
		answer  Answer
		outcome charges.Outcome
		news    bool
	}{
		{"canceled", Answer{Payment: charges.News{Payment: charges.Payment{ID: "pi_1", Status: "canceled"}}}, charges.Answered, true},
		{"paid meanwhile", Answer{Err: &stripe.Error{Type: "invalid_request_error", Code: "payment_intent_unexpected_state", HTTPStatus: 400, Payment: paid}}, charges.Answered, true},
		{"refused without a word on the payment", Answer{Err: &stripe.Error{Type: "invalid_request_error", HTTPStatus: 400}}, charges.Invalid, false},
		{"forbidden", Answer{Err: &stripe.Error{Type: "invalid_request_error", HTTPStatus: 403}}, charges.Refused, false},
		{"answer lost", Answer{Err: errors.New("EOF")}, charges.Unknown, false},
		{"no connection", Answer{Err: fmt.Errorf("dial: %w", transport.ErrNotSent)}, charges.NotSent, false},
	} {
		if d := DecideCancel(tc.answer); d.Outcome != tc.outcome || (d.News != nil) != tc.news || d.To != "" {
			t.Errorf("%s: %+v", tc.name, d)
		}
	}
}

// TestDecideReceipt has a row for each answer of SendGrid's (I5, I6).
func TestDecideReceipt(t *testing.T) {
	t.Parallel()
	answer := func(status int, after time.Duration) error {
		return fmt.Errorf("send: %w", &sendgrid.Error{HTTPStatus: status, Message: "m", RetryAfter: after})
	}
	foreign := func(status int, after time.Duration) error {
		return fmt.Errorf("send: %w", &sendgrid.Error{HTTPStatus: status, Foreign: true, RetryAfter: after})
	}
	for _, tc := range []struct {
		name string
		err  error
		want charges.ReceiptStatus
		wait time.Duration
	}{
		{"accepted", nil, charges.ReceiptSent, 0},
		{"no connection", fmt.Errorf("dial: %w", transport.ErrNotSent), charges.ReceiptPending, mailDownWait},
		{"connection lost", errors.New("EOF"), charges.ReceiptUnknown, 0},
		{"broken key, or no credits", answer(401, 0), charges.ReceiptPending, mailBrokeWait},
		{"forbidden", answer(403, 0), charges.ReceiptPending, mailBrokeWait},
		{"rate limit", answer(429, time.Minute), charges.ReceiptPending, time.Minute},
		{"rate limit without a time", answer(429, 0), charges.ReceiptPending, mailBusyWait},
		{"unavailable", answer(503, 0), charges.ReceiptPending, mailDownWait},
		{"internal error: it may have been accepted", answer(500, 0), charges.ReceiptUnknown, 0},
		{"gateway timeout: it may have been accepted", answer(504, 0), charges.ReceiptUnknown, 0},
		{"not SendGrid's answer", foreign(404, 0), charges.ReceiptPending, mailBrokeWait},
		{"not SendGrid's 400", foreign(400, 0), charges.ReceiptPending, mailBrokeWait},
		{"not SendGrid's 429", foreign(429, time.Second), charges.ReceiptPending, mailBrokeWait},
		{"a proxy that asks for time", foreign(429, 2*mailBrokeWait), charges.ReceiptPending, 2 * mailBrokeWait},
		{"an answer that says nothing: it may have been accepted", fmt.Errorf("send: %w", transport.ErrUnknown), charges.ReceiptUnknown, 0},
		{"bad request", answer(400, 0), charges.ReceiptFailed, 0},
		{"too large", answer(413, 0), charges.ReceiptFailed, 0},
	} {
		got, wait := DecideReceipt("m1", tc.err)
		if got.Status != tc.want || wait != tc.wait {
			t.Errorf("%s: %s after %v, want %s after %v", tc.name, got.Status, wait, tc.want, tc.wait)
		}
		if (tc.want == charges.ReceiptSent) != (got.Error == "") {
			t.Errorf("%s: error %q", tc.name, got.Error)
		}
	}
}
