package sandbox_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/oncepay/oncepay/workers/sandbox"
)

const secret = "whsec_test"

// receiver is a customer's server: it keeps every request, and answers it with what status says.
type receiver struct {
	url    string
	status func(nth int) int // of the nth request, from 1; it may block

	mu       sync.Mutex
	requests []received
}

type received struct {
	header http.Header
	body   []byte
}

// receive starts a receiver that answers 200, or what status says.
func receive(t *testing.T, status func(nth int) int) *receiver {
	t.Helper()
	r := &receiver{status: status}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sandbox was closed meanwhile
		}
		r.mu.Lock()
		r.requests = append(r.requests, received{req.Header, body})
		n := len(r.requests)
		r.mu.Unlock()
		if r.status != nil {
			w.WriteHeader(r.status(n))
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// event verifies a request of Stripe with Stripe's own library.
func (r received) event(t *testing.T) stripe.Event {
	t.Helper()
	e, err := webhook.ConstructEvent(r.body, r.header.Get("Stripe-Signature"), secret)
	if err != nil {
		t.Fatalf("not an event: %v\n%s", err, r.body)
	}
	return e
}

// batch verifies a request of SendGrid and returns its events.
func (r received) batch(t *testing.T, publicKey string) []map[string]any {
	t.Helper()
	if !r.signedBy(t, publicKey) {
		t.Fatalf("the signature of %s is wrong", r.body)
	}
	var events []map[string]any
	if err := json.Unmarshal(r.body, &events); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return events
}

func (r received) signedBy(t *testing.T, publicKey string) bool {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(publicKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(r.header.Get("X-Twilio-Email-Event-Webhook-Signature"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append([]byte(r.header.Get("X-Twilio-Email-Event-Webhook-Timestamp")), r.body...))
	return ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), sum[:], signature)
}

// await waits until done, which is asked again and again.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// settled waits until no event is pending and returns all.
func settled(t *testing.T, sb *sandbox.Sandbox) []sandbox.Event {
	t.Helper()
	await(t, "no event is pending", func() bool {
		return !slices.ContainsFunc(sb.Events(), func(e sandbox.Event) bool { return e.State == sandbox.Pending })
	})
	return sb.Events()
}

// types are those of the events, in order.
func types(events []sandbox.Event) []string {
	var types []string
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

// toStripe sends the sandbox's events to the receiver.
func toStripe(t *testing.T, sb *sandbox.Sandbox, r *receiver) {
	t.Helper()
	if err := sb.SetWebhooks(sandbox.Webhooks{StripeURL: r.url, StripeSecret: secret}); err != nil {
		t.Fatal(err)
	}
}
