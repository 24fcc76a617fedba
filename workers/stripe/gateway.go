package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/oncepay/oncepay/workers/transport"
)

const intentsPath = "/v1/payment_intents"

// Config says how to reach Stripe.
type Config struct {
	SecretKey string        // sk_test_..., sk_live_..., rk_test_... or rk_live_...
	BaseURL   string        // empty: https://api.stripe.com. A live key goes over https only.
	Timeout   time.Duration // of each call; 0: transport.DefaultTimeout
	// Wrap, if not nil, is put around the one RoundTripper that makes every call: tests crash there.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Gateway makes calls to one Stripe account. It is safe for concurrent use.
type Gateway struct {
	secretKey string
	livemode  bool
	backend   stripego.Backend
	client    *http.Client
	clock     clock
}

var secretKeyShape = regexp.MustCompile(`^[sr]k_(test|live)_[A-Za-z0-9_]+$`)

// New makes a gateway; it calls nobody yet. Its errors never hold the key.
func New(c Config) (*Gateway, error) {
	shape := secretKeyShape.FindStringSubmatch(c.SecretKey)
	if shape == nil {
		return nil, errors.New("the Stripe secret key must begin with sk_test_, sk_live_, rk_test_ or rk_live_, followed by letters and digits")
	}
	live := shape[1] == "live"
	if c.BaseURL == "" {
		c.BaseURL = stripego.APIURL
	}
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil || base.RawQuery != "":
		return nil, errors.New("the address of Stripe's API must be a plain http or https URL")
	case live && base.Scheme != "https":
		return nil, errors.New("a live Stripe key is sent over https only")
	}
	client := transport.Client(transport.New(transport.Options{RequireKey: true, Timeout: c.Timeout}), c.Wrap)
	return &Gateway{
		secretKey: c.SecretKey, livemode: live, client: client,
		backend: stripego.GetBackendWithConfig(stripego.APIBackend, &stripego.BackendConfig{
			URL: stripego.String(strings.TrimSuffix(c.BaseURL, "/")), HTTPClient: client, MaxNetworkRetries: stripego.Int64(0),
			EnableTelemetry: stripego.Bool(false), LeveledLogger: &stripego.LeveledLogger{Level: stripego.LevelNull},
		}),
	}, nil
}

// Livemode tells whether the secret key moves real money.
func (g *Gateway) Livemode() bool { return g.livemode }

// Close closes the connections that wait for a next call.
func (g *Gateway) Close() { g.client.CloseIdleConnections() }

// Reply is what is known of an answer besides its content; zero if there was none.
type Reply struct {
	HTTPStatus int
	RequestID  string // Stripe's name for the request, for its support and its dashboard
	Replayed   bool   // the answer was stored under the key before
}

func (g *Gateway) get(ctx context.Context, path string, query *form.Values, into stripego.LastResponseSetter) (Reply, *transport.Answer, error) {
	return g.call(ctx, http.MethodGet, path, query, &stripego.Params{}, into)
}

// post makes a call that writes, and tells the time that Stripe had.
func (g *Gateway) post(ctx context.Context, path string, values *form.Values, params *stripego.Params, into stripego.LastResponseSetter) (Reply, time.Time, error) {
	reply, answer, err := g.call(ctx, http.MethodPost, path, values, params, into)
	return reply, answer.Date(), err
}

// call makes one call. Its error is an *Error, or wraps transport.ErrNotSent or transport.ErrUnknown.
func (g *Gateway) call(ctx context.Context, method, path string, values *form.Values, params *stripego.Params, into stripego.LastResponseSetter) (Reply, *transport.Answer, error) {
	ctx, answer := transport.Record(ctx)
	params.Context = ctx
	err := g.backend.CallRaw(method, path, g.secretKey, values, params, into)
	g.clock.observe(answer)
	reply := Reply{
		HTTPStatus: answer.Status,
		RequestID:  transport.Clean(answer.Header.Get("Request-Id")),
		Replayed:   answer.Header.Get("Idempotent-Replayed") == "true",
	}
	switch {
	case err != nil:
		err = g.callError(err, answer, reply)
	case answer.Status != http.StatusOK: // the SDK takes all below 400 for success
		err = unknown(fmt.Sprintf("HTTP %d is not an answer that Stripe gives", answer.Status))
	}
	return reply, answer, err
}
