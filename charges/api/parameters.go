package api

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/oncepay/oncepay/charges"
)

// Bounds of a list.
const (
	defaultLimit = 20
	maxLimit     = 100
)

// Parameters of the operations. Their schemas say what the handlers check.
var (
	keyHeader = &huma.Param{
		Name: "Idempotency-Key", In: "header", Required: true,
		Description: "A version 4 or 7 UUID, bare or as a quoted string (RFC 8941). It is Stripe's idempotency key as well.",
		Schema:      &huma.Schema{Type: "string", Examples: []any{"0199a5c6-7d1e-7c30-9f1b-2f6a4c1d8e55"}},
	}
	preferHeader = &huma.Param{
		Name: "Prefer", In: "header",
		Description: "wait=N (RFC 7240) holds the answer back until the charge is settled, at most N seconds and at most 60; the answer is then the charge as it is.",
		Schema:      &huma.Schema{Type: "string", Examples: []any{"wait=10"}},
	}
	stripeSignatureHeader = &huma.Param{
		Name: "Stripe-Signature", In: "header", Required: true,
		Description: "When the body was signed, and its signatures under the endpoint's secrets: t=...,v1=...",
		Schema:      &huma.Schema{Type: "string"},
	}
	sendGridSignatureHeader = &huma.Param{
		Name: sendGridSignature, In: "header", Required: true,
		Description: "ECDSA over SHA-256 of the timestamp and the body, in base64.", Schema: &huma.Schema{Type: "string"},
	}
	sendGridTimestampHeader = &huma.Param{
		Name: sendGridTimestamp, In: "header", Required: true,
		Description: "When the body was signed, in seconds.", Schema: &huma.Schema{Type: "string"},
	}
	statusParam = &huma.Param{
		Name: "status", In: "query", Description: "Only charges that stand so.",
		Schema: &huma.Schema{Type: "string", Enum: statusValues()},
	}
	referenceParam = &huma.Param{
		Name: "reference", In: "query", Description: "Only charges with this reference.",
		Schema: &huma.Schema{Type: "string", MinLength: pointer(1), MaxLength: pointer(maxReference)},
	}
	cursorParam = &huma.Param{
		Name: "cursor", In: "query", Description: "next_cursor of the page before. Its form may change with any release.",
		Schema: &huma.Schema{Type: "string"},
	}
	limitParam = &huma.Param{
		Name: "limit", In: "query", Description: "At most so many to a page.",
		Schema: &huma.Schema{Type: "integer", Minimum: pointer(1.0), Maximum: pointer(float64(maxLimit)), Default: defaultLimit},
	}
	pathParams = map[string]*huma.Param{
		"id":  {Name: "id", In: "path", Required: true, Description: "The charge's id.", Schema: &huma.Schema{Type: "string", Format: "uuid"}},
		"sku": {Name: "sku", In: "path", Required: true, Description: "The shop's own name of what is sold.", Schema: &huma.Schema{Type: "string", MinLength: pointer(1), MaxLength: pointer(64)}},
		"key": {Name: "key", In: "path", Required: true, Description: "The idempotency key.", Schema: &huma.Schema{Type: "string", Format: "uuid"}},
	}
)

// createHeaders come with the answers to a create.
var createHeaders = []string{"Location", "Idempotency-Expires", "Idempotent-Replayed", "Preference-Applied"}

// responseHeaders are all headers of answers that mean something to a client.
var responseHeaders = map[string]*huma.Header{
	"Location":            {Description: "The charge's path.", Schema: &huma.Schema{Type: "string"}},
	"Idempotency-Expires": {Description: "Until when the answer is stored under its key (RFC 3339, UTC). Absent once it has expired.", Schema: &huma.Schema{Type: "string", Format: "date-time"}},
	"Idempotent-Replayed": {Description: "The key had been used before, for the same request.", Schema: &huma.Schema{Type: "string", Enum: []any{"true"}}},
	"Preference-Applied":  {Description: "The wait that was granted.", Schema: &huma.Schema{Type: "string"}},
	"Retry-After":         {Description: "Seconds after which to try again.", Schema: &huma.Schema{Type: "integer", Minimum: pointer(1.0)}},
	"WWW-Authenticate":    {Description: "The Bearer challenge.", Schema: &huma.Schema{Type: "string"}},
	"X-Request-Id":        {Description: "Names the request in the logs: the client's own X-Request-Id, or a new one.", Schema: &huma.Schema{Type: "string"}},
}

func statusValues() []any {
	values := make([]any, len(charges.Statuses))
	for i, s := range charges.Statuses {
		values[i] = string(s)
	}
	return values
}

func pointer[T any](value T) *T { return &value }
