package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/transport"
)

// Error is an error that Stripe itself answered: https://docs.stripe.com/api/errors. All its texts are cleaned and bounded.
type Error struct {
	Type        string // api_error, card_error, idempotency_error or invalid_request_error; never empty
	Code        string
	DeclineCode string // what the card's issuer said
	AdviceCode  string // what the issuer says to do about it
	Message     string
	Param       string
	HTTPStatus  int
	RequestID   string
	Replayed    bool          // it was stored under the key before
	RetryAfter  time.Duration // what Stripe asks for, at most an hour; 0: nothing
	Payment     *charges.News // the PaymentIntent that the error is about, if it names one
}

func (e *Error) Error() string {
	parts := []string{fmt.Sprintf("stripe: HTTP %d", e.HTTPStatus)}
	for _, s := range []string{e.Type, e.Code, e.DeclineCode} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	s := strings.Join(parts, " ")
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.RequestID != "" {
		s += " (" + e.RequestID + ")"
	}
	return s
}

// failure is Stripe's error object, as an answer and as a payment's last_payment_error. The SDK's own type lacks advice_code.
type failure struct {
	Type          string  `json:"type"`
	Code          string  `json:"code"`
	DeclineCode   string  `json:"decline_code"`
	AdviceCode    string  `json:"advice_code"`
	Message       string  `json:"message"`
	Param         string  `json:"param"`
	PaymentIntent *intent `json:"payment_intent"`
}

// callError sorts what the SDK returned. The SDK's error itself is never kept: its text is the whole answer.
func (g *Gateway) callError(err error, answer *transport.Answer, reply Reply) error {
	if errors.Is(err, transport.ErrNotSent) {
		return notSent(err)
	}
	sdk := (*stripego.Error)(nil)
	if !errors.As(err, &sdk) || sdk.LastResponse == nil {
		return unknown(describe(err, reply))
	}
	var body struct {
		Error failure `json:"error"`
	}
	if json.Unmarshal(sdk.LastResponse.RawJSON, &body) != nil || body.Error.Type == "" {
		return unknown(fmt.Sprintf("HTTP %d with an error that is not Stripe's", reply.HTTPStatus))
	}
	f := body.Error
	e := &Error{
		Type: transport.Clean(f.Type), Code: transport.Clean(f.Code), DeclineCode: transport.Clean(f.DeclineCode),
		AdviceCode: transport.Clean(f.AdviceCode), Message: g.clean(f.Message), Param: transport.Clean(f.Param),
		HTTPStatus: reply.HTTPStatus, RequestID: reply.RequestID, Replayed: reply.Replayed, RetryAfter: answer.RetryAfter(),
	}
	if f.PaymentIntent != nil {
		p, err := g.payment(f.PaymentIntent, f.PaymentIntent.toldAt(answer.Date(), reply))
		if err != nil {
			return unknown(err.Error())
		}
		e.Payment = &p
	}
	return e
}

// describe words an error of the network. Any other is the SDK's complaint about a body, which it quotes.
func describe(err error, reply Reply) string {
	var call *url.Error
	var network net.Error
	if errors.As(err, &call) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) {
		return transport.Reason(err)
	}
	return fmt.Sprintf("HTTP %d with a body that is not Stripe's", reply.HTTPStatus)
}

// clean also removes our own key, should an answer repeat it in a form that is not known as a secret.
func (g *Gateway) clean(s string) string {
	return transport.Clean(strings.ReplaceAll(s, g.secretKey, "[removed]"))
}
