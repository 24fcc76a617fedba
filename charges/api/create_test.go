package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	before := time.Now()
	r := d.post(t, alice, key, `{"amount":500,"currency":"JPY","payment_method":"pm_card_visa","reference":"order-7",
		"receipt_email":"buyer+tag@example.com","metadata":{"a":"1"},"customer":null}`)
	c := r.charge(t)
	if r.status != http.StatusAccepted || c.Status != "pending" || c.Amount != 500 || c.Reference != "order-7" || c.IdempotencyKey != key {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if id, err := uuid.Parse(c.ID); err != nil || id.Version() != 7 {
		t.Errorf("id %q", c.ID)
	}
	if got := r.header.Get("Location"); got != "/charges/"+c.ID {
		t.Errorf("Location: %s", got)
	}
	expires, err := time.Parse(time.RFC3339, r.header.Get("Idempotency-Expires"))
	if ttl := expires.Sub(before); err != nil || !strings.HasSuffix(r.header.Get("Idempotency-Expires"), "Z") || ttl < 23*time.Hour || ttl > 25*time.Hour {
		t.Errorf("Idempotency-Expires: %s (%v)", r.header.Get("Idempotency-Expires"), err)
	}
	if r.header.Get("Idempotent-Replayed") != "" || r.header.Get("Preference-Applied") != "" {
		t.Errorf("headers %v", r.header)
	}
	d.wantRows(t, 1)
	if got := d.get(t, alice, "/charges/"+c.ID); got.status != http.StatusOK || got.body != r.body {
		t.Errorf("reading it answered %d\n%s\nnot\n%s", got.status, got.body, r.body)
	}
}

func TestKeySyntax(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	for name, tc := range map[string]struct {
		keys []string
		code string
	}{
		"absent":           {nil, "idempotency_key_missing"},
		"empty":            {[]string{""}, "idempotency_key_missing"},
		"blank":            {[]string{"  "}, "idempotency_key_missing"},
		"empty and quoted": {[]string{`""`}, "idempotency_key_missing"},
		"number":           {[]string{"42"}, "idempotency_key_invalid"},
		"timestamp":        {[]string{"2026-11-01T10:00:00Z"}, "idempotency_key_invalid"},
		"SHA-256":          {[]string{strings.Repeat("9f86d081", 8)}, "idempotency_key_invalid"},
		"version 1":        {[]string{"c232ab00-9414-11ec-b3c8-9f6bdeced846"}, "idempotency_key_invalid"},
		"version 5":        {[]string{"74738ff5-5367-5958-9aee-98fffdcd1876"}, "idempotency_key_invalid"},
		"without hyphens":  {[]string{"919108f752d143209bacf847db4148a8"}, "idempotency_key_invalid"},
		"two headers":      {[]string{newKey(), newKey()}, "idempotency_key_invalid"},
		"same twice":       {[]string{"919108f7-52d1-4320-9bac-f847db4148a8", "919108f7-52d1-4320-9bac-f847db4148a8"}, "idempotency_key_invalid"},
		"list":             {[]string{newKey() + ", " + newKey()}, "idempotency_key_invalid"},
	} {
		headers := []string{"Content-Type", "application/json"}
		for _, key := range tc.keys {
			headers = append(headers, "Idempotency-Key", key)
		}
		p := d.send(t, alice, http.MethodPost, "/charge", goodBody, headers...).wantProblem(t, http.StatusBadRequest, tc.code)
		for _, key := range tc.keys {
			if len(key) > 2 && strings.Contains(p.Detail, key) {
				t.Errorf("%s: the answer repeats the key", name)
			}
		}
		if t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
	d.wantRows(t, 0)

	// Letter case and quotes make no other key.
	const key = "0199a5c6-7d1e-7c30-9f1b-2f6a4c1d8e55"
	first := d.post(t, alice, key, goodBody)
	for _, spelling := range []string{strings.ToUpper(key), `"` + key + `"`, ` "` + strings.ToUpper(key) + `" `} {
		if again := d.post(t, alice, spelling, goodBody); again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s is another key: %d %s", spelling, again.status, again.body)
		}
	}
	d.wantRows(t, 1)
}

func TestReferenceInUse(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	body := strings.Replace(goodBody, "{", `{"reference":"order-7",`, 1)
	first := d.accept(t, alice, newKey(), body)
	d.accept(t, bob, newKey(), body) // another caller's order

	key := newKey()
	p := d.post(t, alice, key, body).wantProblem(t, http.StatusConflict, "reference_in_use")
	if p.Charge == nil || p.Charge.ID != first.ID || p.Charge.Reference != "order-7" {
		t.Errorf("the answer shows %+v, not charge %s", p.Charge, first.ID)
	}
	d.settle(t, first.ID)
	if p := d.post(t, alice, key, body).wantProblem(t, http.StatusConflict, "reference_in_use"); p.Charge == nil || p.Charge.Status != "succeeded" {
		t.Errorf("the answer shows %+v", p.Charge)
	}
	d.wantRows(t, 2)

	// An order whose charge failed can be charged again, under the refused key too.
	d.exec(t, `UPDATE charge SET status = 'failed', reference_freed = true, failure_code = 'card_declined', advice = 'new_payment_method' WHERE id = $1`, first.ID)
	d.accept(t, alice, key, body)
	d.wantRows(t, 3)
}
