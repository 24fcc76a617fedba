package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// CreateParams describes one charge. Amount, Currency and PaymentMethod are required; the server says what it accepts.
type CreateParams struct {
	// IdempotencyKey is a version 4 or 7 UUID, as [NewKey] makes them. Where it is empty, Create makes one, and tells it in
	// the charge or the error; only a key that was stored before the call survives a crash of the caller.
	IdempotencyKey string `json:"-"`
	// Wait lets the server hold its answer back until the charge is settled, for at most this long (rounded up to
	// whole seconds; the server has a bound of its own). 0 answers as soon as the charge is stored.
	Wait time.Duration `json:"-"`

	Amount                    int64             `json:"amount"`   // in the currency's minor unit
	Currency                  string            `json:"currency"` // ISO 4217
	PaymentMethod             string            `json:"payment_method"`
	CaptureMethod             string            `json:"capture_method,omitempty"` // "automatic" by default, or "manual"
	Customer                  string            `json:"customer,omitempty"`
	OffSession                bool              `json:"off_session,omitempty"`
	SetupFutureUsage          string            `json:"setup_future_usage,omitempty"`
	ReturnURL                 string            `json:"return_url,omitempty"` // needed by payment methods that redirect the buyer
	ReceiptEmail              string            `json:"receipt_email,omitempty"`
	Description               string            `json:"description,omitempty"`
	StatementDescriptorSuffix string            `json:"statement_descriptor_suffix,omitempty"`
	Metadata                  map[string]string `json:"metadata,omitempty"`
	Reference                 string            `json:"reference,omitempty"`  // the caller's order; one open or succeeded charge each
	Items                     []Item            `json:"items,omitzero"`       // what is sold, each SKU once; held with the charge. nil: none; an empty list is refused
	SendBefore                time.Time         `json:"send_before,omitzero"` // canceled where it was not sent by then
}

// NewKey makes an idempotency key: a version 7 UUID, which keeps the server's index of keys in order of time. Store it
// before it is used.
func NewKey() string {
	return uuid.Must(uuid.NewV7()).String() // fails only where crypto/rand does, and that ends the process by itself
}

// Create makes one charge, in as many attempts as it takes, all with one key and the same bytes. Calling it again with the
// same key and parameters gives the first answer again, with Answer.Replayed set, and charges nothing.
//
// Timeouts, broken connections, answers that cannot be read, 5xx, 429 and 409 "idempotency_key_in_use" are retried;
// any other answer ends the call. Items of which there are not enough are such an answer, 409 "insufficient_inventory": whether to try
// again, with fewer or once there is more, is the shop's to say. The error is an [*Error] where the charge was refused, an [*UnsettledError] where its
// outcome is unknown, or [ErrInvalidKey].
func (c *Client) Create(ctx context.Context, params CreateParams) (*Charge, error) {
	key := params.IdempotencyKey
	if key == "" {
		key = NewKey()
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if !params.SendBefore.IsZero() {
		params.SendBefore = params.SendBefore.UTC()
	}
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("oncepay: encode charge: %w", err)
	}
	r := request{method: http.MethodPost, path: "/charge", key: key, body: body, wait: max(0, params.Wait)}
	charge, answer, err := send(ctx, c, r, func(got *Charge) error {
		if err := got.check(); err != nil {
			return err
		}
		if !strings.EqualFold(got.IdempotencyKey, key) {
			return fmt.Errorf("charge %s belongs to another idempotency key", got.ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	charge.Answer = answer
	return charge, nil
}

func checkKey(key string) error {
	id, err := uuid.Parse(key)
	// Parse also takes urn:uuid:..., {...} and 32 digits, which the server does not.
	if err != nil || len(key) != 36 || (id.Version() != 4 && id.Version() != 7) || id.Variant() != uuid.RFC4122 {
		return fmt.Errorf("%w: %.64q", ErrInvalidKey, key)
	}
	return nil
}
