package stripetest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// shop is one merchant's view of a sandbox, through Stripe's own client library.
type shop struct {
	*client.API
	sb  *sandbox.Sandbox
	url string
}

func start(t *testing.T) shop {
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
	return shop{sb: sb, url: server.URL}.as("sk_test_shop")
}

// as is the same sandbox seen with another secret key.
func (s shop) as(key string) shop {
	s.API = client.New(key, stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(s.url),
		// A fresh connection each time: net/http itself would send a keyed POST again on a reused one.
		HTTPClient:        &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		MaxNetworkRetries: stripe.Int64(0),
		EnableTelemetry:   stripe.Bool(false),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	}))
	return s
}

// payment is a create-and-confirm of 1099 usd.
func payment(key, method string) *stripe.PaymentIntentParams {
	p := &stripe.PaymentIntentParams{
		Amount: stripe.Int64(1099), Currency: stripe.String("usd"), Confirm: stripe.Bool(true),
		PaymentMethod: stripe.String(method),
		AutomaticPaymentMethods: &stripe.PaymentIntentAutomaticPaymentMethodsParams{
			Enabled: stripe.Bool(true), AllowRedirects: stripe.String("never"),
		},
	}
	p.AddMetadata("oncepay_key", key)
	p.SetIdempotencyKey(key)
	return p
}

func (s shop) pay(t *testing.T, key string) *stripe.PaymentIntent {
	t.Helper()
	pi, err := s.PaymentIntents.New(payment(key, "pm_card_visa"))
	if err != nil {
		t.Fatalf("pay under %s: %v", key, err)
	}
	return pi
}

// refused asserts that err is Stripe's, with this status and code.
func refused(t *testing.T, err error, status int, code stripe.ErrorCode) *stripe.Error {
	t.Helper()
	var stripeErr *stripe.Error
	if !errors.As(err, &stripeErr) {
		t.Fatalf("got error %v, want one of Stripe's", err)
	}
	if stripeErr.HTTPStatusCode != status || stripeErr.Code != code {
		t.Fatalf("got %d %q (%s), want %d %q", stripeErr.HTTPStatusCode, stripeErr.Code, stripeErr.Msg, status, code)
	}
	return stripeErr
}

func (s shop) wantPayments(t *testing.T, n int) {
	t.Helper()
	if got := s.sb.Ledger().PaymentIntents; len(got) != n {
		t.Fatalf("the ledger has %d payments, want %d: %+v", len(got), n, got)
	}
}
