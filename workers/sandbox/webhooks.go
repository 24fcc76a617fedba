package sandbox

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"net/http"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
	"github.com/oncepay/oncepay/workers/sendgrid/sendgridtest"
	"github.com/oncepay/oncepay/workers/stripe/stripetest"
)

// The names of the providers among the webhooks.
const (
	stripeName   = "stripe"
	sendgridName = "sendgrid"
)

// Webhooks says where events are sent and what signs them. Without a URL they are recorded only. A secret or key
// that is not given is made, and kept in the journal like the rest.
type Webhooks struct {
	StripeURL    string
	StripeSecret string // whsec_...
	SendGridURL  string
	SendGridKey  *ecdsa.PrivateKey // on P-256
}

// Validate refuses URLs and secrets that could not be used.
func (w Webhooks) Validate() error {
	if err := cmp.Or(frame.CheckURL(w.StripeURL), frame.CheckURL(w.SendGridURL)); err != nil {
		return err
	}
	if w.StripeSecret == "" {
		return nil
	}
	return stripetest.Courier.CheckSecret(w.StripeSecret)
}

// over fills what w leaves empty from what was there.
func (w Webhooks) over(was Webhooks) Webhooks {
	key := w.SendGridKey
	if key == nil {
		key = was.SendGridKey
	}
	return Webhooks{
		StripeURL: cmp.Or(w.StripeURL, was.StripeURL), StripeSecret: cmp.Or(w.StripeSecret, was.StripeSecret),
		SendGridURL: cmp.Or(w.SendGridURL, was.SendGridURL), SendGridKey: key,
	}
}

// SetWebhooks replaces both URLs; a secret or key that is not given stays as it is. Events that are pending go to the new
// URLs, those that were recorded without one stay recorded.
func (s *Sandbox) SetWebhooks(w Webhooks) error {
	mail := frame.Endpoint{URL: w.SendGridURL}
	if w.SendGridKey != nil {
		secret, err := sendgridtest.EncodeKey(w.SendGridKey)
		if err != nil {
			return err
		}
		mail.Secret = secret
	}
	return s.frame.Webhooks.SetEndpoints(map[string]frame.Endpoint{
		stripeName: {URL: w.StripeURL, Secret: w.StripeSecret}, sendgridName: mail,
	})
}

// Webhooks returns where events are sent, with the secrets that were made.
func (s *Sandbox) Webhooks() Webhooks {
	stripe, mail := s.frame.Webhooks.Endpoint(stripeName), s.frame.Webhooks.Endpoint(sendgridName)
	w := Webhooks{StripeURL: stripe.URL, StripeSecret: stripe.Secret, SendGridURL: mail.URL}
	if key, err := sendgridtest.DecodeKey(mail.Secret); err == nil { // none before the first SetWebhooks
		w.SendGridKey = key
	}
	return w
}

// SendGridPublicKey is what SendGrid's events are verified with, as SendGrid shows it: base64 of a SubjectPublicKeyInfo.
func (s *Sandbox) SendGridPublicKey() string {
	return sendgridtest.PublicKey(s.Webhooks().SendGridKey)
}

// Events returns what was told or is to be told by webhook, oldest first: all events that are pending, and at least the last 10,000
// requests' worth of others.
func (s *Sandbox) Events() []Event { return s.frame.Webhooks.Events() }

// Deliver sends events by hand and waits for the answers; see frame.Dispatch.
func (s *Sandbox) Deliver(ctx context.Context, d Dispatch) ([]Sent, error) {
	return s.frame.Webhooks.Deliver(ctx, d)
}

func (s *Sandbox) showWebhooks(w http.ResponseWriter) {
	now := s.Webhooks()
	reply(w, http.StatusOK, map[string]string{
		"stripe_url": now.StripeURL, "stripe_secret": now.StripeSecret,
		"sendgrid_url": now.SendGridURL, "sendgrid_public_key": s.SendGridPublicKey(),
	})
}

// putWebhooks sets the members that are given; an empty URL is none.
func (s *Sandbox) putWebhooks(w http.ResponseWriter, r *http.Request) {
	wanted := s.Webhooks()
	body := struct {
		StripeURL    *string `json:"stripe_url"`
		StripeSecret *string `json:"stripe_secret"`
		SendGridURL  *string `json:"sendgrid_url"`
	}{&wanted.StripeURL, &wanted.StripeSecret, &wanted.SendGridURL}
	err := decode(r, &body)
	if err == nil {
		err = s.SetWebhooks(wanted)
	}
	switch {
	case err == nil:
		s.showWebhooks(w)
	case errors.Is(err, frame.ErrBadEndpoint) || errors.Is(err, errBadBody):
		refuse(w, http.StatusBadRequest, err)
	default:
		refuse(w, http.StatusInternalServerError, err)
	}
}

func (s *Sandbox) postDeliver(w http.ResponseWriter, r *http.Request) {
	var d Dispatch
	if err := decode(r, &d); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	sent, err := s.Deliver(r.Context(), d)
	switch {
	case err == nil:
		reply(w, http.StatusOK, map[string][]Sent{"sent": sent})
	case errors.Is(err, frame.ErrBadDispatch):
		refuse(w, http.StatusBadRequest, err)
	case errors.Is(err, frame.ErrNoSuchEvent):
		refuse(w, http.StatusNotFound, err)
	case errors.Is(err, frame.ErrNoEndpoint):
		refuse(w, http.StatusConflict, err)
	default:
		refuse(w, http.StatusInternalServerError, err)
	}
}
