package stripe_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

// Attempts that an earlier release stored are sent again as they are, but a later release must not silently change what
// it makes of the same charge either.
func TestEncodeGolden(t *testing.T) {
	t.Parallel()
	g := gatewayTo(t, "http://127.0.0.1:1")
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const id, key = "0190a0a0-0000-7000-8000-000000000001", "0190a0a0-0000-7000-8000-000000000002"
	const ours = "metadata[oncepay_charge]=" + id + "&metadata[oncepay_key]=" + key
	for name, tt := range map[string]struct {
		request charges.Request
		want    string
	}{
		"least": {
			charges.Request{Amount: 500, Currency: "jpy", PaymentMethod: "pm_1"},
			"amount=500&automatic_payment_methods[allow_redirects]=never&automatic_payment_methods[enabled]=true&confirm=true&currency=jpy&" + ours +
				"&payment_method=pm_1",
		},
		"most": {
			charges.Request{
				Amount: 12340, Currency: "kwd", PaymentMethod: "pm_1", Customer: "cus_1", SetupFutureUsage: "off_session",
				ReturnURL: "https://shop.example/paid?a=1&b=2", ReceiptEmail: "buyer@example.com", Description: "Tea & cake +1 =\n100% ☕",
				StatementDescriptorSuffix: "ORDER 1", CaptureMethod: "manual", Reference: "order-1", SendBefore: &until,
				Metadata: map[string]string{"b": "2", "a": "1", "oncf": "é", "with space": "&=+"},
			},
			"amount=12340&automatic_payment_methods[enabled]=true&capture_method=manual&confirm=true&currency=kwd&customer=cus_1" +
				"&description=Tea+%26+cake+%2B1+%3D%0A100%25+%E2%98%95&metadata[a]=1&metadata[b]=2" +
				"&" + ours + "&metadata[oncf]=%C3%A9&metadata[with+space]=%26%3D%2B" +
				"&payment_method=pm_1&return_url=https%3A%2F%2Fshop.example%2Fpaid%3Fa%3D1%26b%3D2&setup_future_usage=off_session&statement_descriptor_suffix=ORDER+1",
		},
		"off session": {
			charges.Request{Amount: 1, Currency: "usd", PaymentMethod: "pm_1", OffSession: true, CaptureMethod: "automatic"},
			"amount=1&automatic_payment_methods[allow_redirects]=never&automatic_payment_methods[enabled]=true&capture_method=automatic&confirm=true&currency=usd&" +
				ours + "&payment_method=pm_1&off_session=true",
		},
	} {
		c := charges.Charge{ID: uuid.MustParse(id), IdempotencyKey: uuid.MustParse(key), Request: tt.request}
		for range 20 { // maps have no order of their own
			got, err := g.Encode(c)
			if err != nil || got != tt.want {
				t.Fatalf("%s: %v, got\n%s\nwant\n%s", name, err, got, tt.want)
			}
		}
		// The caller, its address and our own names for things are not Stripe's business, nor is the time.
		for _, absent := range []string{"buyer", "receipt_email", "order-1", "2030"} {
			if got, _ := g.Encode(c); strings.Contains(got, absent) {
				t.Errorf("%s: %q is in %s", name, absent, got)
			}
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	g := gatewayTo(t, "http://127.0.0.1:1")
	for name, change := range map[string]func(*charges.Charge){
		"no id":           func(c *charges.Charge) { c.ID = uuid.Nil },
		"no key":          func(c *charges.Charge) { c.IdempotencyKey = uuid.Nil },
		"no amount":       func(c *charges.Charge) { c.Amount = 0 },
		"no currency":     func(c *charges.Charge) { c.Currency = "" },
		"no method":       func(c *charges.Charge) { c.PaymentMethod = "" },
		"another's key":   func(c *charges.Charge) { c.Metadata = map[string]string{"oncepay_key": uuid.NewString()} },
		"another's owner": func(c *charges.Charge) { c.Metadata = map[string]string{"oncepay_charge": "x"} },
	} {
		c := charge("pm_card_visa")
		change(&c)
		if got, err := g.Encode(c); err == nil {
			t.Errorf("%s: encoded as %s", name, got)
		}
	}
}

// I2: the stored bytes arrive as they are, under the key as it is, whatever order their parameters have.
func TestSendsStoredBytes(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	body := make(chan string, 1)
	g, err := stripe.New(stripe.Config{SecretKey: secretKey, BaseURL: address, Wrap: func(next http.RoundTripper) http.RoundTripper {
		return tap{next, body}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	c := charge("pm_card_visa")
	c.Metadata = map[string]string{}
	for i := range 48 {
		c.Metadata[fmt.Sprintf("key %d é", i)] = strings.Repeat("&=+ ☕", 100)
	}
	a := attempt(t, g, c)
	pairs := strings.Split(a.Request, "&")
	pairs[0], pairs[len(pairs)-1] = pairs[len(pairs)-1], pairs[0]
	a.Request = strings.Join(pairs, "&")
	p, _, err := send(t, g, a)
	if err != nil || p.Status != "succeeded" {
		t.Fatalf("got %+v, %v", p, err)
	}
	if got := <-body; got != a.Request {
		t.Fatalf("sent\n%s\nstored\n%s", got, a.Request)
	}
	got := sb.Ledger().PaymentIntents[0]
	if got.IdempotencyKey != a.ProviderKey || len(got.Metadata) != 50 {
		t.Fatalf("kept under %q with %d metadata", got.IdempotencyKey, len(got.Metadata))
	}
}

// tap tells the body of each request.
type tap struct {
	next http.RoundTripper
	body chan<- string
}

func (p tap) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	p.body <- string(body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	return p.next.RoundTrip(req)
}

func TestSendRefusesWhatWouldChangeOnTheWay(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	good := attempt(t, g, charge("pm_card_visa"))
	for name, change := range map[string]func(*charges.Attempt){
		"no key":                 func(a *charges.Attempt) { a.ProviderKey = "" },
		"key that is trimmed":    func(a *charges.Attempt) { a.ProviderKey = " k" },
		"key that is too long":   func(a *charges.Attempt) { a.ProviderKey = strings.Repeat("k", 256) },
		"another mode's":         func(a *charges.Attempt) { a.Account.Livemode = true },
		"no request":             func(a *charges.Attempt) { a.Request = "" },
		"not a form":             func(a *charges.Attempt) { a.Request += "&x=%zz" },
		"other escapes":          func(a *charges.Attempt) { a.Request += "&description=a%20b" },
		"two amounts":            func(a *charges.Attempt) { a.Request += "&amount=1" },
		"no key in the metadata": func(a *charges.Attempt) { a.Request = strings.ReplaceAll(a.Request, "oncepay_key", "x") },
	} {
		a := good
		change(&a)
		if _, reply, err := send(t, g, a); !errors.Is(err, transport.ErrNotSent) || reply != (stripe.Reply{}) {
			t.Errorf("%s: %+v, %v", name, reply, err)
		}
	}
	if n := len(sb.Ledger().Requests); n != 0 {
		t.Fatalf("%d requests arrived", n)
	}
}

func TestNewChecksItsSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []stripe.Config{
		{}, {SecretKey: "pk_test_s3cr3t"}, {SecretKey: "sk_test_"}, {SecretKey: "sk_s3cr3t"}, {SecretKey: " sk_test_s3cr3t"},
		{SecretKey: "sk_test_s3cr3t\n"}, {SecretKey: secretKey, BaseURL: "api.stripe.com"}, {SecretKey: secretKey, BaseURL: "ftp://x"},
		{SecretKey: secretKey, BaseURL: "https://user:s3cr3t@x"}, {SecretKey: "sk_live_s3cr3t", BaseURL: "http://x"},
	} {
		g, err := stripe.New(c)
		if err == nil {
			t.Errorf("%+v was accepted", c)
			g.Close()
		}
		noSecrets(t, err)
	}
	for key, live := range map[string]bool{"sk_test_a": false, "rk_test_a": false, "sk_live_a": true, "rk_live_a_1": true} {
		g, err := stripe.New(stripe.Config{SecretKey: key})
		if err != nil || g.Livemode() != live {
			t.Errorf("%s: livemode %t, %v", key, g.Livemode(), err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	c := charges.Charge{ID: uuid.New(), IdempotencyKey: uuid.New(), Request: charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa",
		CaptureMethod: charges.CaptureAutomatic, Description: "Order 4711", Metadata: map[string]string{"cart": "c-4711", "channel": "web"}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (*stripe.Gateway)(nil).Encode(c); err != nil {
			b.Fatal(err)
		}
	}
}
