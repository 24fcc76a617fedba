package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestI4StoredAnswerByteForByte(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	_, other := open(t, d.url)
	second := start(t, other, nil)
	key := newKey()
	first := d.post(t, alice, key, `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","description":"a < b","metadata":{"a":"1","b":"2"}}`)
	if first.status != http.StatusAccepted {
		t.Fatalf("got %d %s", first.status, first.body)
	}
	d.settle(t, first.charge(t).ID) // a stored answer does not follow the charge

	for name, body := range map[string]string{
		"the same bytes":  `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","description":"a < b","metadata":{"a":"1","b":"2"}}`,
		"reordered":       `{"metadata":{"b":"2","a":"1"},"description":"a < b","payment_method":"pm_card_visa","currency":"usd","amount":1099}`,
		"pretty-printed":  "{\n  \"amount\": 1099,\n  \"currency\": \"usd\",\n  \"payment_method\": \"pm_card_visa\",\n  \"description\": \"a < b\",\n  \"metadata\": {\"a\": \"1\", \"b\": \"2\"}\n}\n",
		"escaped":         `{"\u0061mount":1099,"curr\u0065ncy":"us\u0064","payment_method":"pm_card_visa","description":"a \u003c b","metadata":{"a":"1","b":"2"}}`,
		"upper case":      `{"amount":1099,"currency":"USD","payment_method":"pm_card_visa","description":"a < b","metadata":{"a":"1","b":"2"}}`,
		"default given":   `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","description":"a < b","metadata":{"a":"1","b":"2"},"capture_method":"automatic","off_session":false}`,
		"null left out":   `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","description":"a < b","metadata":{"a":"1","b":"2"},"customer":null}`,
		"at another host": "",
	} {
		at := d.instance
		if body == "" {
			at, body = second, `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","description":"a < b","metadata":{"a":"1","b":"2"}}`
		}
		again := at.post(t, alice, key, body)
		if again.status != first.status || again.body != first.body {
			t.Errorf("%s: answered %d %s", name, again.status, again.body)
		}
		if again.header.Get("Idempotent-Replayed") != "true" || again.header.Get("Location") != first.header.Get("Location") ||
			again.header.Get("Idempotency-Expires") != first.header.Get("Idempotency-Expires") {
			t.Errorf("%s: headers %v", name, again.header)
		}
	}
	d.wantRows(t, 1)
}

func TestI4OtherRequestUnderTheKey(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	first := d.accept(t, alice, key, `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","metadata":{"a":"hunter2"}}`)
	for _, expired := range []bool{false, true} {
		if expired { // the key stays taken
			d.exec(t, `UPDATE idempotency_key SET expires_at = now() - interval '1 second'`)
		}
		r := d.post(t, alice, key, `{"amount":999,"currency":"usd","payment_method":"pm_card_amex","metadata":{"a":"x"}}`)
		p := r.wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
		if got := p.fieldNames(); got != "amount metadata.a payment_method" {
			t.Errorf("fields %s", got)
		}
		if !strings.Contains(p.Detail, "new key") || strings.Contains(r.body, "hunter2") || strings.Contains(r.body, "pm_card") {
			t.Errorf("the answer is %s", r.body)
		}
	}
	d.wantRows(t, 1)
	if got := d.get(t, alice, "/charges/"+first.ID).charge(t).Amount; got != 1099 {
		t.Errorf("amount %d", got)
	}
}

func TestI4AnotherCallersKey(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	first := d.accept(t, alice, key, goodBody)
	for name, body := range map[string]string{"same request": goodBody, "other request": strings.Replace(goodBody, "1099", "1", 1)} {
		r := d.post(t, bob, key, body)
		if p := r.wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused"); len(p.Fields) != 0 || p.Charge != nil || strings.Contains(r.body, first.ID) {
			t.Errorf("%s: the answer tells of another caller's charge: %s", name, r.body)
		}
	}
	d.wantRows(t, 1)
	d.get(t, bob, "/idempotency-keys/"+key).wantProblem(t, http.StatusNotFound, "not_found")
	for _, token := range []string{alice, operator} {
		r := d.get(t, token, "/idempotency-keys/"+strings.ToUpper(key))
		use := decode[struct {
			Key      string `json:"key"`
			ChargeID string `json:"charge_id"`
			Charge   charge `json:"charge"`
			Expires  string `json:"expires_at"`
		}](t, r.body)
		if r.status != http.StatusOK || use.Key != key || use.ChargeID != first.ID || use.Charge != first || use.Expires == "" {
			t.Errorf("%s sees %d %s", token, r.status, r.body)
		}
	}
	d.get(t, alice, "/idempotency-keys/"+newKey()).wantProblem(t, http.StatusNotFound, "not_found")
	d.get(t, alice, "/idempotency-keys/42").wantProblem(t, http.StatusBadRequest, "idempotency_key_invalid")
}

func TestI4AfterTheAnswerExpired(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	first := d.accept(t, alice, key, goodBody)
	check := func(state, status string) {
		r := d.post(t, alice, key, goodBody)
		c := r.charge(t)
		if r.status != http.StatusOK || c.ID != first.ID || c.Status != status {
			t.Errorf("%s: answered %d %s", state, r.status, r.body)
		}
		if r.header.Get("Idempotent-Replayed") != "true" || r.header.Get("Location") != "/charges/"+first.ID || r.header.Get("Idempotency-Expires") != "" {
			t.Errorf("%s: headers %v", state, r.header)
		}
		if use := d.get(t, alice, "/idempotency-keys/"+key); use.status != http.StatusOK || !strings.Contains(use.body, `"expires_at":null`) {
			t.Errorf("%s: the key is %d %s", state, use.status, use.body)
		}
		if n := d.count(t, "charge"); n != 1 {
			t.Errorf("%s: %d charges", state, n)
		}
	}
	d.exec(t, `UPDATE idempotency_key SET expires_at = now() - interval '1 second'`)
	check("expired", "pending")
	d.settle(t, first.ID)
	check("settled", "succeeded")
	if n, err := d.service.ExpireKeys(t.Context()); err != nil || n != 1 {
		t.Fatalf("removed %d answers: %v", n, err)
	}
	check("removed", "succeeded")
	if n := d.count(t, "river_job"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// A decline is the charge's final state, and the stored answer is not changed by it.
func TestI4AfterADecline(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	first := d.post(t, alice, key, goodBody)
	id := first.charge(t).ID
	d.exec(t, `UPDATE charge SET status = 'failed', failure_code = 'card_declined', decline_code = 'stolen_card',
		advice = 'do_not_retry', failure_message = 'Your card was declined.' WHERE id = $1`, id)
	if again := d.post(t, alice, key, goodBody); again.body != first.body || again.status != first.status {
		t.Errorf("answered %d %s", again.status, again.body)
	}
	if now := d.get(t, alice, "/charges/"+id); !strings.Contains(now.body, `"decline_code":"stolen_card"`) || now.charge(t).Status != "failed" {
		t.Errorf("the charge is %s", now.body)
	}
	p := d.post(t, alice, key, strings.Replace(goodBody, "visa", "amex", 1)).wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
	if p.fieldNames() != "payment_method" || !strings.Contains(p.Detail, "new key") {
		t.Errorf("the answer is %+v", p)
	}
	d.accept(t, alice, newKey(), strings.Replace(goodBody, "visa", "amex", 1))
}
