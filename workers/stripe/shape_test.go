package stripe_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
)

// mockVariable names the stripe-mock program, which knows Stripe's own OpenAPI description.
const mockVariable = "ONCEPAY_STRIPE_MOCK"

// Every shape of request that is ever made is one that Stripe's API description allows. The check is skipped where stripe-mock is not
// at hand, but not where it is and does not start.
func TestShapesAgainstStripeMock(t *testing.T) {
	t.Parallel()
	program := os.Getenv(mockVariable)
	if program == "" {
		t.Skip(mockVariable + " does not name a stripe-mock")
	}
	g, err := stripe.New(stripe.Config{SecretKey: "sk_test_mock", BaseURL: startMock(t, program)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)

	full := charges.Request{
		Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", Customer: "cus_1", SetupFutureUsage: charges.FutureUsageOffSession,
		ReturnURL: "https://shop.example/paid", ReceiptEmail: "buyer@example.com", Description: "Tea & ☕", StatementDescriptorSuffix: "ORDER 1",
		Metadata: map[string]string{}, CaptureMethod: charges.CaptureManual, Reference: "order-1",
	}
	for i := range 48 {
		full.Metadata[fmt.Sprintf("%-40d", i)] = strings.Repeat("é", 500)
	}
	for name, change := range map[string]func(*charges.Request){
		"least": func(r *charges.Request) {
			*r = charges.Request{Amount: 50, Currency: "usd", PaymentMethod: "pm_card_visa"}
		},
		"most":        func(r *charges.Request) { *r = full },
		"off session": func(r *charges.Request) { r.OffSession, r.Customer = true, "cus_1" },
		"on session":  func(r *charges.Request) { r.SetupFutureUsage = charges.FutureUsageOnSession },
		"manual":      func(r *charges.Request) { r.CaptureMethod = charges.CaptureManual },
		"automatic":   func(r *charges.Request) { r.CaptureMethod = charges.CaptureAutomatic },
		"return URL":  func(r *charges.Request) { r.ReturnURL = "myapp://paid" },
		"largest":     func(r *charges.Request) { r.Amount, r.Currency = 999_999_999_999, "idr" },
	} {
		c := charge("pm_card_visa")
		change(&c.Request)
		// Its answer is a fixture, which Send rightly does not believe: only that it took the request counts.
		if _, reply, err := send(t, g, attempt(t, g, c)); reply.HTTPStatus != 200 {
			t.Errorf("%s: %d, %v", name, reply.HTTPStatus, err)
		}
	}
	for _, err := range g.List(t.Context(), stripe.Query{From: time.Unix(1, 0), To: time.Unix(2, 0), Customer: "cus_1"}) {
		if err != nil {
			t.Errorf("list: %v", err)
		}
		break // the fixture claims to go on for ever
	}
	if _, err := g.Retrieve(t.Context(), "pi_1"); errors.As(err, new(*stripe.Error)) {
		t.Errorf("retrieve: %v", err)
	}
	if account, _, err := g.Probe(t.Context()); err != nil || account.ID == "" {
		t.Errorf("probe: %+v, %v", account, err)
	}

	// The checks above can fail: each of these is refused.
	for name, change := range map[string]string{
		"a parameter that is unknown":    "&a_new_parameter=1",
		"a value that is unknown":        "&capture_method=sometimes",
		"a value of another type":        "&setup_future_usage[a]=1",
		"an unknown value further in":    "&automatic_payment_methods[allow_redirects]=sometimes",
		"Stripe's own search parameters": "&query=1",
	} {
		c := charge("pm_card_visa")
		c.CaptureMethod, c.ReturnURL = "", "https://shop.example/paid"
		a := attempt(t, g, c)
		a.Request += change
		_, _, err := send(t, g, a)
		if e := (*stripe.Error)(nil); !errors.As(err, &e) || e.HTTPStatus != 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// startMock runs stripe-mock on ports that the system chooses, until the test ends.
func startMock(t *testing.T, program string) (address string) {
	t.Helper()
	mock := exec.Command(program, "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	out, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatalf("%s: %v", mockVariable, err)
	}
	t.Cleanup(func() {
		if err := mock.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = mock.Wait() // says that it was killed
	})
	hung := time.AfterFunc(time.Minute, func() { _ = mock.Process.Kill() })
	defer hung.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "Listening for HTTP at address: "); ok {
			go func() {
				for lines.Scan() { // keep its pipe empty
				}
			}()
			return "http://" + at
		}
	}
	t.Fatalf("%s ended or hung before it listened", mockVariable)
	return ""
}
