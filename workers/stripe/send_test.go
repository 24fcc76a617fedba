package stripe_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPaymentsOfEveryKind(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	for _, tt := range []struct {
		method, status string
		change         func(*charges.Charge)
	}{
		{"pm_card_visa", "succeeded", nil},
		{"pm_card_visa", "succeeded", func(c *charges.Charge) { c.Amount, c.Currency = 500, "jpy" }},
		{"pm_card_visa", "succeeded", func(c *charges.Charge) { c.OffSession, c.Customer = true, "cus_1" }},
		{"pm_card_visa", "requires_capture", func(c *charges.Charge) { c.CaptureMethod = charges.CaptureManual }},
		{"pm_card_authenticationRequired", "requires_action", nil},
		{"pm_card_authenticationRequired", "requires_action", func(c *charges.Charge) { c.ReturnURL = "https://shop.example/paid" }},
		{"pm_usBankAccount_success", "processing", nil},
	} {
		c := charge(tt.method)
		if tt.change != nil {
			tt.change(&c)
		}
		p, reply, err := send(t, g, attempt(t, g, c))
		if err != nil {
			t.Fatalf("%s: %v", tt.method, err)
		}
		kept := sb.Ledger().PaymentIntents
		want := charges.Payment{ID: kept[len(kept)-1].ID, Status: tt.status, Amount: c.Amount, Currency: c.Currency, Key: c.IdempotencyKey.String()}
		if tt.status == "succeeded" {
			want.Received = c.Amount
		}
		if p.Payment != want {
			t.Errorf("%s: got %+v, want %+v", tt.method, p.Payment, want)
		}
		if acts := tt.status == "requires_action"; acts != strings.HasPrefix(p.ClientSecret, p.ID+"_secret_") || !acts && p.ClientSecret != "" {
			t.Errorf("%s: a client secret is taken along: %v", tt.method, p.ClientSecret != "")
		}
		if p.AsOf.IsZero() {
			t.Errorf("%s: the news have no date", tt.method)
		}
		if reply.HTTPStatus != 200 || !strings.HasPrefix(reply.RequestID, "req_") || reply.Replayed {
			t.Errorf("%s: reply %+v", tt.method, reply)
		}
	}
}

// I2: the same attempt again is the same payment, and says so.
func TestResendIsReplayed(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	a := attempt(t, g, charge("pm_card_visa"))
	first, _, err := send(t, g, a)
	if err != nil {
		t.Fatal(err)
	}
	again, reply, err := send(t, g, a)
	if err != nil || again.Payment != first.Payment || again.AsOf.After(first.AsOf) || !reply.Replayed {
		t.Fatalf("got %+v, %+v, %v; want %+v", again, reply, err, first)
	}
	if n := len(sb.Ledger().PaymentIntents); n != 1 {
		t.Fatalf("%d payments", n)
	}
}

func TestConcurrentSends(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	var all sync.WaitGroup
	for range 32 {
		a := attempt(t, g, charge("pm_card_visa"))
		all.Go(func() {
			p, _, err := send(t, g, a)
			if _, known := g.Clock(); err != nil || p.Key != a.ProviderKey || !known {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	all.Wait()
	if n := len(sb.Ledger().PaymentIntents); n != 32 {
		t.Fatalf("%d payments", n)
	}
}

func TestDeclines(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	for method, want := range map[string]struct {
		code, decline string
		advice        charges.Advice
	}{
		"pm_card_chargeDeclined":                  {"card_declined", "generic_decline", charges.NewPaymentMethod},
		"pm_card_chargeDeclinedInsufficientFunds": {"card_declined", "insufficient_funds", charges.RetryLater},
		"pm_card_chargeDeclinedStolenCard":        {"card_declined", "stolen_card", charges.DoNotRetry},
		"pm_card_chargeDeclinedExpiredCard":       {"expired_card", "expired_card", charges.NewPaymentMethod},
		"pm_card_chargeDeclinedProcessingError":   {"processing_error", "processing_error", charges.RetryLater},
		"pm_sandbox_declined_do_not_try_again":    {"card_declined", "do_not_try_again", charges.DoNotRetry},
		"pm_sandbox_declined_never_heard_of":      {"card_declined", "never_heard_of", charges.NewPaymentMethod},
	} {
		c := charge(method)
		_, reply, err := send(t, g, attempt(t, g, c))
		e := asError(t, err)
		if e.Type != "card_error" || e.Code != want.code || e.DeclineCode != want.decline || e.HTTPStatus != 402 ||
			e.RequestID == "" || e.RequestID != reply.RequestID || e.Message == "" {
			t.Errorf("%s: %+v", method, e)
		}
		if e.Payment == nil || e.Payment.Status != "requires_payment_method" || e.Payment.Key != c.IdempotencyKey.String() {
			t.Fatalf("%s: payment %+v", method, e.Payment)
		}
		for where, f := range map[string]*charges.Failure{"answer": stripe.Failure(e), "payment": e.Payment.Failure} {
			if f.Code != want.code || f.DeclineCode == nil || *f.DeclineCode != want.decline || f.Advice != want.advice || f.Message == nil {
				t.Errorf("%s: the %s's failure is %+v", method, where, f)
			}
		}
	}
	c := charge("pm_card_authenticationRequired")
	c.OffSession = true
	_, _, err := send(t, g, attempt(t, g, c))
	if e := asError(t, err); e.DeclineCode != "authentication_required" || stripe.Failure(e).Advice != charges.NewPaymentMethod {
		t.Errorf("off session: %+v", e)
	}
}

func TestErrorsThatStripeAnswers(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	for _, tt := range []struct {
		fault sandbox.Fault
		want  stripe.Error
	}{
		{sandbox.Fault{Kind: sandbox.Status, Status: 401}, stripe.Error{HTTPStatus: 401, Type: "invalid_request_error"}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 403}, stripe.Error{HTTPStatus: 403, Type: "invalid_request_error"}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 409, RetryAfter: 2}, stripe.Error{HTTPStatus: 409, Type: "invalid_request_error", Code: "idempotency_key_in_use", RetryAfter: 2 * time.Second}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 429, RetryAfter: 30}, stripe.Error{HTTPStatus: 429, Type: "invalid_request_error", Code: "rate_limit", RetryAfter: 30 * time.Second}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 429, Code: "lock_timeout"}, stripe.Error{HTTPStatus: 429, Type: "invalid_request_error", Code: "lock_timeout"}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 400, Code: "amount_too_small"}, stripe.Error{HTTPStatus: 400, Type: "invalid_request_error", Code: "amount_too_small"}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 503}, stripe.Error{HTTPStatus: 503, Type: "api_error"}},
		{sandbox.Fault{Kind: sandbox.Status, Status: 402, AdviceCode: "do_not_try_again"}, stripe.Error{HTTPStatus: 402, Type: "card_error", Code: "card_declined", DeclineCode: "generic_decline", AdviceCode: "do_not_try_again"}},
	} {
		fail(t, sb, tt.fault)
		_, _, err := send(t, g, attempt(t, g, charge("pm_card_visa")))
		got := *asError(t, err)
		if got.RequestID == "" || got.Message == "" {
			t.Errorf("no request id or message: %+v", got)
		}
		got.RequestID, got.Message = "", ""
		if got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
	if n := len(sb.Ledger().PaymentIntents); n != 0 {
		t.Fatalf("%d payments", n)
	}
}

func TestStoredFailureIsReplayed(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	a := attempt(t, g, charge("pm_card_visa"))
	fail(t, sb, sandbox.Fault{Method: "POST", Kind: sandbox.StoredStatus, Status: 500, Done: true})
	_, _, err := send(t, g, a)
	if e := asError(t, err); e.HTTPStatus != 500 || e.Replayed {
		t.Fatalf("first: %+v", e)
	}
	_, reply, err := send(t, g, a)
	if e := asError(t, err); e.HTTPStatus != 500 || !e.Replayed || !reply.Replayed {
		t.Fatalf("again: %+v", e)
	}
}

func TestKeyReusedForAnotherRequest(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	a := attempt(t, g, charge("pm_card_visa"))
	if _, _, err := send(t, g, a); err != nil {
		t.Fatal(err)
	}
	a.Request = strings.Replace(a.Request, "amount=1099", "amount=1100", 1)
	_, _, err := send(t, g, a)
	if e := asError(t, err); e.Type != "idempotency_error" || e.HTTPStatus != 400 {
		t.Fatalf("got %+v", e)
	}
}

// I2: whatever becomes of the answer, the call was made once, and its error tells that it may have been carried out.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind sandbox.Fault
		made int
		http int
	}{
		{sandbox.Fault{Kind: sandbox.DropBefore}, 0, 0},
		{sandbox.Fault{Kind: sandbox.DropAfter}, 1, 0},
		{sandbox.Fault{Kind: sandbox.Truncate}, 1, 200},
		{sandbox.Fault{Kind: sandbox.HTML}, 1, 200},
	} {
		g, sb := start(t)
		// A kept-alive connection is what net/http would send a second time on.
		if _, _, err := g.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		tt.kind.Path = "/v1/payment_intents"
		fail(t, sb, tt.kind)
		a := attempt(t, g, charge("pm_card_visa"))
		_, reply, err := send(t, g, a)
		if !errors.Is(err, transport.ErrUnknown) || errors.Is(err, transport.ErrNotSent) || reply.HTTPStatus != tt.http {
			t.Errorf("%s: %+v, %v", tt.kind.Kind, reply, err)
		}
		posts := 0
		for _, r := range sb.Ledger().Requests {
			if r.Method == http.MethodPost {
				posts++
			}
		}
		if n := len(sb.Ledger().PaymentIntents); posts != 1 || n != tt.made {
			t.Errorf("%s: %d requests made %d payments, want 1 and %d", tt.kind.Kind, posts, n, tt.made)
		}
		// The same attempt again settles it.
		if _, _, err := send(t, g, a); err != nil || len(sb.Ledger().PaymentIntents) != 1 {
			t.Errorf("%s: sent again: %v, %d payments", tt.kind.Kind, err, len(sb.Ledger().PaymentIntents))
		}
	}
}

func TestNoAnswerInTime(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	g, err := stripe.New(stripe.Config{SecretKey: secretKey, BaseURL: address, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	fail(t, sb, sandbox.Fault{Kind: sandbox.Delay, DelayMS: 60_000})
	_, _, err = send(t, g, attempt(t, g, charge("pm_card_visa")))
	if !errors.Is(err, transport.ErrUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestNothingSent(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := gatewayTo(t, "http://"+closed.Addr().String())
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	_, reply, err := send(t, g, attempt(t, g, charge("pm_card_visa")))
	if !errors.Is(err, transport.ErrNotSent) || reply != (stripe.Reply{}) {
		t.Errorf("connection refused: %+v, %v", reply, err)
	}

	g, sb := start(t)
	a := attempt(t, g, charge("pm_card_visa"))
	for name, until := range map[string]time.Time{"too late": time.Now().Add(-time.Millisecond), "at any time": {}} {
		ctx := t.Context()
		if !until.IsZero() {
			ctx = transport.WithNotAfter(ctx, until)
		}
		if _, _, err := g.Send(ctx, a); !errors.Is(err, transport.ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(sb.Ledger().Requests); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// The SDK logs by default, and what it logs quotes answers.
func TestNothingIsPrinted(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	stderr, stdout := os.Stderr, os.Stdout
	os.Stderr, os.Stdout = file, file
	defer func() { os.Stderr, os.Stdout = stderr, stdout }()
	g, sb := start(t)
	for _, f := range []sandbox.Fault{{Kind: sandbox.DropAfter}, {Kind: sandbox.HTML}, {Kind: sandbox.Truncate}, {Kind: sandbox.Status, Status: 401}} {
		fail(t, sb, f)
		if _, _, err := send(t, g, attempt(t, g, charge("pm_card_visa"))); err == nil {
			t.Errorf("%s did nothing", f.Kind)
		}
	}
	if _, _, err := send(t, g, attempt(t, g, charge("pm_card_chargeDeclined"))); err == nil {
		t.Error("not declined")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file.Name()); err != nil || len(got) != 0 {
		t.Fatalf("printed %q, %v", got, err)
	}
}

func asError(t *testing.T, err error) *stripe.Error {
	t.Helper()
	e := (*stripe.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an error of Stripe's", err)
	}
	if errors.Is(err, transport.ErrUnknown) || errors.Is(err, transport.ErrNotSent) {
		t.Fatalf("%v is two things at once", err)
	}
	return e
}

// intent is the JSON of a payment that agrees with the charge.
func intent(c charges.Charge) string {
	return fmt.Sprintf(`{"id":"pi_1","object":"payment_intent","amount":%d,"currency":%q,"livemode":false,"status":"succeeded",
		"client_secret":"pi_1_secret_x","metadata":{"oncepay_key":%q}}`, c.Amount, c.Currency, c.IdempotencyKey)
}

var anotherKey = uuid.MustParse("0190a0a0-0000-7000-8000-000000000009")
