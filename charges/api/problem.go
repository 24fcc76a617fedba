package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/oncepay/oncepay/charges"
)

// code is the stable name of a refusal, which programs may rely on.
type code string

// The codes.
const (
	codeInvalidRequest        code = "invalid_request"
	codeKeyMissing            code = "idempotency_key_missing"
	codeKeyInvalid            code = "idempotency_key_invalid"
	codeUnauthenticated       code = "unauthenticated"
	codeForbidden             code = "forbidden"
	codeNotFound              code = "not_found"
	codeMethodNotAllowed      code = "method_not_allowed"
	codeRequestTimeout        code = "request_timeout"
	codeReferenceInUse        code = "reference_in_use"
	codeKeyInUse              code = "idempotency_key_in_use"
	codeInsufficientInventory code = "insufficient_inventory"
	codeInvalidState          code = "invalid_state"
	codeTooLarge              code = "too_large"
	codeUnsupportedMediaType  code = "unsupported_media_type"
	codeKeyReused             code = "idempotency_key_reused"
	codeSignatureInvalid      code = "signature_invalid"
	codeWebhooksNotConfigured code = "webhooks_not_configured"
	codeInternal              code = "internal"
	codeUnavailable           code = "unavailable"
)

// statusOf has the one status that a code comes with.
var statusOf = map[code]int{
	codeInvalidRequest:        http.StatusBadRequest,
	codeKeyMissing:            http.StatusBadRequest,
	codeKeyInvalid:            http.StatusBadRequest,
	codeUnauthenticated:       http.StatusUnauthorized,
	codeForbidden:             http.StatusForbidden,
	codeNotFound:              http.StatusNotFound,
	codeMethodNotAllowed:      http.StatusMethodNotAllowed,
	codeRequestTimeout:        http.StatusRequestTimeout,
	codeReferenceInUse:        http.StatusConflict,
	codeKeyInUse:              http.StatusConflict,
	codeInsufficientInventory: http.StatusConflict,
	codeInvalidState:          http.StatusConflict,
	codeTooLarge:              http.StatusRequestEntityTooLarge,
	codeUnsupportedMediaType:  http.StatusUnsupportedMediaType,
	codeKeyReused:             http.StatusUnprocessableEntity,
	codeSignatureInvalid:      http.StatusBadRequest,
	codeWebhooksNotConfigured: http.StatusServiceUnavailable,
	codeInternal:              http.StatusInternalServerError,
	codeUnavailable:           http.StatusServiceUnavailable,
}

// problem is a refusal as RFC 9457 has it. Its code, not its type, tells what it is.
type problem struct {
	Type      string          `json:"type" enum:"about:blank" doc:"code tells more."`
	Title     string          `json:"title" doc:"The status in words."`
	Status    int             `json:"status" doc:"The HTTP status."`
	Detail    string          `json:"detail" doc:"For people; its words may change."`
	Code      code            `json:"code" doc:"For programs; stable."`
	RequestID string          `json:"request_id" doc:"Names the request in the logs."`
	Fields    []fieldFault    `json:"fields,omitempty" nullable:"false" doc:"The members or parameters at fault."`
	Charge    *charges.Charge `json:"charge,omitempty"`

	Items     []charges.Shortage `json:"items,omitempty" nullable:"false" doc:"With insufficient_inventory: the SKUs of which there is not enough."`
	Inventory *charges.Inventory `json:"inventory,omitempty"`

	RestoredAt *time.Time `json:"restored_at,omitempty" doc:"With insufficient_inventory, or a send_before that has passed: when the database was found to be restored, while it is not known yet what was lost. A charge that was made under the key before may be among it, and its buyer may have paid: send the same again after some minutes."`

	header map[string]string // that the answer needs
}

// restored adds that the key may be that of a charge which a restored database has forgotten; a zero at adds nothing.
func (p problem) restored(at time.Time) problem {
	if at.IsZero() {
		return p
	}
	p.RestoredAt = &at
	p.Detail += " But the database was restored, or may have been, and what it would have forgotten is still being read at Stripe: unless the key is new, send the same again after some minutes, before the buyer pays another way."
	return p
}

// fieldFault says what is wrong with one member of a request.
type fieldFault struct {
	Field  string `json:"field" doc:"The member's or parameter's name, metadata.<key> inside metadata, items[<place>].<name> inside items, or body or query for the whole." example:"amount"`
	Reason string `json:"reason" doc:"For people. It never repeats the value." example:"must be at least 1"`
}

func newProblem(name code, detail string) problem {
	status := statusOf[name]
	return problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: name}
}

// withHeader returns p with one header more.
func (p problem) withHeader(name, value string) problem {
	p.header = maps.Clone(p.header)
	if p.header == nil {
		p.header = map[string]string{}
	}
	p.header[name] = value
	return p
}

func (p problem) withRetryAfter(after time.Duration) problem {
	return p.withHeader("Retry-After", strconv.Itoa(int(after/time.Second)))
}

// Error makes a problem the error of whoever finds it.
func (p problem) Error() string { return fmt.Sprintf("%s: %s", p.Code, p.Detail) }

// refuse answers with the problem that err is.
func (c *call) refuse(w http.ResponseWriter, err error) {
	p := problemOf(err)
	p.RequestID = c.id
	c.code, c.err = p.Code, err
	for name, value := range p.header {
		w.Header().Set(name, value)
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Errorf("encode problem %s: %w", p.Code, err)) // strings and a charge always have a JSON form
	}
	writeBody(w, p.Status, "application/problem+json", body)
}

func writeJSON(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	writeBody(w, status, "application/json", body)
	return nil
}

// writeBody sends exactly these bytes. That a client has gone is no error: there is nobody left to tell.
func writeBody(w http.ResponseWriter, status int, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
