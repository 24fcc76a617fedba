package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"
)

// stripeWindow is how far the time of a signature may be from ours, either way. Stripe signs anew each time it sends.
const stripeWindow = 5 * time.Minute

// DefaultSendGridWindow is how far the time of SendGrid's signature may be from ours, either way. SendGrid does not say whether it
// signs anew when it sends again.
const DefaultSendGridWindow = 10 * time.Minute

// verifier tells whether a provider sent this. The error is one of those below.
type verifier interface {
	// precheck refuses what cannot be right whatever the body is, so that nobody makes us read a body for nothing.
	precheck(h http.Header, now time.Time) error
	verify(h http.Header, body []byte, now time.Time) error
}

// Why a signature is not believed.
var (
	errUnsigned   = errors.New("unsigned")
	errBadForm    = errors.New("malformed")
	errStale      = errors.New("stale") // or from the future
	errWrongSigns = errors.New("mismatch")
)

var stripeSecretShape = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]{8,}$`)

// CheckStripeWebhookSecret says what is wrong with a secret, without repeating it.
func CheckStripeWebhookSecret(secret string) error {
	if !stripeSecretShape.MatchString(secret) {
		return errors.New("a webhook secret must be whsec_ and at least 8 letters or digits, as Stripe shows it for the endpoint")
	}
	return nil
}

// stripeSecrets are the secrets of an endpoint: several while one replaces another, or in several accounts.
// https://docs.stripe.com/webhooks#verify-manually
type stripeSecrets []string

func (s stripeSecrets) precheck(h http.Header, now time.Time) error {
	header, err := single(h, "Stripe-Signature")
	if err != nil {
		return err
	}
	stamp := ""
	for part := range strings.SplitSeq(header, ",") {
		if text, ok := strings.CutPrefix(part, "t="); ok {
			if stamp != "" {
				return errBadForm
			}
			stamp = text
		}
	}
	return inWindow(stamp, now, stripeWindow)
}

// verify lets the SDK check the signature alone, because its parser refuses events of forms that it does not know.
func (s stripeSecrets) verify(h http.Header, body []byte, now time.Time) error {
	if err := s.precheck(h, now); err != nil {
		return err
	}
	for _, secret := range s {
		if webhook.ValidatePayloadIgnoringTolerance(body, h.Get("Stripe-Signature"), secret) == nil {
			return nil
		}
	}
	return errWrongSigns
}

// ParseSendGridWebhookKey reads a verification key as SendGrid shows it: base64 of a DER public key. SendGrid's are
// ECDSA keys on P-256; any other is refused.
func ParseSendGridWebhookKey(text string) (*ecdsa.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("a verification key must be base64, as SendGrid shows it")
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("a verification key must be a public key in DER form, as SendGrid shows it")
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("a verification key must be an ECDSA key on the curve P-256; this is one of another kind")
	}
	return key, nil
}

// sendGridKeys are the keys of the event webhooks: several while one replaces another.
// https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
type sendGridKeys struct {
	keys   []*ecdsa.PublicKey
	window time.Duration
}

const (
	sendGridSignature = "X-Twilio-Email-Event-Webhook-Signature"
	sendGridTimestamp = "X-Twilio-Email-Event-Webhook-Timestamp"
)

func (s sendGridKeys) precheck(h http.Header, now time.Time) error {
	if _, err := single(h, sendGridSignature); err != nil {
		return err
	}
	stamp, err := single(h, sendGridTimestamp)
	if err != nil {
		return err
	}
	return inWindow(stamp, now, s.window)
}

func (s sendGridKeys) verify(h http.Header, body []byte, now time.Time) error {
	if err := s.precheck(h, now); err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(h.Get(sendGridSignature))
	if err != nil {
		return errBadForm
	}
	hash := sha256.New()
	hash.Write([]byte(h.Get(sendGridTimestamp)))
	hash.Write(body)
	sum := hash.Sum(nil)
	for _, key := range s.keys {
		if ecdsa.VerifyASN1(key, sum, signature) {
			return nil
		}
	}
	return errWrongSigns
}

// single returns a header that must be there once.
func single(h http.Header, name string) (string, error) {
	switch values := h.Values(name); len(values) {
	case 0:
		return "", errUnsigned
	case 1:
		return values[0], nil
	default:
		return "", errBadForm
	}
}

// inWindow checks a time in seconds, written in plain digits.
func inWindow(stamp string, now time.Time, window time.Duration) error {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp || seconds < 0 || seconds >= 1<<36 {
		return errBadForm
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > window {
		return errStale
	}
	return nil
}

// verifiers makes the two providers' verifiers; nil where nothing is configured.
func verifiers(c Config) (stripe, sendGrid verifier, err error) {
	for _, secret := range c.StripeWebhookSecrets {
		if err := CheckStripeWebhookSecret(secret); err != nil {
			return nil, nil, fmt.Errorf("stripe: %w", err)
		}
	}
	if len(c.StripeWebhookSecrets) > 0 {
		stripe = stripeSecrets(c.StripeWebhookSecrets)
	}
	if c.SendGridWebhookWindow < 0 {
		return nil, nil, errors.New("sendgrid: the window of time is negative")
	}
	s := sendGridKeys{window: orDefault(c.SendGridWebhookWindow, DefaultSendGridWindow)}
	for _, text := range c.SendGridWebhookKeys {
		key, err := ParseSendGridWebhookKey(text)
		if err != nil {
			return nil, nil, fmt.Errorf("sendgrid: %w", err)
		}
		s.keys = append(s.keys, key)
	}
	if len(s.keys) > 0 {
		sendGrid = s
	}
	return stripe, sendGrid, nil
}
