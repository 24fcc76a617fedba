package workers

import (
	"errors"
	"net/http"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

// Verdict says what an answer of Stripe's means for the job.
type Verdict string

// The verdicts. Only Done ends the job.
const (
	Done          Verdict = "done"          // the charge has moved, or waits for somebody else
	GoOn          Verdict = "go_on"         // ask again at once what is allowed
	RetryLater    Verdict = "retry_later"   // Stripe did not execute it, and asks for patience
	ProviderDown  Verdict = "provider_down" // nothing arrived there
	Misconfigured Verdict = "misconfigured" // our credentials are broken
	InDoubt       Verdict = "unknown"       // it may have been executed: send again under the same key
)

// Answer is all that is known when a call has ended.
type Answer struct {
	Payment  charges.News // with a nil Err
	Reply    stripe.Reply
	Err      error
	ProbeErr error // with a 403: what a read of our own account said just after
}

// Decision is what [Decide] makes of an answer.
type Decision struct {
	charges.Result
	Verdict    Verdict
	RetryAfter time.Duration // what Stripe asked for; 0: nothing
}

// Decide maps an answer to what is known and what follows. It is a pure function, and the only place that judges Stripe's
// answers. What it does not know is unknown, never a failure: https://docs.stripe.com/error-low-level.
func Decide(a Answer) Decision {
	if a.Err == nil {
		d := Decision{Verdict: Done}
		d.Result = charges.Result{Outcome: charges.Answered, HTTPStatus: a.Reply.HTTPStatus, RequestID: a.Reply.RequestID, News: &a.Payment}
		return d
	}
	if e := (*stripe.Error)(nil); errors.As(a.Err, &e) {
		d := decideError(a, e)
		d.HTTPStatus, d.RequestID, d.RetryAfter = e.HTTPStatus, e.RequestID, e.RetryAfter
		if d.Code == "" {
			d.Code = e.Code
		}
		return d
	}
	if errors.Is(a.Err, transport.ErrNotSent) {
		return Decision{Verdict: ProviderDown, Result: charges.Result{Outcome: charges.NotSent}}
	}
	return Decision{Verdict: InDoubt, Result: charges.Result{Outcome: charges.Unknown, HTTPStatus: a.Reply.HTTPStatus, RequestID: a.Reply.RequestID}}
}

func decideError(a Answer, e *stripe.Error) Decision {
	switch {
	case e.Type == "idempotency_error":
		return Decision{Verdict: Done, Result: charges.Result{Outcome: charges.Refused, Code: e.Type,
			Change: charges.Change{To: charges.NeedsReview, Reason: e.Type}}}
	case e.Code == "idempotency_key_in_use" || e.HTTPStatus == http.StatusTooManyRequests || e.HTTPStatus == http.StatusConflict:
		return Decision{Verdict: RetryLater, Result: charges.Result{Outcome: charges.Refused}}
	case e.HTTPStatus == http.StatusUnauthorized:
		return Decision{Verdict: Misconfigured, Result: charges.Result{Outcome: charges.Refused}}
	case e.HTTPStatus == http.StatusForbidden && a.ProbeErr != nil:
		return Decision{Verdict: Misconfigured, Result: charges.Result{Outcome: charges.Refused}}
	case e.HTTPStatus == http.StatusForbidden:
		return Decision{Verdict: Done, Result: charges.Result{Outcome: charges.Refused,
			Change: charges.Change{To: charges.NeedsReview, Reason: "forbidden"}}}
	case e.HTTPStatus >= 500 && e.Replayed:
		return Decision{Verdict: GoOn, Result: charges.Result{Outcome: charges.StoredFailure}}
	case e.Type == "card_error" && e.HTTPStatus == http.StatusPaymentRequired:
		if e.Payment != nil {
			news := *e.Payment
			news.Failure = stripe.Failure(e)
			return Decision{Verdict: Done, Result: charges.Result{Outcome: charges.Answered, News: &news}}
		}
		return Decision{Verdict: Done, Result: charges.Result{Outcome: charges.Answered, Change: charges.Change{To: charges.Failed, Failure: stripe.Failure(e)}}}
	case e.HTTPStatus == http.StatusBadRequest || e.HTTPStatus == http.StatusPaymentRequired || e.HTTPStatus == http.StatusNotFound:
		return decideInvalid(e)
	}
	return Decision{Verdict: InDoubt, Result: charges.Result{Outcome: charges.Unknown}}
}

// decideInvalid is for a request that can never work. Whether that is final is for [charges.Service.Settle] to say: an earlier
// attempt may have worked.
func decideInvalid(e *stripe.Error) Decision {
	failure := stripe.Failure(e)
	if e.Code == "" {
		failure.Code = "invalid_request"
	}
	change := charges.Change{To: charges.Failed, Failure: failure}
	return Decision{Verdict: Done, Result: charges.Result{Outcome: charges.Invalid, Code: failure.Code, Change: change}}
}

// DecideCancel maps the answer to a cancel. Whatever it says of the payment is taken; without that, the payment is read again
// before anything else is done about it.
func DecideCancel(a Answer) Decision {
	d := Decide(a)
	d.Change, d.News = charges.Change{}, nil
	if a.Err == nil {
		d.News = &a.Payment
		return d
	}
	if e := (*stripe.Error)(nil); errors.As(a.Err, &e) && e.Payment != nil {
		d.Outcome, d.Verdict, d.News = charges.Answered, Done, e.Payment
	}
	return d
}
