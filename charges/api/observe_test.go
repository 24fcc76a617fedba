package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/oncepay/oncepay/charges/api"
)

// logs keeps what is logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// of returns the one line about a request.
func (l *logs) of(t *testing.T, requestID string) (line map[string]any) {
	t.Helper()
	eventually(t, "the log line", func() bool { // it is written after the answer
		l.mu.Lock()
		defer l.mu.Unlock()
		for text := range strings.Lines(l.text.String()) {
			var candidate map[string]any
			if err := json.Unmarshal([]byte(text), &candidate); err != nil {
				t.Fatal(err)
			}
			if candidate["request_id"] == requestID && line != nil {
				t.Fatalf("two lines about %s", requestID)
			} else if candidate["request_id"] == requestID {
				line = candidate
			}
		}
		return line != nil
	})
	return line
}

func TestOneLineForEachRequest(t *testing.T) {
	t.Parallel()
	var l logs
	d := deploy(t, func(c *api.Config) { c.Log = slog.New(slog.NewJSONHandler(&l, nil)) })
	key := newKey()
	body := `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","receipt_email":"hunter2@example.com","description":"secret"}`
	d.post(t, alice, key, body, "X-Request-Id", "one")
	r := d.post(t, alice, key, body, "X-Request-Id", "two")
	line := l.of(t, "two")
	for name, want := range map[string]any{
		"msg": "http.request", "level": "INFO", "method": "POST", "route": "/charge", "status": 202.0, "caller": "alice",
		"charge_id": r.charge(t).ID, "replayed": true, "bytes": float64(len(r.body)), "code": nil, "error": nil,
	} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	if ms, ok := line["duration_ms"].(float64); !ok || ms <= 0 {
		t.Errorf("duration_ms is %v", line["duration_ms"])
	}

	d.post(t, "tok_mallory", newKey(), body, "X-Request-Id", "three")
	if line := l.of(t, "three"); line["code"] != "unauthenticated" || line["caller"] != nil {
		t.Errorf("%v", line)
	}
	d.post(t, alice, newKey(), `{"receipt_email":"hunter2"}`, "X-Request-Id", "four")
	if line := l.of(t, "four"); line["code"] != "invalid_request" || line["error"] != nil {
		t.Errorf("%v", line)
	}
	d.send(t, "", http.MethodGet, "/charges/hunter2?token=secret", "", "X-Request-Id", "five")
	if line := l.of(t, "five"); line["route"] != "/charges/{id}" {
		t.Errorf("%v", line)
	}
	d.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the cause'; END $$;
		CREATE TRIGGER broken BEFORE INSERT ON charge FOR EACH ROW EXECUTE FUNCTION broken()`)
	d.post(t, alice, newKey(), body, "X-Request-Id", "six")
	if line := l.of(t, "six"); line["level"] != "ERROR" || line["code"] != "internal" || !strings.Contains(line["error"].(string), "the cause") {
		t.Errorf("%v", line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, secret := range []string{"hunter2", "tok_", "secret", "pm_card"} {
		if strings.Contains(l.text.String(), secret) {
			t.Errorf("the log tells %q", secret)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	i := withoutDatabase(t, nil)
	for given, kept := range map[string]bool{
		"req-1.A_b": true, strings.Repeat("a", 128): true,
		strings.Repeat("a", 129): false, "a b": false, "a;b": false, "": false, "ü": false,
	} {
		got := i.send(t, "", http.MethodGet, "/healthz", "", "X-Request-Id", given).header.Get("X-Request-Id")
		if (got == given) != kept || len(got) < 8 {
			t.Errorf("%q became %q", given, got)
		}
	}
	twice := i.send(t, "", http.MethodGet, "/healthz", "", "X-Request-Id", "first-one", "X-Request-Id", "second-one").header.Get("X-Request-Id")
	if twice == "first-one" || twice == "second-one" {
		t.Errorf("of two, %q was kept", twice)
	}
	if a, b := i.get(t, "", "/healthz"), i.get(t, "", "/healthz"); a.header.Get("X-Request-Id") == b.header.Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

func TestPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	var l logs
	i := withoutDatabase(t, func(c *api.Config) {
		c.Log = slog.New(slog.NewJSONHandler(&l, nil))
		c.Ready = func(context.Context) error { panic("hunter2") }
	})
	for range 2 { // and the process lives on
		r := i.get(t, "", "/readyz")
		if r.wantProblem(t, http.StatusInternalServerError, "internal"); strings.Contains(r.body, "hunter2") {
			t.Errorf("the answer tells the cause: %s", r.body)
		}
		line := l.of(t, r.header.Get("X-Request-Id"))
		if text, _ := line["error"].(string); !strings.Contains(text, "panic: hunter2") || !strings.Contains(text, "observe_test.go") {
			t.Errorf("%v", line)
		}
	}
}
