package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrInvalidKey says that an idempotency key is not a version 4 or 7 UUID in its usual 36 characters. Nothing was sent.
var ErrInvalidKey = errors.New("oncepay: the idempotency key is not a version 4 or 7 UUID")

// Error is a refusal: an answer other than 2xx. From [Client.Create] it also means that no attempt of that call can
// have had an effect; where one might have, the error is an [*UnsettledError] instead. An attempt of an earlier call, which ended
// in that, may still have one: ask [Client.Key], or send again, before the buyer is told.
type Error struct {
	Status     int          // HTTP status
	Code       string       // stable, e.g. "reference_in_use"; empty where something other than Oncepay answered
	Title      string       // short text for people
	Detail     string       // longer text for people
	Fields     []FieldError // the members at fault, for "invalid_request" and "idempotency_key_reused"
	Key        string       // the idempotency key that was sent; empty where none was
	RequestID  string       // names the request in the server's logs
	RetryAfter time.Duration
	Charge     *Charge    // the existing charge, for "reference_in_use"
	Short      []Shortage // what there is not enough of, for "insufficient_inventory"
	Inventory  *Inventory // what there is of the SKU, for "invalid_state" of SetInventory

	// RestoredAt is when the server's database was found to be restored, while it is not known yet what was lost: the charge may be among it, and
	// paid for. Send it again with the same key after some minutes, before the buyer pays another way. Zero: there is no such doubt.
	RestoredAt time.Time
}

// FieldError names one member of a request and what is wrong with it.
type FieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Shortage is a SKU of which less is available than was asked for.
type Shortage struct {
	SKU       string `json:"sku"`
	Requested int64  `json:"requested"`
	Available int64  `json:"available"`
	Stocked   bool   `json:"stocked"` // false: the SKU was never stocked, and more likely has another name than it is sold out
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "oncepay: %d %s", e.Status, firstNonEmpty(e.Code, http.StatusText(e.Status), "without a reason"))
	if text := firstNonEmpty(e.Detail, e.Title); text != "" {
		fmt.Fprintf(&b, ": %s", text)
	}
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Field, f.Reason)
	}
	for _, s := range e.Short {
		if !s.Stocked {
			fmt.Fprintf(&b, "; %s was never stocked", s.SKU)
			continue
		}
		fmt.Fprintf(&b, "; %s: %d of %d available", s.SKU, s.Available, s.Requested)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// retryable tells whether the same request can be answered differently later.
func (e *Error) retryable() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests ||
		e.Status == http.StatusConflict && e.Code == "idempotency_key_in_use"
}

// UnsettledError says that the outcome is unknown: the operation may have been accepted, or may still be. The only way
// to find out that cannot charge twice is the same call again with Key and the same parameters.
//
// It never matches [*Error]: an answer in Last says nothing about the attempts before it.
type UnsettledError struct {
	Key        string        // the idempotency key to go on with
	Attempts   int           // made by this call
	RetryAfter time.Duration // what the server asked for, else 0
	Last       *Error        // the last attempt's answer; nil where it had none
	Err        error         // why the call ended otherwise: the transport's error, or the context's; may be nil
}

func (e *UnsettledError) Error() string {
	text := fmt.Sprintf("oncepay: outcome unknown after %d attempts, go on with idempotency key %s", e.Attempts, e.Key)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Last != nil {
		text += ": " + strings.TrimPrefix(e.Last.Error(), "oncepay: ")
	}
	return text
}

// Unwrap gives Err, so that errors.Is finds context.Canceled and context.DeadlineExceeded.
func (e *UnsettledError) Unwrap() error { return e.Err }

// failure gives the error of a call whose last attempt ended with err, and which stop keeps from another attempt.
func (r request) failure(err, stop error, attempts int) error {
	if stop == errSpent || errors.Is(err, stop) {
		stop = nil // says no more than err does
	}
	if r.key != "" {
		return r.unsettled(err, stop, attempts)
	}
	if stop != nil {
		return fmt.Errorf("oncepay: %w: %w", stop, err)
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused
	}
	return fmt.Errorf("oncepay: %w", err)
}

func (r request) unsettled(err, stop error, attempts int) *UnsettledError {
	e := &UnsettledError{Key: r.key, Attempts: attempts, Err: stop}
	if refused, ok := errors.AsType[*Error](err); ok {
		e.Last, e.RetryAfter = refused, refused.RetryAfter
		return e
	}
	e.Err = err
	if stop != nil {
		e.Err = fmt.Errorf("%w: %w", stop, err)
	}
	return e
}

// refusal reads an answer other than 2xx. A body that is not problem+json, such as a proxy's page, leaves the texts
// empty: it may hold anything, and errors end in logs.
func refusal(res *http.Response, body []byte, key string, now time.Time) *Error {
	e := &Error{
		Status:     res.StatusCode,
		Key:        key,
		RequestID:  res.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(res.Header, now),
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		e.Detail = "redirects are not followed; is the base URL right?"
		return e
	}
	var problem struct {
		Title     string       `json:"title"`
		Detail    string       `json:"detail"`
		Code      string       `json:"code"`
		RequestID string       `json:"request_id"`
		Fields    []FieldError `json:"fields"`
		Charge    *Charge      `json:"charge"`
		Items     []Shortage   `json:"items"`
		Inventory *Inventory   `json:"inventory"`
		Restored  time.Time    `json:"restored_at"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return e
	}
	e.Title, e.Detail, e.Code, e.Fields, e.Charge = problem.Title, problem.Detail, problem.Code, problem.Fields, problem.Charge
	e.Short, e.Inventory, e.RestoredAt = problem.Items, problem.Inventory, problem.Restored
	e.RequestID = firstNonEmpty(problem.RequestID, e.RequestID)
	return e
}

func firstNonEmpty(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
