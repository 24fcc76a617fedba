package stripetest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// Courier sends Stripe's events: one to a request, as indented JSON, signed as
// https://docs.stripe.com/webhooks#verify-manually has it. Its secrets begin with whsec_.
var Courier frame.Courier = courier{}

type courier struct{}

func (courier) Body(events []json.RawMessage) []byte {
	var body bytes.Buffer
	for _, event := range events { // there is one
		if err := json.Indent(&body, event, "", "  "); err != nil {
			panic(fmt.Sprintf("stripetest: indent event: %v", err)) // events are what this package encoded
		}
	}
	return body.Bytes()
}

func (courier) Header() http.Header {
	return http.Header{"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {"Stripe/1.0 (+https://stripe.com/docs/webhooks)"}}
}

// Sign makes one v1 for each secret, in their order, as Stripe does while an old secret is still good.
func (courier) Sign(body []byte, at time.Time, secrets ...string) (http.Header, error) {
	value := fmt.Sprintf("t=%d", at.Unix())
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
		value += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return http.Header{"Stripe-Signature": {value}}, nil
}

const secretPrefix = "whsec_"

func (courier) NewSecret() string { return newID(secretPrefix) }

func (courier) CheckSecret(secret string) error {
	if rest, ok := strings.CutPrefix(secret, secretPrefix); !ok || rest == "" || strings.ContainsAny(rest, " \t\r\n") {
		return errors.New("a webhook secret begins with " + secretPrefix)
	}
	return nil
}

func (courier) IDMember() string { return "id" }
func (courier) NewID() string    { return newID("evt_") }
