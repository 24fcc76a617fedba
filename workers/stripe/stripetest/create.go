package stripetest

import (
	"regexp"
	"strings"
	"time"
)

// operation is a write: it returns what to keep and the error to answer, if any. A decline is both; with an
// error that is not stored under a key the change is thrown away. It changes nothing that the book holds.
type operation func(*book, *params, environment) (*change, *apiError)

// environment is what an operation may know beside its parameters.
type environment struct {
	now  time.Time
	who  partition
	key  string // the idempotency key; "" without one
	host string
}

// create is POST /v1/payment_intents.
func create(_ *book, p *params, env environment) (*change, *apiError) {
	pi := &intent{
		ID: newID("pi_"), Owner: env.who, CreatedAt: env.now, IdempotencyKey: env.key, Status: requiresPaymentMethod,
		Metadata:                  p.metadata(),
		Description:               p.text("description", 1000),
		ReceiptEmail:              p.text("receipt_email", 512),
		StatementDescriptor:       p.descriptor("statement_descriptor"),
		StatementDescriptorSuffix: p.descriptor("statement_descriptor_suffix"),
		CaptureMethod:             p.oneOf("capture_method", "automatic", "automatic_async", "manual"),
		Customer:                  p.text("customer", 255),
	}
	pi.ClientSecret = pi.ID + "_secret_" + newID("")
	pi.Amount, pi.Currency = p.money()
	if pi.CaptureMethod == "" {
		pi.CaptureMethod = "automatic"
	}
	if pi.Customer != "" && !strings.HasPrefix(pi.Customer, "cus_") {
		p.fail("resource_missing", "customer", "There is no customer '"+pi.Customer+"'.")
	}
	p.oneOf("confirmation_method", "automatic")
	p.methodTypes(pi)
	confirmNow := p.boolean("confirm")
	c := p.confirmation()
	if !confirmNow && (c.offSession || c.returnURL != "" || c.errorOnAction) {
		p.fail("", "confirm", "off_session, return_url and error_on_requires_action go with confirm=true only.")
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	if err := pi.attach(c); err != nil {
		return nil, err
	}
	pi.tell("payment_intent.created")
	if !confirmNow {
		return &change{intent: pi}, nil
	}
	return &change{intent: pi}, pi.pay(c, env)
}

// methodTypes reads which kinds of payment method are allowed. Since 2023-08-16 a PaymentIntent that names
// none takes what the Dashboard enables: https://docs.stripe.com/upgrades#2023-08-16
func (p *params) methodTypes(pi *intent) {
	pi.MethodTypes = p.list("payment_method_types")
	const automatic = "automatic_payment_methods"
	enabled := p.oneOf(automatic+"[enabled]", "true", "false")
	pi.AllowRedirects = p.oneOf(automatic+"[allow_redirects]", "always", "never")
	pi.Automatic = enabled == "true" || enabled == "" && len(pi.MethodTypes) == 0
	if enabled == "true" && len(pi.MethodTypes) > 0 {
		p.fail("", automatic, "Give payment_method_types or automatic_payment_methods, not both.")
	}
	if pi.AllowRedirects != "" && enabled != "true" {
		p.fail("parameter_missing", automatic+"[enabled]", "allow_redirects needs automatic_payment_methods[enabled]=true.")
	}
	if pi.Automatic && pi.AllowRedirects == "" {
		pi.AllowRedirects = "always"
	}
	switch {
	case pi.Automatic && pi.AllowRedirects == "never":
		pi.MethodTypes = []string{"card", "us_bank_account", "sepa_debit"}
	case pi.Automatic:
		pi.MethodTypes = []string{"card", "us_bank_account", "sepa_debit", "ideal"}
	case len(pi.MethodTypes) == 0:
		pi.MethodTypes = []string{"card"}
	}
}

var (
	descriptorLetter = regexp.MustCompile(`[A-Za-z]`)
	descriptorPlain  = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

// descriptor reads a statement descriptor: 22 printable Latin characters, a letter among them, and none of
// <>\'"*: https://docs.stripe.com/get-started/account/statement-descriptors
func (p *params) descriptor(name string) string {
	v := p.text(name, 22)
	switch {
	case v == "":
	case strings.ContainsAny(v, `<>\'"*`) || !descriptorPlain.MatchString(v):
		p.fail("", name, "A statement descriptor holds plain Latin characters only, and none of <>\\'\"*.")
	case !descriptorLetter.MatchString(v):
		p.fail("", name, "A statement descriptor needs at least one letter.")
	}
	return v
}
