package sendgrid_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const apiKey = "SG.s3cr3t"

func mailerTo(t *testing.T, c sendgrid.Config) *sendgrid.Mailer {
	t.Helper()
	if c.APIKey == "" {
		c.APIKey = apiKey
	}
	c.From = "Shop <receipts@example.com>"
	m, err := sendgrid.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

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

func receipt(to string) sendgrid.Mail {
	return sendgrid.Mail{To: to, Subject: "Your receipt", Text: "for " + to, HTML: "<p>for " + to + "</p>", Key: "key of " + to, Charge: "charge of " + to}
}

// send makes a call that may leave for another minute, and holds its error against what may never be in one.
func send(t *testing.T, m *sendgrid.Mailer, mail sendgrid.Mail) (string, error) {
	t.Helper()
	id, err := m.Send(transport.WithNotAfter(t.Context(), time.Now().Add(time.Minute)), mail)
	if err != nil {
		for _, secret := range []string{"s3cr3t", "buyer", "\x00", "\n"} {
			if strings.Contains(strings.ToLower(err.Error()), secret) {
				t.Errorf("the error has %q in it: %v", secret, err)
			}
		}
	}
	return id, err
}

func TestMailArrives(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	m := mailerTo(t, sendgrid.Config{BaseURL: address})
	id, err := send(t, m, receipt("buyer+tag@example.com"))
	if err != nil {
		t.Fatal(err)
	}
	got := sb.Ledger().Mails[0]
	want := receipt("buyer+tag@example.com")
	if got.ID != id || got.To != want.To || got.From != "receipts@example.com" || got.Subject != want.Subject || got.Text != want.Text ||
		got.HTML != want.HTML || got.CustomArgs["oncepay_key"] != want.Key || got.CustomArgs["oncepay_charge"] != want.Charge {
		t.Fatalf("got %+v under %q", got, id)
	}
}

// The library's own client mixes up mails that are sent at once.
func TestMailsAtOnceGoToTheirOwnBuyers(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	m := mailerTo(t, sendgrid.Config{BaseURL: address})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			if _, err := send(t, m, receipt(fmt.Sprintf("buyer%d@example.com", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, mail := range sb.Ledger().Mails {
		seen[mail.To] = true
		if mail.Text != "for "+mail.To || mail.IdempotencyKey != "key of "+mail.To {
			t.Errorf("%s got %q of %q", mail.To, mail.Text, mail.IdempotencyKey)
		}
	}
	if len(seen) != 32 {
		t.Fatalf("%d buyers got a mail", len(seen))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	m := mailerTo(t, sendgrid.Config{BaseURL: address})
	for _, tt := range []struct {
		status     int
		retryAfter int
		message    string
	}{
		{400, 0, "a bad address"}, {401, 0, "The provided authorization grant is invalid, expired, or revoked"}, {401, 0, "Maximum credits exceeded"},
		{403, 0, "The from address does not match a verified Sender Identity"}, {413, 0, "too large"}, {429, 60, "too many requests"},
		{500, 0, "an error"}, {503, 0, "not available"},
	} {
		if err := sb.Fail(sandbox.Fault{Kind: sandbox.Status, Status: tt.status, RetryAfter: tt.retryAfter, Message: tt.message}); err != nil {
			t.Fatal(err)
		}
		_, err := send(t, m, receipt("buyer@example.com"))
		e := (*sendgrid.Error)(nil)
		if !errors.As(err, &e) || e.Foreign || errors.Is(err, transport.ErrUnknown) || errors.Is(err, transport.ErrNotSent) {
			t.Fatalf("%d: %v", tt.status, err)
		}
		// Its reset is a time in whole seconds, and so is the Date that it is counted from.
		want := time.Duration(tt.retryAfter) * time.Second
		if e.HTTPStatus != tt.status || e.Message != tt.message || e.RetryAfter < want || e.RetryAfter > want+2*time.Second {
			t.Errorf("got %+v, want %+v", e, tt)
		}
	}
	wrong := mailerTo(t, sendgrid.Config{BaseURL: address})
	bad := receipt("a@b.com,c@d.com")
	if _, err := send(t, wrong, bad); err == nil || !strings.Contains(err.Error(), "personalizations.0.to") {
		t.Errorf("bad address: %v", err)
	}
	if n := len(sb.Ledger().Mails); n != 0 {
		t.Fatalf("%d mails", n)
	}
}

// I5: whatever becomes of the answer, there was one request, and only an error that proves it says that no mail was sent.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind  sandbox.Fault
		mails int
		sent  bool
	}{
		{sandbox.Fault{Kind: sandbox.DropBefore}, 0, false},
		{sandbox.Fault{Kind: sandbox.DropAfter}, 1, false},
		{sandbox.Fault{Kind: sandbox.HTML}, 1, false},
		{sandbox.Fault{Kind: sandbox.Truncate}, 1, true}, // its header says 202
		{sandbox.Fault{Kind: sandbox.Delay, DelayMS: 60_000}, 0, false},
	} {
		address, sb := serve(t)
		m := mailerTo(t, sendgrid.Config{BaseURL: address, Timeout: time.Second})
		// A kept-alive connection is what net/http could send a second time on.
		if _, err := send(t, m, receipt("first@example.com")); err != nil {
			t.Fatal(err)
		}
		if err := sb.Fail(tt.kind); err != nil {
			t.Fatal(err)
		}
		id, err := send(t, m, receipt("buyer@example.com"))
		if tt.sent && (err != nil || id == "") || !tt.sent && !errors.Is(err, transport.ErrUnknown) {
			t.Errorf("%s: %q, %v", tt.kind.Kind, id, err)
		}
		if requests, mails := len(sb.Ledger().Requests), len(sb.Ledger().Mails); requests != 2 || mails != 1+tt.mails {
			t.Errorf("%s: %d requests, %d mails", tt.kind.Kind, requests, mails)
		}
	}
}

// I5, I6: an answer that is not SendGrid's own says either nothing of the mail or, as a 4xx, that the way to SendGrid is broken.
func TestAnswersOfProxies(t *testing.T) {
	t.Parallel()
	const (
		page     = "<html>SG.s3cr3t buyer@example.com</html>"
		text     = "upstream connect error or disconnect/reset before headers"
		own      = `{"errors":[{"message":"m","field":null}]}`
		othersOf = `{"errors":[{"status":"503","title":"m"}]}`
	)
	for _, tt := range []struct {
		bodies   []string
		statuses []int
		unknown  bool
		foreign  bool
	}{
		{[]string{page, text, own, othersOf, ""}, []int{200, 201, 307, 408}, true, false},
		{[]string{page, text, `{"message":"m"}`, `{"errors":[]}`, othersOf, ""}, []int{500, 502, 503, 504, 599}, true, false},
		{[]string{page, text, `{"message":"m"}`, `{"errors":[]}`, othersOf, ""}, []int{400, 401, 403, 404, 407, 413, 429}, false, true},
		{[]string{own}, []int{400, 404, 413, 429, 500, 503}, false, false},
	} {
		for _, body := range tt.bodies {
			for _, status := range tt.statuses {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(status)
					if _, err := w.Write([]byte(body)); err != nil {
						t.Error(err)
					}
				}))
				_, err := send(t, mailerTo(t, sendgrid.Config{BaseURL: server.URL}), receipt("buyer@example.com"))
				server.Close()
				e := (*sendgrid.Error)(nil)
				if refused := errors.As(err, &e); refused == tt.unknown || errors.Is(err, transport.ErrUnknown) != tt.unknown || refused && e.Foreign != tt.foreign {
					t.Errorf("%d %q: %v", status, body, err)
				}
			}
		}
	}
}

// SendGrid quotes what it refuses, and its words are logged and stored.
func TestErrorsNameNobody(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	m := mailerTo(t, sendgrid.Config{BaseURL: address})
	for message, want := range map[string]string{
		"Does not contain a valid address: buyer@example.com.":        "Does not contain a valid address: [removed]",
		`The address "BUYER@Example.COM" is not valid`:                `The address "[removed]" is not valid`,
		"to: <buyer@example.com>, other+tag@example.org":              "to: <[removed]>, [removed]",
		"see https://x.example/?to=buyer%40example.com for more":      "see [removed] for more",
		"bu\x00yer@example.com":                                       "[removed]",
		strings.Repeat("x", 490) + " buyer@example.com and much more": strings.Repeat("x", 490) + " [removed]",
		strings.Repeat("l", 600) + "@example.com is too long":         "[removed] is too long",
	} {
		if err := sb.Fail(sandbox.Fault{Kind: sandbox.Status, Status: 400, Message: message}); err != nil {
			t.Fatal(err)
		}
		_, err := m.Send(transport.WithNotAfter(t.Context(), time.Now().Add(time.Minute)), receipt("buyer@example.com"))
		e := (*sendgrid.Error)(nil)
		if !errors.As(err, &e) || e.Message != want {
			t.Errorf("%q: got %v, want %q", message, err, want)
		}
	}

	// net/http quotes what it cannot read.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := c.Write([]byte("buyer@example.com\r\n\r\n")); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	_, err := send(t, mailerTo(t, sendgrid.Config{BaseURL: server.URL}), receipt("buyer@example.com"))
	if !errors.Is(err, transport.ErrUnknown) || !strings.Contains(err.Error(), "[removed]") {
		t.Errorf("an answer that is not HTTP: %v", err)
	}
}

func TestNothingSent(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	m := mailerTo(t, sendgrid.Config{BaseURL: "http://" + closed.Addr().String()})
	if _, err := send(t, m, receipt("buyer@example.com")); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("connection refused: %v", err)
	}
	address, sb := serve(t)
	m = mailerTo(t, sendgrid.Config{BaseURL: address})
	for name, until := range map[string]time.Time{"too late": time.Now().Add(-time.Millisecond), "at any time": {}} {
		ctx := t.Context()
		if !until.IsZero() {
			ctx = transport.WithNotAfter(ctx, until)
		}
		if _, err := m.Send(ctx, receipt("buyer@example.com")); !errors.Is(err, transport.ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(sb.Ledger().Requests); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestNewChecksItsSettings(t *testing.T) {
	t.Parallel()
	const from = "receipts@example.com"
	for _, c := range []sendgrid.Config{
		{From: from}, {APIKey: "s3cr3t", From: from}, {APIKey: "SG.", From: from}, {APIKey: "SG.s3cr3t\r\nX: y", From: from},
		{APIKey: apiKey}, {APIKey: apiKey, From: "shop"}, {APIKey: apiKey, From: "a@b.com,c@d.com"}, {APIKey: apiKey, From: from, BaseURL: "api.sendgrid.com"},
		{APIKey: apiKey, From: from, BaseURL: "https://u:s3cr3t@x"},
	} {
		if _, err := sendgrid.New(c); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, from := range []string{from, "Shop <receipts@example.com>", `"Tea, Inc." <receipts@example.com>`} {
		if _, err := sendgrid.New(sendgrid.Config{APIKey: apiKey, From: from}); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}
