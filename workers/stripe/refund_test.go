package stripe_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/transport"
)

// refund gives a cent of a payment back.
func refund(t *testing.T, address, payment string) {
	t.Helper()
	form := url.Values{"payment_intent": {payment}, "amount": {"1"}, "reason": {"duplicate"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/refunds", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(secretKey, "")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("refund answered %d, %v", res.StatusCode, err)
	}
}

func TestListRefundsReadsEveryPage(t *testing.T) {
	t.Parallel()
	address, sb := serve(t)
	g := gatewayTo(t, address)
	var payments []string
	for range 2 {
		made, _, err := send(t, g, attempt(t, g, charge("pm_card_visa")))
		if err != nil {
			t.Fatal(err)
		}
		payments = append(payments, made.ID)
	}
	const n = 105
	for range n {
		refund(t, address, payments[0])
	}
	refund(t, address, payments[1])
	if err := sb.FailRefund(sb.Ledger().Refunds[0].ID, "declined"); err != nil {
		t.Fatal(err)
	}
	before := sb.Now().Truncate(time.Second)
	got, err := g.ListRefunds(t.Context(), payments[0])
	if err != nil || len(got) != n {
		t.Fatalf("read %d, %v", len(got), err)
	}
	ids := map[string]bool{}
	for _, r := range got {
		ids[r.ID] = true
		if r.Payment != payments[0] || r.Amount != 1 || r.Currency != "usd" || r.Reason != "duplicate" || r.AsOf.Before(before) || r.AsOf.After(sb.Now()) {
			t.Fatalf("read %+v", r)
		}
	}
	if oldest := got[n-1]; len(ids) != n || oldest.Status != "failed" || oldest.FailureReason != "declined" || got[0].Status != "succeeded" {
		t.Errorf("%d different ones, the oldest %+v", len(ids), oldest)
	}
	if got, err := g.ListRefunds(t.Context(), "pi_none"); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	// A list that fails is no list.
	fail(t, sb, sandbox.Fault{Kind: sandbox.Status, Status: 500, Method: http.MethodGet, Path: "/v1/refunds", Times: -1})
	if got, err := g.ListRefunds(t.Context(), payments[0]); err == nil || got != nil {
		t.Errorf("read %d, %v", len(got), err)
	}
}

func TestListDisputes(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	made, _, err := send(t, g, attempt(t, g, charge("pm_card_visa")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.ListDisputes(t.Context(), made.ID); err != nil || len(got) != 0 {
		t.Errorf("before there is one: %+v, %v", got, err)
	}
	if err := sb.Dispute(made.ID, sandbox.Challenge{Amount: 500}); err != nil {
		t.Fatal(err)
	}
	got, err := g.ListDisputes(t.Context(), made.ID)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	d := got[0]
	if d.ID != sb.Ledger().Disputes[0].ID || d.Payment != made.ID || d.Amount != 500 || d.Currency != "usd" || d.Status != "needs_response" || d.Reason != "fraudulent" ||
		d.DueBy.Before(sb.Now().Add(8*24*time.Hour)) || d.OpenedAt.IsZero() || d.OpenedAt.After(sb.Now()) || d.AsOf.Before(d.OpenedAt) {
		t.Errorf("%+v", d)
	}
}

// What is not a whole list of the payment's own refunds is not taken for one.
func TestRefundListsThatAreNotBelieved(t *testing.T) {
	t.Parallel()
	re := `{"id":"re_1","object":"refund","amount":1,"currency":"usd","payment_intent":"pi_1","status":"succeeded","reason":null}`
	du := `{"id":"du_1","object":"dispute","amount":1,"currency":"usd","payment_intent":"pi_1","status":"won","reason":"general","created":1,"livemode":false,
		"evidence_details":{"due_by":null}}`
	list := func(object string) string { return `{"object":"list","data":[` + object + `],"has_more":false}` }
	for name, change := range map[string]func(object string) string{
		"no list":         func(string) string { return `{}` },
		"endless":         func(string) string { return `{"object":"list","data":[],"has_more":true}` },
		"in a circle":     func(o string) string { return `{"object":"list","data":[` + o + `],"has_more":true}` },
		"another payment": func(o string) string { return list(strings.Replace(o, "pi_1", "pi_2", 1)) },
		"another object":  func(o string) string { return list(strings.Replace(o, `"object":"`, `"object":"x`, 1)) },
		"no status":       func(o string) string { return list(strings.Replace(o, `"status"`, `"state"`, 1)) },
		"no currency":     func(o string) string { return list(strings.Replace(o, `"usd"`, `""`, 1)) },
		"a wild amount":   func(o string) string { return list(strings.Replace(o, `"amount":1`, `"amount":-1`, 1)) },
		"null for one":    func(string) string { return list("null") },
	} {
		if got, err := answer(t, 200, nil, change(re)).ListRefunds(t.Context(), "pi_1"); !errors.Is(err, transport.ErrUnknown) {
			t.Errorf("refunds, %s: %+v, %v", name, got, err)
		}
		if got, err := answer(t, 200, nil, change(du)).ListDisputes(t.Context(), "pi_1"); !errors.Is(err, transport.ErrUnknown) {
			t.Errorf("disputes, %s: %+v, %v", name, got, err)
		}
	}
	if got, err := answer(t, 200, nil, list(strings.Replace(du, "false", "true", 1))).ListDisputes(t.Context(), "pi_1"); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("a dispute of the other mode: %+v, %v", got, err)
	}
	if got, err := answer(t, 200, nil, list(re)).ListRefunds(t.Context(), "pi_1"); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := answer(t, 200, nil, list(du)).ListDisputes(t.Context(), "pi_1"); err != nil || len(got) != 1 || got[0].DueBy != (charges.DisputeNews{}).DueBy {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := answer(t, 200, nil, list("")).ListRefunds(t.Context(), "../account"); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("a bad id: %v", err)
	}
}
