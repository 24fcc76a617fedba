package stripe_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

const secretKey = "sk_test_shop_s3cr3t"

// gatewayTo is a gateway to whatever is at the address.
func gatewayTo(t *testing.T, address string) *stripe.Gateway {
	t.Helper()
	g, err := stripe.New(stripe.Config{SecretKey: secretKey, BaseURL: address, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// serve is a simulated Stripe and its address.
func serve(t *testing.T) (string, *sandbox.Sandbox) {
	t.Helper()
	sb, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sb)
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL, sb
}

func start(t *testing.T) (*stripe.Gateway, *sandbox.Sandbox) {
	t.Helper()
	address, sb := serve(t)
	return gatewayTo(t, address), sb
}

// charge is a new one of 10.99 USD.
func charge(method string) charges.Charge {
	return charges.Charge{
		ID: uuid.New(), IdempotencyKey: uuid.New(),
		Request: charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: method, CaptureMethod: charges.CaptureAutomatic},
	}
}

// attempt is the first at a charge.
func attempt(t *testing.T, g *stripe.Gateway, c charges.Charge) charges.Attempt {
	t.Helper()
	request, err := g.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	return charges.Attempt{ChargeID: c.ID, Number: 1, ProviderKey: c.IdempotencyKey.String(), Account: charges.Account{ID: "acct_shop"}, Request: request}
}

// send makes the attempt's call, which may leave for another minute, and holds its error against what may never be in one.
func send(t *testing.T, g *stripe.Gateway, a charges.Attempt) (charges.News, stripe.Reply, error) {
	t.Helper()
	p, reply, err := g.Send(transport.WithNotAfter(t.Context(), time.Now().Add(time.Minute)), a)
	noSecrets(t, err)
	return p, reply, err
}

func noSecrets(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range []string{secretKey, "s3cr3t", "_secret_", "\x00", "\n"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error has %q in it: %s", secret, err)
		}
	}
	if len(err.Error()) > 4000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func fail(t *testing.T, sb *sandbox.Sandbox, f sandbox.Fault) {
	t.Helper()
	if err := sb.Fail(f); err != nil {
		t.Fatal(err)
	}
}

// answer is a Stripe that always says the same.
func answer(t *testing.T, status int, header map[string]string, body string) *stripe.Gateway {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return gatewayTo(t, server.URL)
}
