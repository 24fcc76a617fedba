package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Status is a charge's state, in Stripe's words. Later servers may know others.
type Status string

// The states of a charge.
const (
	StatusPending         Status = "pending"          // accepted, not yet sent to the provider
	StatusProcessing      Status = "processing"       // at the provider, or on its way
	StatusRequiresAction  Status = "requires_action"  // waits for the buyer, e.g. for 3-D Secure
	StatusRequiresCapture Status = "requires_capture" // authorised; waits for a capture
	StatusSucceeded       Status = "succeeded"
	StatusFailed          Status = "failed" // declined or refused; see Charge.Failure
	StatusCanceled        Status = "canceled"
	StatusNeedsReview     Status = "needs_review" // waits for a person; see Charge.Review
)

// Charge is one charge as the server told it. Members that are null or absent have their zero value, members that this
// package does not know are in Raw alone.
type Charge struct {
	ID                        string            `json:"id"`
	Object                    string            `json:"object"` // "charge"
	Status                    Status            `json:"status"`
	Amount                    int64             `json:"amount"`   // in the currency's minor unit
	Currency                  string            `json:"currency"` // ISO 4217, lower case
	PaymentMethod             string            `json:"payment_method"`
	IdempotencyKey            string            `json:"idempotency_key"`
	CaptureMethod             string            `json:"capture_method"`
	Customer                  string            `json:"customer"`
	OffSession                bool              `json:"off_session"`
	SetupFutureUsage          string            `json:"setup_future_usage"`
	ReturnURL                 string            `json:"return_url"`
	ReceiptEmail              string            `json:"receipt_email"`
	Description               string            `json:"description"`
	StatementDescriptorSuffix string            `json:"statement_descriptor_suffix"`
	Metadata                  map[string]string `json:"metadata"`
	Reference                 string            `json:"reference"`
	Items                     []Item            `json:"items"` // what is sold, in the order of the SKUs
	Stock                     Stock             `json:"stock"` // where the items are; empty: there are none
	SendBefore                time.Time         `json:"send_before"`
	PaymentIntent             string            `json:"payment_intent"` // Stripe's id, once there is one
	NextAction                *NextAction       `json:"next_action"`    // what the buyer must do; in requires_action alone
	Failure                   *Failure          `json:"failure"`
	Review                    *Review           `json:"review"`
	Receipt                   *Receipt          `json:"receipt"`
	AmountCaptured            int64             `json:"amount_captured"` // what the buyer was charged; 0 until the charge has succeeded
	AmountRefunded            int64             `json:"amount_refunded"` // given back or on its way, by whomever; shrinks when a refund fails
	Dispute                   *Dispute          `json:"dispute"`         // the open one, else the latest
	CreatedAt                 time.Time         `json:"created_at"`
	UpdatedAt                 time.Time         `json:"updated_at"`

	Raw    json.RawMessage `json:"-"` // the charge as it came
	Answer Answer          `json:"-"` // set by Create, Get and Wait
}

// Item is so many pieces of one SKU, the shop's own name of what is sold.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// Stock is where the items of a charge are. It follows the charge's status. Later servers may know other places.
type Stock string

// The places.
const (
	StockHeld     Stock = "held"     // the charge is open, and nobody else can have them
	StockTaken    Stock = "taken"    // it has succeeded
	StockReturned Stock = "returned" // it has failed or was canceled, or an operator settled it without its items: ship only what is taken
)

// NextAction is what the buyer's page needs to go on.
type NextAction struct {
	ClientSecret string `json:"client_secret"` // for Stripe.js or a mobile SDK. Whoever has it can pay: never log it
	RedirectURL  string `json:"redirect_url"`  // where the buyer goes, if elsewhere; empty: the SDK knows
}

// Failure says why a charge failed.
type Failure struct {
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Message     string `json:"message"`
	Advice      Advice `json:"advice"`
}

// Advice says what a caller can do about a failed charge. Each takes a new idempotency key.
type Advice string

// What can be done about a failed charge.
const (
	AdviceRetryLater       Advice = "retry_later"
	AdviceNewPaymentMethod Advice = "new_payment_method"
	AdviceDoNotRetry       Advice = "do_not_retry"
)

// Review says what a person has to decide.
type Review struct {
	Reason string `json:"reason"`
}

// Receipt is the state of the buyer's receipt.
type Receipt struct {
	Status string `json:"status"`
	To     string `json:"to"`
}

// Dispute is the buyer's dispute of the payment, in Stripe's words. Later ones may be unknown here.
type Dispute struct {
	Status   string    `json:"status"` // e.g. "needs_response", "won", "lost"
	Reason   string    `json:"reason"` // e.g. "fraudulent"
	Amount   int64     `json:"amount"` // in the minor unit of the dispute's currency
	Currency string    `json:"currency"`
	DueBy    time.Time `json:"due_by"` // until when evidence is taken; zero: none is asked for
}

// Settled tells whether the charge goes no further by itself: its status is neither pending nor processing. A settled charge
// has not necessarily succeeded, and may wait for the buyer, a capture or a person.
func (c *Charge) Settled() bool { return c.Status != StatusPending && c.Status != StatusProcessing }

// UnmarshalJSON keeps the charge as it came in Raw.
func (c *Charge) UnmarshalJSON(data []byte) error {
	type plain Charge
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*c = Charge(p)
	c.Raw = bytes.Clone(data)
	return nil
}

func (c *Charge) check() error {
	if c == nil || c.ID == "" || c.Status == "" {
		return errors.New("not a charge")
	}
	return nil
}

// checkID is for charges that were asked for by id.
func (c *Charge) checkID(id string) error {
	if err := c.check(); err != nil {
		return err
	}
	if !strings.EqualFold(c.ID, id) { // ids are UUIDs, which the server takes in either case
		return fmt.Errorf("charge %s instead of %s", c.ID, id)
	}
	return nil
}
