package charges

import (
	"time"

	"github.com/google/uuid"
)

// Charge is one payment asked for by a caller, as the API shows it.
type Charge struct {
	ID     uuid.UUID `json:"id" doc:"Names the charge." format:"uuid"`
	Object string    `json:"object" enum:"charge"`
	Status Status    `json:"status" enum:"pending,processing,requires_action,requires_capture,succeeded,failed,canceled,needs_review" doc:"Where the payment stands. succeeded, failed and canceled are final."`
	Request
	IdempotencyKey uuid.UUID   `json:"idempotency_key" format:"uuid" doc:"The key under which the charge was created, which Stripe got as well."`
	Stock          *Stock      `json:"stock" enum:"held,taken,returned" doc:"Where its items are: held while it is open, taken once it has succeeded, returned to the stock when it has failed or was canceled, or an operator settled it without its items: ship only what is taken. An open charge whose items are returned was accepted for a payment that a restored database had lost, or goes on after all, and has them again once it has succeeded, if there are any. While a person decides they stay where they are. null: it has none."`
	PaymentIntent  *string     `json:"payment_intent" doc:"Stripe's id of the payment; null until Stripe has told us of one."`
	NextAction     *NextAction `json:"next_action" doc:"What the buyer must do; null unless the status is requires_action. Shown to the charge's own caller alone."`
	Failure        *Failure    `json:"failure" doc:"Why a failed charge failed; null for all others."`
	Review         *Review     `json:"review" doc:"What a person must decide; null for all others."`
	Receipt        *Receipt    `json:"receipt" doc:"The buyer's receipt; null while none is due."`
	AmountCaptured int64       `json:"amount_captured" minimum:"0" doc:"What the buyer was charged, in the currency's minor unit: 0 until the charge has succeeded, and less than amount where less was captured."`
	AmountRefunded int64       `json:"amount_refunded" minimum:"0" doc:"How much has been given back or is on its way, in the currency's minor unit, whoever did it. It shrinks when a refund fails."`
	Dispute        *Dispute    `json:"dispute" doc:"The buyer's dispute of the payment: the open one, else the latest; null: there never was one."`
	CreatedAt      time.Time   `json:"created_at" doc:"When the charge was accepted (UTC)."`
	UpdatedAt      time.Time   `json:"updated_at" doc:"When its status last changed (UTC)."`

	Caller    string `json:"-"`
	canonical string // the request as it is stored
}

// Advice says what the caller may do about a declined payment.
type Advice string

// The advice given with a decline.
const (
	RetryLater       Advice = "retry_later"
	NewPaymentMethod Advice = "new_payment_method"
	DoNotRetry       Advice = "do_not_retry"
)

// Failure says why a payment was refused for good.
type Failure struct {
	Code        string  `json:"code" doc:"Stripe's error code, such as card_declined." example:"card_declined"`
	DeclineCode *string `json:"decline_code" doc:"What the card's issuer said, where it said more." example:"insufficient_funds"`
	Message     *string `json:"message" doc:"For people; may be shown to the buyer."`
	Advice      Advice  `json:"advice" enum:"retry_later,new_payment_method,do_not_retry" doc:"What may help. Each try takes a new idempotency key."`
}

// NextAction is what the buyer's page needs to go on.
type NextAction struct {
	ClientSecret string  `json:"client_secret" doc:"For Stripe.js or a mobile SDK on the buyer's side. Whoever has it can pay: never log it."`
	RedirectURL  *string `json:"redirect_url" doc:"Where to send the buyer, if Stripe says so."`
}

// Review says why a person must decide.
type Review struct {
	Reason string `json:"reason" example:"stored_failure"`
}

// Receipt tells how far the buyer's receipt is.
type Receipt struct {
	Status ReceiptStatus `json:"status" enum:"pending,sending,sent,unknown,failed,deferred,dropped,delivered,bounced" doc:"unknown: it may have been sent, and is not sent again by itself. dropped, delivered and bounced are SendGrid's last word, deferred is not."`
}

// Dispute tells that the buyer's bank takes the payment back, or asks about it, and how far that is.
type Dispute struct {
	Status   string     `json:"status" doc:"Stripe's own word. needs_response and warning_needs_response wait for your evidence; won, lost and warning_closed are over." example:"needs_response"`
	Reason   string     `json:"reason" doc:"Stripe's own word." example:"fraudulent"`
	Amount   int64      `json:"amount" minimum:"0" doc:"In the minor unit of the dispute's currency."`
	Currency string     `json:"currency" doc:"May be another one than the charge's." example:"usd"`
	DueBy    *time.Time `json:"due_by" doc:"Until when evidence is taken (UTC); null: none is asked for."`
}

// Event is one line of a charge's audit trail.
type Event struct {
	ID    int64          `json:"id" doc:"Grows with time."`
	Type  string         `json:"type" example:"charge.succeeded"`
	From  *Status        `json:"from" doc:"The status before; null for the first event."`
	To    Status         `json:"to" doc:"The status after."`
	Actor string         `json:"actor" doc:"Who did it: caller, worker or operator, with a name where there is one." example:"worker"`
	At    time.Time      `json:"at" doc:"When (UTC)."`
	Data  map[string]any `json:"data" doc:"What was known, such as Stripe's request id."`
}
