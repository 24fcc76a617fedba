package api

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
)

// maxEventBytes bounds what a provider may send at once. Stripe's events pass 64 KiB, SendGrid's batches come close to 1 MiB.
const maxEventBytes = 1 << 20

// maxEventRead is how long the body of an event may take to arrive.
const maxEventRead = 5 * time.Second

// maxIntake is how many events are read and handled at once, so that they can fill neither the memory nor the API.
const maxIntake = 64

// received is the answer to an event. A provider reads no more than the status.
type received struct {
	Received bool `json:"received"`
}

func (a *API) stripeWebhook(w http.ResponseWriter, c *call) error {
	return a.takeEvents(w, c, charges.ProviderStripe, a.stripeSigned, func(body []byte) ([]charges.ProviderEvent, error) {
		e, err := a.charges.TakeStripeEvent(c.Context(), body)
		return []charges.ProviderEvent{e}, err
	})
}

func (a *API) sendGridWebhook(w http.ResponseWriter, c *call) error {
	return a.takeEvents(w, c, charges.ProviderSendGrid, a.sendGridSigned, func(body []byte) ([]charges.ProviderEvent, error) {
		return a.charges.TakeReceiptEvents(c.Context(), body)
	})
}

// takeEvents answers 2xx once what the provider sent is stored: from then on it is ours to apply. Any other answer makes
// the provider send it again.
func (a *API) takeEvents(w http.ResponseWriter, c *call, from charges.Provider, signed verifier, take func(body []byte) ([]charges.ProviderEvent, error)) error {
	body, reason, err := readSigned(w, c, signed)
	if err != nil {
		a.metrics.refused.WithLabelValues(string(from), reason).Inc()
		return err
	}
	events, err := take(body)
	if err != nil {
		a.metrics.refused.WithLabelValues(string(from), "not_stored").Inc()
		return err
	}
	for _, e := range events {
		a.metrics.event(e)
		a.logEvent(c, e)
	}
	if len(events) == 1 {
		c.charge = events[0].ChargeID
	}
	return writeJSON(w, http.StatusOK, received{Received: true})
}

// readSigned reads a body that is signed by its provider, or says in a word for the metrics why not.
func readSigned(w http.ResponseWriter, c *call, signed verifier) (body []byte, reason string, err error) {
	if signed == nil {
		return nil, "not_configured", errNoWebhooks
	}
	err = signed.precheck(c.Header, time.Now())
	if err == nil {
		// Nobody has shown yet who they are, and places are few. A provider sends its event at once.
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxEventRead)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil, "body", err
		}
		body, err = readBounded(w, c, maxEventBytes, errEventTooLarge)
		if err != nil {
			return nil, "body", err
		}
		err = signed.verify(c.Header, body, time.Now())
	}
	if err != nil {
		return nil, err.Error(), errSignature
	}
	return body, "", nil
}

// logEvent leaves a line for each event: what it was about and what became of it, not what it said.
func (a *API) logEvent(c *call, e charges.ProviderEvent) {
	level := slog.LevelInfo
	switch {
	case e.Note.Alarm():
		level = slog.LevelError
	case e.Note.Odd():
		level = slog.LevelWarn
	case e.Duplicate || e.Status == charges.EventIgnored:
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.id), slog.String("provider", string(e.Provider)), slog.String("event_id", e.EventID),
		slog.String("type", e.Type), slog.String("result", result(e)), slog.String("note", string(e.Note)),
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	if e.ChargeID != uuid.Nil {
		attrs = append(attrs, slog.String("charge_id", e.ChargeID.String()))
	}
	a.log.LogAttrs(c.Context(), level, "webhook.event", attrs...)
}

// result is what became of an event this time.
func result(e charges.ProviderEvent) string {
	if e.Duplicate {
		return "duplicate"
	}
	return string(e.Status)
}

// classes are the kinds of events that the metrics tell apart. Providers invent new ones, so their number is bounded here.
var classes = []string{"payment_intent", "charge", "refund", "customer", "payout",
	"processed", "deferred", "delivered", "bounce", "dropped", "open", "click"}

func class(e charges.ProviderEvent) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(e.Type, "v1."), ".")
	if slices.Contains(classes, first) {
		return first
	}
	return "other"
}
