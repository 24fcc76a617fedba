package stripetest

import (
	"maps"
	"time"
)

// The states of a PaymentIntent: https://docs.stripe.com/payments/paymentintents/lifecycle
const (
	requiresPaymentMethod = "requires_payment_method"
	requiresConfirmation  = "requires_confirmation"
	requiresAction        = "requires_action"
	requiresCapture       = "requires_capture"
	processing            = "processing"
	succeeded             = "succeeded"
	canceled              = "canceled"
)

// intent is a PaymentIntent as the book and the journal hold it.
type intent struct {
	news

	ID             string
	Owner          partition
	CreatedAt      time.Time
	IdempotencyKey string // of the request that created it
	ClientSecret   string

	Amount           int64
	AmountCapturable int64
	AmountReceived   int64
	AmountRefunded   int64
	AmountDisputed   int64 // withdrawn by a dispute
	Currency         string
	Status           string

	Customer                  string
	Description               string
	Metadata                  map[string]string
	ReceiptEmail              string
	StatementDescriptor       string
	StatementDescriptorSuffix string

	PaymentMethod    string
	MethodTypes      []string
	Automatic        bool   // automatic_payment_methods[enabled]
	AllowRedirects   string // always or never, where Automatic
	CaptureMethod    string
	SetupFutureUsage string

	LatestCharge       string
	ChargedAt          time.Time // when LatestCharge began
	Authorized         string    // the charge that was authorised
	Disputed           bool      // now or once
	LastError          *apiError
	ActionURL          string // where the buyer authenticates, in requires_action
	ReturnURL          string // set with ActionURL when the caller gave one
	CanceledAt         time.Time
	CancellationReason string

	// DueAt is when the payment changes by itself, to DueStatus with DueError; zero for never.
	DueAt     time.Time
	DueStatus string
	DueError  *apiError
}

// clone is a copy that can be changed without changing pi.
func (pi *intent) clone() *intent {
	c := *pi
	c.Metadata, c.told = maps.Clone(pi.Metadata), nil
	return &c
}

// tell notes an event of the payment.
func (pi *intent) tell(kind string) { pi.news.tell(kind, intentsPath, pi.ID, pi.view(), nil) }

// intentView is the API's form of a PaymentIntent.
type intentView struct {
	ID                        string            `json:"id"`
	Object                    string            `json:"object"`
	Amount                    int64             `json:"amount"`
	AmountCapturable          int64             `json:"amount_capturable"`
	AmountReceived            int64             `json:"amount_received"`
	AutomaticPaymentMethods   *automaticView    `json:"automatic_payment_methods"`
	CanceledAt                *int64            `json:"canceled_at"`
	CancellationReason        *string           `json:"cancellation_reason"`
	CaptureMethod             string            `json:"capture_method"`
	ClientSecret              string            `json:"client_secret"`
	ConfirmationMethod        string            `json:"confirmation_method"`
	Created                   int64             `json:"created"`
	Currency                  string            `json:"currency"`
	Customer                  *string           `json:"customer"`
	Description               *string           `json:"description"`
	LastPaymentError          *apiError         `json:"last_payment_error"`
	LatestCharge              any               `json:"latest_charge"` // its id, or a chargeView where it was asked for
	Livemode                  bool              `json:"livemode"`
	Metadata                  map[string]string `json:"metadata"`
	NextAction                *nextActionView   `json:"next_action"`
	PaymentMethod             *string           `json:"payment_method"`
	PaymentMethodTypes        []string          `json:"payment_method_types"`
	ReceiptEmail              *string           `json:"receipt_email"`
	SetupFutureUsage          *string           `json:"setup_future_usage"`
	StatementDescriptor       *string           `json:"statement_descriptor"`
	StatementDescriptorSuffix *string           `json:"statement_descriptor_suffix"`
	Status                    string            `json:"status"`
}

type automaticView struct {
	AllowRedirects string `json:"allow_redirects"`
	Enabled        bool   `json:"enabled"`
}

// nextActionView is a redirect when the caller gave a return_url, else work for Stripe's own JavaScript.
type nextActionView struct {
	Type          string            `json:"type"`
	RedirectToURL map[string]string `json:"redirect_to_url,omitempty"`
	UseStripeSDK  map[string]string `json:"use_stripe_sdk,omitempty"`
}

func (pi *intent) view() *intentView {
	v := &intentView{
		ID: pi.ID, Object: "payment_intent", Amount: pi.Amount, AmountCapturable: pi.AmountCapturable,
		AmountReceived: pi.AmountReceived, CancellationReason: orNull(pi.CancellationReason),
		CaptureMethod: pi.CaptureMethod, ClientSecret: pi.ClientSecret, ConfirmationMethod: "automatic",
		Created: pi.CreatedAt.Unix(), Currency: pi.Currency, Customer: orNull(pi.Customer),
		Description: orNull(pi.Description), LastPaymentError: pi.LastError, LatestCharge: orNull(pi.LatestCharge),
		Livemode: pi.Owner.Livemode, Metadata: pi.Metadata, PaymentMethod: orNull(pi.PaymentMethod),
		PaymentMethodTypes: pi.MethodTypes, ReceiptEmail: orNull(pi.ReceiptEmail),
		SetupFutureUsage:    orNull(pi.SetupFutureUsage),
		StatementDescriptor: orNull(pi.StatementDescriptor), StatementDescriptorSuffix: orNull(pi.StatementDescriptorSuffix),
		Status: pi.Status,
	}
	if pi.Automatic {
		v.AutomaticPaymentMethods = &automaticView{AllowRedirects: pi.AllowRedirects, Enabled: true}
	}
	if !pi.CanceledAt.IsZero() {
		at := pi.CanceledAt.Unix()
		v.CanceledAt = &at
	}
	switch {
	case pi.Status != requiresAction:
	case pi.ReturnURL != "":
		v.NextAction = &nextActionView{Type: "redirect_to_url", RedirectToURL: map[string]string{"url": pi.ActionURL, "return_url": pi.ReturnURL}}
	default:
		v.NextAction = &nextActionView{Type: "use_stripe_sdk", UseStripeSDK: map[string]string{"type": "three_d_secure_redirect", "stripe_js": pi.ActionURL}}
	}
	return v
}

// orNull is how Stripe shows what was not given.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
