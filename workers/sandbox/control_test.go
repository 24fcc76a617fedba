package sandbox_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestControlBodiesAreStrict(t *testing.T) {
	t.Parallel()
	_, url, _ := open(t, "")
	for _, c := range []struct{ path, body, message string }{
		{"faults", `{"fault":"earthquake"}`, "unknown fault"},
		{"faults", `{}`, "unknown fault"},
		{"faults", `{"fault":"drop_before","Times":2}`, "Times"},
		{"faults", `{"fault":"drop_before","times":2,"times":3}`, "times"},
		{"faults", `{"fault":"drop_before"} x`, "cannot be read"},
		{"faults", `{"fault":"drop_before","times":0}`, "times must be"},
		{"faults", `{"fault":"drop_before","times":-2}`, "times must be"},
		{"faults", `{"fault":"drop_before","probability":0}`, "probability must be"},
		{"faults", `{"fault":"drop_before","probability":1.5}`, "probability must be"},
		{"faults", `{"fault":"drop_before","method":"post"}`, "upper case"},
		{"faults", `{"fault":"drop_before","path":"v1"}`, "slash"},
		{"faults", `{"fault":"drop_before","path":"/v1/*/x"}`, "at its end"},
		{"faults", `{"fault":"drop_before","status":500}`, "status does not go"},
		{"faults", `{"fault":"delay"}`, "needs delay_ms"},
		{"faults", `{"fault":"delay","delay_ms":600001}`, "delay_ms must be"},
		{"faults", `{"fault":"delay","delay_ms":-1}`, "delay_ms must be"},
		{"faults", `{"fault":"list_lag","delay_ms":5000,"method":"POST"}`, "must be GET"},
		{"faults", `{"fault":"status"}`, "needs a status"},
		{"faults", `{"fault":"status","status":200}`, "needs a status"},
		{"faults", `{"fault":"status","status":500,"done":true}`, "done does not go"},
		{"faults", `{"fault":"stored_status","status":429}`, "never stored"},
		{"faults", `{"fault":"delay","delay_ms":5,"code":"x"}`, "do not go with"},
		{"clock", `{"advance":"a day"}`, "duration"},
		{"clock", `{"advance":""}`, "duration"},
		{"clock", `{"advance":"-1h"}`, "forward"},
		{"clock", `{"back":"1h"}`, "back"},
		{"payment_intents/pi_1/authenticate", `{"outcome":"maybe"}`, "outcome must be"},
		{"payment_intents/pi_1/dispute", `{"outcome":"drawn"}`, "outcome must be"},
		{"payment_intents/pi_1/dispute", `{"reason":"angry"}`, "reason must be"},
		{"payment_intents/pi_1/dispute", `{"Reason":"general"}`, "Reason"},
		{"refunds/re_1/fail", `{"reason":"bad luck"}`, "reason must be"},
		{"refunds/re_1/fail", `{"why":"unknown"}`, "why"},
		{"faults", `{"fault":"no_webhooks","method":"GET"}`, "acts on no request"},
		{"faults", `{"fault":"no_webhooks","delay_ms":5}`, "acts on no request"},
		{"faults", `{"fault":"no_webhooks","idempotency_key":"k"}`, "acts on no request"},
		{"webhooks/deliver", `{"event":"evt_1"}`, "event"},
	} {
		r := call(t, "POST", url+"/_sandbox/"+c.path, c.body)
		var body struct{ Error string }
		if err := json.Unmarshal(r.body, &body); err != nil || r.status != 400 || !strings.Contains(body.Error, c.message) {
			t.Errorf("%s: got %d %s, want 400 and %q", c.body, r.status, r.body, c.message)
		}
	}
	if r := call(t, "GET", url+"/_sandbox/faults", ""); !strings.Contains(string(r.body), `"faults": []`) {
		t.Errorf("something was armed: %s", r.body)
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	t.Parallel()
	_, url, _ := open(t, "")
	r := call(t, "POST", url+"/_sandbox/faults", `{"method":"POST","path":"/v1/payment_intents","fault":"drop_after"}`)
	var armed map[string]any
	if err := json.Unmarshal(r.body, &armed); err != nil || r.status != 200 || armed["times"] != 1.0 || armed["probability"] != 1.0 {
		t.Fatalf("armed %d %s", r.status, r.body)
	}
	if r := pay(t, url, "k-1"); r.err == nil {
		t.Fatalf("got an answer: %d", r.status)
	}
	if r := pay(t, url, "k-1"); r.status != 200 {
		t.Fatalf("got %d", r.status)
	}
	call(t, "POST", url+"/_sandbox/faults", `{"fault":"status","status":500,"times":-1}`)
	if r := pay(t, url, "k-2"); r.status != 500 {
		t.Fatalf("got %d", r.status)
	}
	if r := call(t, "DELETE", url+"/_sandbox/faults", ""); r.status != 200 {
		t.Fatalf("clear: %d %s", r.status, r.body)
	}
	if r := pay(t, url, "k-2"); r.status != 200 {
		t.Fatalf("got %d", r.status)
	}
}

func TestStripesControlsOverHTTP(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	id := payWith(t, url, "k-1", "pm_card_visa")
	act(t, url, "/v1/refunds", "amount=99&payment_intent="+id)
	refund := sb.Ledger().Refunds[0].ID
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"refunds/re_none/fail", `{}`, 404},
		{"refunds/" + refund + "/fail", `{}`, 204},
		{"refunds/" + refund + "/fail", `{}`, 409},
		{"payment_intents/pi_none/dispute", `{}`, 404},
		{"payment_intents/" + id + "/dispute", `{"amount":1100}`, 400},
		{"payment_intents/" + id + "/dispute", `{"reason":"duplicate","amount":1000,"outcome":"lost"}`, 204},
		{"payment_intents/" + id + "/dispute", `{}`, 409},
	} {
		if r := call(t, "POST", url+"/_sandbox/"+c.path, c.body); r.status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.path, c.body, r.status, r.body, c.status)
		}
	}
	ledger := sb.Ledger()
	if d := ledger.Disputes[0]; d.Status != "lost" || d.Amount != 1000 || ledger.Refunds[0].Status != "failed" {
		t.Errorf("%+v", ledger)
	}
}

func TestClockShowsInEveryAnswer(t *testing.T) {
	t.Parallel()
	_, url, _ := open(t, "")
	if r := call(t, "POST", url+"/_sandbox/clock", `{"advance":"25h"}`); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for name, r := range map[string]reply{
		"success": pay(t, url, "k-1"), "replay": pay(t, url, "k-1"), "mail": mail(t, url, "m-1"),
		"refusal": call(t, "GET", url+"/v1/account", ""),
	} {
		date, err := http.ParseTime(r.header.Get("Date"))
		if off := time.Until(date) - 25*time.Hour; err != nil || off < -time.Minute || off > time.Minute {
			t.Errorf("%s: Date is %s, %v", name, r.header.Get("Date"), err)
		}
	}
	created := call(t, "GET", url+"/v1/payment_intents", "", "Authorization", "Bearer sk_test_shop")
	var list struct{ Data []struct{ Created int64 } }
	if err := json.Unmarshal(created.body, &list); err != nil || time.Until(time.Unix(list.Data[0].Created, 0)) < 24*time.Hour {
		t.Errorf("created: %s, %v", created.body, err)
	}
}

func TestLedgerHasTheAgreedMembers(t *testing.T) {
	t.Parallel()
	_, url, _ := open(t, "")
	pay(t, url, "k-1")
	mail(t, url, "m-1")
	r := call(t, "GET", url+"/_sandbox/ledger", "")
	var ledger struct {
		Now            time.Time                    `json:"now"`
		PaymentIntents []map[string]json.RawMessage `json:"payment_intents"`
		Refunds        []map[string]json.RawMessage `json:"refunds"`
		Mails          []map[string]json.RawMessage `json:"mails"`
		Requests       []map[string]json.RawMessage `json:"requests"`
	}
	if err := json.Unmarshal(r.body, &ledger); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	if ledger.Now.IsZero() || ledger.Refunds == nil || len(ledger.PaymentIntents) != 1 || len(ledger.Mails) != 1 || len(ledger.Requests) != 2 {
		t.Fatalf("ledger: %s", r.body)
	}
	for _, c := range []struct {
		entry map[string]json.RawMessage
		names string
	}{
		{ledger.PaymentIntents[0], "id amount currency status idempotency_key metadata created account"},
		{ledger.Mails[0], "to subject idempotency_key custom_args accepted_at"},
		{ledger.Requests[0], "method path idempotency_key status fault at account"},
	} {
		for _, name := range strings.Fields(c.names) {
			if _, ok := c.entry[name]; !ok {
				t.Errorf("no %s among %v", name, slices.Sorted(maps.Keys(c.entry)))
			}
		}
	}
}

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	_, url, _ := open(t, "")
	for _, path := range []string{"/", "/v2/x", "/_sandbox/", "/_sandbox/unknown"} {
		if r := call(t, "GET", url+path, ""); r.status != 404 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if r := call(t, "POST", url+"/v1/payment_intents", strings.Repeat("x", 5<<20)); r.status != 413 {
		t.Errorf("5 MiB: %d", r.status)
	}
}
