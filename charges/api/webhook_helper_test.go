package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
)

const stripeSecret = "whsec_1234567890"

// mailKey signs as SendGrid does.
var mailKey = func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}()

func publicKey(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

func hooked(c *api.Config) {
	c.StripeWebhookSecrets = []string{stripeSecret}
	c.SendGridWebhookKeys = []string{publicKey(mailKey)}
}

// tell posts an event as Stripe does.
func (i *instance) tell(t *testing.T, event []byte) reply {
	t.Helper()
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: event, Secret: stripeSecret})
	return i.send(t, "", http.MethodPost, "/webhooks/stripe", string(event), "Stripe-Signature", signed.Header, "Content-Type", "application/json; charset=utf-8")
}

// tellMail posts a batch as SendGrid does.
func (i *instance) tellMail(t *testing.T, events ...any) reply {
	t.Helper()
	body := append(asJSON(t, events), '\r', '\n')
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	return i.send(t, "", http.MethodPost, "/webhooks/sendgrid", string(body),
		"X-Twilio-Email-Event-Webhook-Signature", mailSignature(t, mailKey, stamp, string(body)), "X-Twilio-Email-Event-Webhook-Timestamp", stamp)
}

func mailSignature(t *testing.T, key *ecdsa.PrivateKey, stamp, body string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(stamp + body))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (r reply) wantReceived(t *testing.T) {
	t.Helper()
	if r.status != http.StatusOK || r.body != `{"received":true}` {
		t.Errorf("answered %d %s", r.status, r.body)
	}
}

// object is a JSON object that tests change.
type object = map[string]any

func paymentOf(c charge) string { return "pi_" + strings.ReplaceAll(c.ID, "-", "") }

// paymentEvent is Stripe's event about a charge's payment, in the version of the SDK that talks to Stripe.
func paymentEvent(c charge, status string, change func(event, payment object)) []byte {
	payment := object{
		"id": paymentOf(c), "object": "payment_intent", "amount": c.Amount, "currency": "usd", "livemode": false, "status": status,
		"client_secret": "pi_x_secret_hunter2", "metadata": object{"oncepay_key": c.IdempotencyKey, "oncepay_charge": c.ID},
	}
	event := object{
		"id": "evt_" + uuid.NewString(), "object": "event", "api_version": stripego.APIVersion, "type": "payment_intent." + status,
		"created": time.Now().Unix(), "livemode": false, "data": object{"object": payment},
	}
	if change != nil {
		change(event, payment)
	}
	return mustJSON(event)
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// sent accepts a charge whose attempt is on record and whose answer has not come.
func (d *deployment) sent(t *testing.T, body string) charge {
	t.Helper()
	c := d.accept(t, alice, newKey(), body)
	d.begin(t, c)
	return c
}

func (d *deployment) begin(t *testing.T, c charge) {
	t.Helper()
	here := charges.Here{Account: charges.Account{ID: "acct_home"}, Clock: time.Now(), Fresh: true,
		Encode: func(charges.Charge) (string, error) { return "amount=1099", nil }}
	begun, err := d.service.Begin(t.Context(), uuid.MustParse(c.ID), here)
	if err != nil || begun.Action != charges.Send {
		t.Fatalf("begin: %+v %v", begun, err)
	}
}

// event reads the one event that was stored under an id, or the only one there is.
func (d *deployment) event(t *testing.T) charges.ProviderEvent {
	t.Helper()
	list, _, err := d.service.ProviderEvents(t.Context(), charges.EventFilter{Limit: 2})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d events stored, want 1: %+v, %v", len(list), list, err)
	}
	return list[0]
}

func (d *deployment) wantEvent(t *testing.T, status charges.EventStatus, note charges.EventNote) {
	t.Helper()
	if e := d.event(t); e.Status != status || e.Note != note {
		t.Errorf("the event is %s %q, want %s %q", e.Status, e.Note, status, note)
	}
}

func (d *deployment) wantStatus(t *testing.T, c charge, want string) {
	t.Helper()
	if got := d.get(t, alice, "/charges/"+c.ID).charge(t).Status; got != want {
		t.Errorf("the charge is %s, want %s", got, want)
	}
}

// applyPending makes all waiting events due and applies them.
func (d *deployment) applyPending(t *testing.T) {
	t.Helper()
	d.exec(t, `UPDATE webhook_event SET due_at = now() - interval '1 second' WHERE status = 'pending'`)
	if _, err := d.service.ApplyPending(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const mailedBody = `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","receipt_email":"buyer@example.com"}`
