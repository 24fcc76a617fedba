package stripetest

import (
	"fmt"
	"slices"
	"time"
)

// authorizationLife is how long a card's authorisation can be captured; then Stripe cancels the payment:
// https://docs.stripe.com/payments/place-a-hold-on-a-payment-method
const authorizationLife = 7 * 24 * time.Hour

// bankDelay is how long a bank debit stays in processing.
const bankDelay = 3 * 24 * time.Hour

// confirmation is what a confirm needs to know, at create and later.
type confirmation struct {
	method           string
	offSession       bool
	returnURL        string
	setupFutureUsage string
	errorOnAction    bool
}

func (p *params) confirmation() confirmation {
	offSession := p.oneOf("off_session", "true", "false", "one_off", "recurring")
	return confirmation{
		method:           p.text("payment_method", 255),
		offSession:       offSession != "" && offSession != "false",
		returnURL:        p.text("return_url", 2048),
		setupFutureUsage: p.oneOf("setup_future_usage", "on_session", "off_session"),
		errorOnAction:    p.boolean("error_on_requires_action"),
	}
}

// confirm is POST /v1/payment_intents/{id}/confirm.
func confirm(pi *intent, p *params, env environment) *apiError {
	c := p.confirmation()
	p.text("client_secret", 500)
	if err := p.finish(); err != nil {
		return err
	}
	if err := pi.only("confirmed", requiresPaymentMethod, requiresConfirmation, requiresAction); err != nil {
		return err
	}
	if err := pi.attach(c); err != nil {
		return err
	}
	return pi.pay(c, env)
}

// capture is POST /v1/payment_intents/{id}/capture. What is not captured is released.
func capture(pi *intent, p *params, _ environment) *apiError {
	amount, given := p.integer("amount_to_capture")
	if !given {
		amount = pi.AmountCapturable
	}
	suffix := p.descriptor("statement_descriptor_suffix")
	for key, value := range p.metadata() {
		pi.Metadata[key] = value
	}
	if err := p.finish(); err != nil {
		return err
	}
	if err := pi.only("captured", requiresCapture); err != nil {
		return err
	}
	if amount < 1 || amount > pi.AmountCapturable {
		return invalid(400, "amount_too_large", "amount_to_capture", fmt.Sprintf("Between 1 and %d can be captured.", pi.AmountCapturable))
	}
	if suffix != "" {
		pi.StatementDescriptorSuffix = suffix
	}
	pi.Status, pi.AmountReceived, pi.AmountCapturable = succeeded, amount, 0
	pi.DueAt, pi.DueStatus = time.Time{}, ""
	pi.tell("payment_intent.succeeded")
	return nil
}

// cancel is POST /v1/payment_intents/{id}/cancel.
func cancel(pi *intent, p *params, env environment) *apiError {
	reason := p.oneOf("cancellation_reason", "duplicate", "fraudulent", "requested_by_customer", "abandoned")
	if err := p.finish(); err != nil {
		return err
	}
	if err := pi.only("canceled", requiresPaymentMethod, requiresConfirmation, requiresAction, requiresCapture); err != nil {
		return err
	}
	pi.cancelAt(env.now, reason)
	return nil
}

func (pi *intent) cancelAt(now time.Time, reason string) {
	pi.Status, pi.AmountCapturable = canceled, 0
	pi.CanceledAt, pi.CancellationReason = now, reason
	pi.DueAt, pi.DueStatus = time.Time{}, ""
	pi.tell("payment_intent.canceled")
}

// only refuses an operation in any state but these.
func (pi *intent) only(verb string, states ...string) *apiError {
	if slices.Contains(states, pi.Status) {
		return nil
	}
	e := invalid(400, "payment_intent_unexpected_state", "", fmt.Sprintf("A PaymentIntent cannot be %s in the state %s.", verb, pi.Status))
	e.PaymentIntent = pi.view()
	return e
}

// attach gives the payment its payment method, if the caller named one.
func (pi *intent) attach(c confirmation) *apiError {
	if c.setupFutureUsage != "" {
		pi.SetupFutureUsage = c.setupFutureUsage
	}
	if c.method == "" {
		return nil
	}
	m, ok := methodByID(c.method)
	switch {
	case !ok:
		return missing(400, "PaymentMethod", c.method, "payment_method")
	case !slices.Contains(pi.MethodTypes, m.kind):
		return invalid(400, "", "payment_method", fmt.Sprintf("This PaymentIntent does not take %s.", m.kind))
	case m.currency != "" && m.currency != pi.Currency:
		return invalid(400, "payment_intent_invalid_parameter", "currency", fmt.Sprintf("%s pays in %s only.", m.kind, m.currency))
	case m.kind != "card" && pi.CaptureMethod == "manual":
		return invalid(400, "payment_intent_invalid_parameter", "capture_method", fmt.Sprintf("%s cannot be captured later.", m.kind))
	}
	pi.PaymentMethod = c.method
	pi.Status = requiresConfirmation
	return nil
}

// pay tries the payment method. The error is a decline when it shows the payment, else nothing has changed.
func (pi *intent) pay(c confirmation, env environment) *apiError {
	if pi.PaymentMethod == "" {
		return invalid(400, "payment_intent_unexpected_state", "payment_method", "A PaymentIntent without payment method cannot be confirmed.")
	}
	if pi.Automatic && pi.AllowRedirects != "never" && c.returnURL == "" {
		return invalid(400, "", "return_url", "A confirm needs a return_url, since a payment method enabled in the Dashboard might redirect "+
			"the buyer; or create the PaymentIntent with automatic_payment_methods[allow_redirects]=never.")
	}
	m, _ := methodByID(pi.PaymentMethod)
	pi.LastError = nil
	pi.ActionURL, pi.ReturnURL = "", ""
	switch {
	case m.outcome == declines:
		return pi.decline(env.now, m.code, m.declineCode, m.adviceCode)
	case m.outcome == authenticates && (c.offSession || c.errorOnAction):
		return pi.decline(env.now, "authentication_required", "authentication_required", "")
	case m.outcome == authenticates:
		pi.Status = requiresAction
		pi.ActionURL = fmt.Sprintf("http://%s/_sandbox/payment_intents/%s/authenticate", env.host, pi.ID)
		pi.ReturnURL = c.returnURL
		pi.tell("payment_intent.requires_action")
	case m.outcome == debits:
		pi.Status = processing
		pi.newCharge("py_", env.now)
		if m.settles != "" {
			pi.DueAt, pi.DueStatus = env.now.Add(bankDelay), m.settles
		}
		if m.settles == requiresPaymentMethod {
			pi.DueError = pi.declineError(m.code, m.declineCode, "")
		}
		pi.tell("payment_intent.processing")
	default:
		pi.authorize(env.now)
	}
	return nil
}

// authorize takes the money, or reserves it where it is to be captured later.
func (pi *intent) authorize(now time.Time) {
	pi.newCharge("ch_", now)
	pi.Authorized = pi.LatestCharge
	pi.ActionURL, pi.ReturnURL = "", ""
	if pi.CaptureMethod == "manual" {
		pi.Status, pi.AmountCapturable = requiresCapture, pi.Amount
		pi.DueAt, pi.DueStatus = now.Add(authorizationLife), canceled
		pi.tell("payment_intent.amount_capturable_updated")
		return
	}
	pi.Status, pi.AmountReceived = succeeded, pi.Amount
	pi.tell("payment_intent.succeeded")
}

// decline sends the payment back for another payment method, and is the 402 that says so.
func (pi *intent) decline(now time.Time, code, declineCode, adviceCode string) *apiError {
	pi.newCharge("ch_", now)
	e := pi.declineError(code, declineCode, adviceCode)
	pi.fail(e)
	answer := *e
	answer.PaymentIntent = pi.view()
	return &answer
}

// fail sends the payment back for another payment method.
func (pi *intent) fail(e *apiError) {
	pi.Status, pi.PaymentMethod, pi.LastError = requiresPaymentMethod, "", e
	pi.ActionURL, pi.ReturnURL = "", ""
	pi.tell("payment_intent.payment_failed")
}

func (pi *intent) declineError(code, declineCode, adviceCode string) *apiError {
	return &apiError{
		status: 402, Type: "card_error", Code: code, DeclineCode: declineCode, AdviceCode: adviceCode,
		Charge:        pi.LatestCharge,
		Message:       fmt.Sprintf("The payment was declined: %s.", declineCode),
		PaymentMethod: methodView(pi),
	}
}
