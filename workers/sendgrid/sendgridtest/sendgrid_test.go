package sendgridtest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sendgrid/rest"
	"github.com/sendgrid/sendgrid-go"
	"github.com/sendgrid/sendgrid-go/helpers/mail"

	"github.com/oncepay/oncepay/workers/sandbox"
)

func start(t *testing.T) (*sandbox.Sandbox, string) {
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
	return sb, server.URL
}

func receipt() *mail.SGMailV3 {
	m := mail.NewSingleEmail(mail.NewEmail("Shop", "shop@example.com"), "Your receipt", mail.NewEmail("", "buyer+tag@example.com"), "10.99", "<p>10.99</p>")
	m.SetCustomArg("charge", "ch_1")
	m.Personalizations[0].SetCustomArg("oncepay_key", "k-1")
	return m
}

// call makes one request the way the library does, on a connection of its own.
func call(t *testing.T, base, key, path string, method rest.Method, body []byte) (*rest.Response, error) {
	t.Helper()
	request := sendgrid.GetRequest(key, path, base)
	request.Method, request.Body = method, body
	client := rest.Client{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	return client.SendWithContext(t.Context(), request)
}

func send(t *testing.T, base string, m *mail.SGMailV3) *rest.Response {
	t.Helper()
	resp, err := call(t, base, "SG.key", "/v3/mail/send", rest.Post, mail.GetRequestBody(m))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestMailIsAcceptedAndKept(t *testing.T) {
	t.Parallel()
	sb, base := start(t)
	resp := send(t, base, receipt())
	if resp.StatusCode != 202 || resp.Body != "" || len(resp.Headers["X-Message-Id"]) != 1 {
		t.Fatalf("got %d %q %v", resp.StatusCode, resp.Body, resp.Headers)
	}
	m := sb.Ledger().Mails[0]
	if m.To != "buyer+tag@example.com" || m.From != "shop@example.com" || m.Subject != "Your receipt" || m.IdempotencyKey != "k-1" ||
		m.CustomArgs["charge"] != "ch_1" || m.Text != "10.99" || m.HTML != "<p>10.99</p>" || m.AcceptedAt.IsZero() || m.ID != resp.Headers["X-Message-Id"][0] {
		t.Fatalf("kept %+v", m)
	}
	if r := sb.Ledger().Requests[0]; r.IdempotencyKey != "k-1" || r.Status != 202 || r.Path != "/v3/mail/send" {
		t.Fatalf("logged %+v", r)
	}
}

func TestTheSameMailTwiceIsTwoMails(t *testing.T) {
	t.Parallel()
	sb, base := start(t)
	send(t, base, receipt())
	send(t, base, receipt())
	if n := len(sb.Ledger().Mails); n != 2 {
		t.Fatalf("%d mails, want 2", n)
	}
}

func TestRefusedMails(t *testing.T) {
	t.Parallel()
	sb, base := start(t)
	good := string(mail.GetRequestBody(receipt()))
	for name, c := range map[string]struct {
		key, body string
		status    int
		field     string
	}{
		"no key":         {"", good, 401, ""},
		"wrong key":      {"key", good, 401, ""},
		"not JSON":       {"SG.key", "{", 400, ""},
		"no recipients":  {"SG.key", strings.Replace(good, `"email":"buyer+tag@example.com"`, `"email":""`, 1), 400, "personalizations.0.to"},
		"two in one":     {"SG.key", strings.Replace(good, "buyer+tag@example.com", "a@b.com,c@d.com", 1), 400, "personalizations.0.to"},
		"no from":        {"SG.key", strings.Replace(good, "shop@example.com", "shop", 1), 400, "from.email"},
		"no subject":     {"SG.key", strings.Replace(good, "Your receipt", "", 1), 400, "subject"},
		"empty content":  {"SG.key", strings.Replace(good, `"10.99"`, `""`, 1), 400, "content.0"},
		"nothing in it":  {"SG.key", "{}", 400, "personalizations"},
		"html before it": {"SG.key", strings.NewReplacer("text/plain", "text/html", "text/html", "text/plain").Replace(good), 400, "content.1.type"},
	} {
		resp, err := call(t, base, c.key, "/v3/mail/send", rest.Post, []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Errors []struct {
				Message string
				Field   *string
				Help    *string
			}
		}
		if err := json.Unmarshal([]byte(resp.Body), &body); err != nil || len(body.Errors) == 0 || body.Errors[0].Message == "" {
			t.Fatalf("%s: %d %s: %v", name, resp.StatusCode, resp.Body, err)
		}
		field := ""
		if body.Errors[0].Field != nil {
			field = *body.Errors[0].Field
		}
		if resp.StatusCode != c.status || field != c.field {
			t.Errorf("%s: got %d %s, want %d about %q", name, resp.StatusCode, resp.Body, c.status, c.field)
		}
	}
	if n := len(sb.Ledger().Mails); n != 0 {
		t.Fatalf("%d mails were kept", n)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault  sandbox.Fault
		status int // 0: no answer
		mails  int
	}{
		{sandbox.Fault{Kind: sandbox.DropBefore}, 0, 0},
		{sandbox.Fault{Kind: sandbox.DropAfter}, 0, 1},
		{sandbox.Fault{Kind: sandbox.Truncate}, 0, 1},
		{sandbox.Fault{Kind: sandbox.HTML}, 200, 1},
		{sandbox.Fault{Kind: sandbox.Status, Status: 503}, 503, 0},
		{sandbox.Fault{Kind: sandbox.Status, Status: 401, Message: "Maximum credits exceeded"}, 401, 0},
		{sandbox.Fault{Kind: sandbox.Status, Status: 429, RetryAfter: 60}, 429, 0},
	} {
		sb, base := start(t)
		c.fault.Path = "/v3/*"
		if err := sb.Fail(c.fault); err != nil {
			t.Fatal(err)
		}
		before := sb.Now()
		resp, err := call(t, base, "SG.key", "/v3/mail/send", rest.Post, mail.GetRequestBody(receipt()))
		if c.status == 0 {
			if err == nil {
				t.Errorf("%s: got an answer, %d", c.fault.Kind, resp.StatusCode)
			}
		} else if err != nil || resp.StatusCode != c.status || !strings.Contains(resp.Body, c.fault.Message) {
			t.Errorf("%s: got %v, %v", c.fault.Kind, resp, err)
		}
		if c.fault.RetryAfter > 0 {
			reset, err := strconv.ParseInt(resp.Headers["X-Ratelimit-Reset"][0], 10, 64)
			if err != nil || reset < before.Unix()+60 || reset > sb.Now().Unix()+60 {
				t.Errorf("reset %d, %v", reset, err)
			}
		}
		if n := len(sb.Ledger().Mails); n != c.mails {
			t.Errorf("%s: %d mails, want %d", c.fault.Kind, n, c.mails)
		}
	}
}

func TestScopesProbe(t *testing.T) {
	t.Parallel()
	_, base := start(t)
	for key, status := range map[string]int{"SG.key": 200, "other": 401} {
		resp, err := call(t, base, key, "/v3/scopes", rest.Get, nil)
		if err != nil || resp.StatusCode != status || (status == 200) != strings.Contains(resp.Body, `"mail.send"`) {
			t.Errorf("%s: %v, %v", key, resp, err)
		}
	}
}
