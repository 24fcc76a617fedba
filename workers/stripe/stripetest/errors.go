package stripetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

const apiVersion = "2023-10-16"

// apiError is Stripe's error object: https://docs.stripe.com/api/errors
type apiError struct {
	status     int
	retryAfter int // seconds; 0 for no header

	AdviceCode    string             `json:"advice_code,omitempty"`
	Charge        string             `json:"charge,omitempty"`
	Code          string             `json:"code,omitempty"`
	DeclineCode   string             `json:"decline_code,omitempty"`
	Message       string             `json:"message"`
	Param         string             `json:"param,omitempty"`
	PaymentIntent *intentView        `json:"payment_intent,omitempty"`
	PaymentMethod *paymentMethodView `json:"payment_method,omitempty"`
	Type          string             `json:"type"`
}

func invalid(status int, code, param, message string) *apiError {
	return &apiError{status: status, Type: "invalid_request_error", Code: code, Param: param, Message: message}
}

func missing(status int, object, id, param string) *apiError {
	return invalid(status, "resource_missing", param, fmt.Sprintf("There is no %s '%s'.", object, id))
}

func noSuchRoute(r *frame.Request) *apiError {
	return invalid(404, "", "", fmt.Sprintf("The sandbox does not serve %s %s.", r.Method, r.Path))
}

// faultError is the error that a status or stored_status fault asks for.
func faultError(f *frame.Fault) *apiError {
	e := &apiError{status: f.Status, retryAfter: f.RetryAfter, Type: "invalid_request_error"}
	switch {
	case f.Status >= 500:
		e.Type = "api_error"
	case f.Status == 402:
		e.Type, e.Code, e.DeclineCode = "card_error", "card_declined", "generic_decline"
	case f.Status == 404:
		e.Code = "resource_missing"
	case f.Status == 409:
		e.Code = "idempotency_key_in_use"
	case f.Status == 429:
		e.Code = "rate_limit"
	}
	e.Message = fmt.Sprintf("A %d that the sandbox was told to answer.", f.Status)
	for into, wanted := range map[*string]string{
		&e.Type: f.Type, &e.Code: f.Code, &e.DeclineCode: f.DeclineCode, &e.AdviceCode: f.AdviceCode, &e.Message: f.Message,
	} {
		if wanted != "" {
			*into = wanted
		}
	}
	return e
}

// respond encodes the object, or the error when there is one, with the headers that every answer has.
func respond(r *frame.Request, requestID string, object any, apiErr *apiError) frame.Answer {
	status := http.StatusOK
	if apiErr != nil {
		status = apiErr.status
		object = struct {
			Error *apiError `json:"error"`
		}{apiErr}
	}
	body, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("stripetest: encode answer: %v", err)) // only this package's own structs come here
	}
	answer := frame.Answer{Status: status, Header: headers(r, requestID), Body: append(body, '\n')}
	if apiErr != nil && apiErr.retryAfter > 0 {
		answer.Header.Set("Retry-After", strconv.Itoa(apiErr.retryAfter))
	}
	return answer
}

func headers(r *frame.Request, requestID string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("Request-Id", requestID)
	h.Set("Stripe-Version", apiVersion)
	if key := r.Traits.IdempotencyKey; key != "" {
		h.Set("Idempotency-Key", key)
	}
	return h
}
