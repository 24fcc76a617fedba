package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// wantShort checks the refusal of a charge for want of its items, such as "tee 2 of 1".
func (r reply) wantShort(t *testing.T, want ...string) {
	t.Helper()
	p := r.wantProblem(t, http.StatusConflict, "insufficient_inventory")
	var got []string
	for _, i := range p.Items {
		told := fmt.Sprintf("%s %d of %d", i.SKU, i.Requested, i.Available)
		if !i.Stocked {
			told += ", never stocked"
		}
		got = append(got, told)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("short of %q, want %q", got, want)
	}
	if !strings.Contains(p.Detail, "Nothing was written") || !strings.Contains(p.Detail, "the key can be used again") || p.Charge != nil || r.header.Get("Retry-After") != "" {
		t.Errorf("answered %s %v", r.body, r.header)
	}
}

// wantHeld checks where the items of a charge are that was answered; "": it has none.
func (r reply) wantHeld(t *testing.T, stock string, items ...string) {
	t.Helper()
	c := decode[struct {
		ID    string  `json:"id"`
		Stock *string `json:"stock"`
		Items []struct {
			SKU      string `json:"sku"`
			Quantity int64  `json:"quantity"`
		} `json:"items"`
	}](t, r.body)
	var got []string
	for _, i := range c.Items {
		got = append(got, item(i.SKU, int(i.Quantity)))
	}
	if (c.Stock == nil) != (stock == "") || c.Stock != nil && *c.Stock != stock || strings.Join(got, " ") != strings.Join(items, " ") {
		t.Errorf("%s of the charge %s are %v, want %s %v", got, c.ID, c.Stock, stock, items)
	}
}

// What a charge asks for is held with it, taken when it succeeds, and given back when it is canceled: everybody sees where it is.
func TestItemsFollowTheCharge(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	d.stocked(t, "mug", 5)
	d.stocked(t, "tee", 2)
	both := []string{item("mug", 3), item("tee", 1)} // in the order of their SKUs, whatever the request's
	sold := d.sent(t, selling(item("tee", 1), item("mug", 3)))
	d.get(t, alice, "/charges/"+sold.ID).wantHeld(t, "held", both...)
	d.wantStock(t, "mug 5 = 2 + 3 + 0")
	lost := d.sent(t, selling(item("tee", 1)))
	d.wantStock(t, "tee 2 = 0 + 2 + 0")

	d.tell(t, paymentEvent(sold, "succeeded", nil)).wantReceived(t)
	d.tell(t, paymentEvent(lost, "canceled", nil)).wantReceived(t)
	d.get(t, alice, "/charges/"+sold.ID).wantHeld(t, "taken", both...)
	d.get(t, alice, "/charges/"+lost.ID).wantHeld(t, "returned", item("tee", 1))
	d.wantStock(t, "mug 5 = 2 + 0 + 3")
	d.wantStock(t, "tee 2 = 1 + 0 + 1")

	plain := d.post(t, alice, newKey(), goodBody)
	plain.wantHeld(t, "")
	if !strings.Contains(plain.body, `"stock":null`) || strings.Contains(plain.body, `"items"`) {
		t.Errorf("without items: %s", plain.body)
	}
	for what, body := range map[string]string{"a page": d.get(t, operator, "/charges").body, "a key": d.get(t, alice, "/idempotency-keys/"+sold.IdempotencyKey).body} {
		if !strings.Contains(body, `"stock":"taken"`) || !strings.Contains(body, `"items":[`+strings.Join(both, ",")) {
			t.Errorf("%s shows %s", what, body)
		}
	}
}

// A refusal names what is short and no more, writes nothing, and leaves the key for when there is more.
func TestInsufficientInventory(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	d.stocked(t, "mug", 5)
	d.stocked(t, "tee", 1)
	key := newKey()
	d.post(t, alice, key, selling(item("tee", 2), item("mug", 5), item("cap", 1))).wantShort(t, "cap 1 of 0, never stocked", "tee 2 of 1")
	d.wantRows(t, 0)
	d.wantStock(t, "mug 5 = 5 + 0 + 0")
	d.get(t, alice, "/idempotency-keys/"+key).wantProblem(t, http.StatusNotFound, "not_found")

	// The same again, and then another request under the same key: neither finds anything.
	d.post(t, alice, key, selling(item("tee", 2))).wantShort(t, "tee 2 of 1")
	d.stocked(t, "tee", 2)
	r := d.post(t, alice, key, selling(item("tee", 2)))
	if r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("restocked: %d %s", r.status, r.body)
	}
	d.wantRows(t, 1)
	d.post(t, alice, newKey(), selling(item("tee", 1))).wantShort(t, "tee 1 of 0")
	d.accept(t, alice, newKey(), goodBody) // asks for nothing
	d.wantRows(t, 2)
}

// I4: a key that was used is answered as it was, whatever is left of what it was used for.
func TestI4KeysOfItems(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	d.stocked(t, "mug", 5)
	d.stocked(t, "tee", 1)
	last := selling(item("tee", 1), item("mug", 1))
	key := newKey()
	first := d.post(t, alice, key, last)
	if first.status != http.StatusAccepted {
		t.Fatalf("%d %s", first.status, first.body)
	}
	replay := func(when, body string) {
		t.Helper()
		again := d.post(t, alice, key, body)
		if again.status != first.status || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s, want %s", when, again.status, again.body, first.body)
		}
		d.wantStock(t, "mug 5 = 4 + 1 + 0")
	}
	d.post(t, alice, newKey(), last).wantShort(t, "tee 1 of 0")
	replay("sold out", last)
	replay("in another order", selling(item("mug", 1), item("tee", 1)))

	// Another request is another one, in stock or not.
	for _, body := range []string{goodBody, selling(item("tee", 1)), selling(item("tee", 2), item("mug", 1)), selling(item("cap", 1), item("mug", 1))} {
		p := d.post(t, alice, key, body).wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
		if p.fieldNames() != "items" || p.Items != nil {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := d.post(t, bob, key, last).wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused"); p.Fields != nil || p.Items != nil {
		t.Errorf("another caller's: %+v", p)
	}
	c := first.charge(t)
	d.begin(t, c)
	d.tell(t, paymentEvent(c, "canceled", nil)).wantReceived(t)
	d.accept(t, alice, newKey(), last) // somebody else has it now
	replay("given back and sold again", last)
	d.exec(t, `UPDATE idempotency_key SET expires_at = now() - interval '1 second'`)
	if now := d.post(t, alice, key, last); now.status != http.StatusOK || !strings.Contains(now.body, `"stock":"returned"`) {
		t.Errorf("expired: %d %s", now.status, now.body)
	}
}

// Whoever asks twice for one order is told of the charge that there is, not that the last item is gone: it has it.
func TestReferenceInUseBeforeInsufficientInventory(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	d.stocked(t, "tee", 1)
	order := strings.Replace(selling(item("tee", 1)), "{", `{"reference":"order-7",`, 1)
	first := d.accept(t, alice, newKey(), order)
	p := d.post(t, alice, newKey(), order).wantProblem(t, http.StatusConflict, "reference_in_use")
	if p.Charge == nil || p.Charge.ID != first.ID || p.Items != nil {
		t.Errorf("told of %+v", p)
	}
	d.post(t, bob, newKey(), order).wantShort(t, "tee 1 of 0") // whose order-7 is another
	d.post(t, alice, newKey(), strings.Replace(order, "order-7", "order-8", 1)).wantShort(t, "tee 1 of 0")
	d.wantRows(t, 1)
}

func TestBadItems(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	d.stocked(t, "tee", 10)
	many := make([]string, 51)
	for i := range many {
		many[i] = item(fmt.Sprintf("sku-%d", i), 1)
	}
	with := func(items string) string { return strings.Replace(goodBody, "{", `{"items":`+items+`,`, 1) }
	key := newKey()
	for body, fields := range map[string]string{
		with(`[]`):                                     "items",
		with(`{"sku":"tee","quantity":1}`):             "items",
		with(`"tee"`):                                  "items",
		with(`["tee"]`):                                "items[0]",
		with(`[null]`):                                 "items[0]",
		with(`[{}]`):                                   "items[0].sku items[0].quantity",
		with(`[{"sku":"tee"}]`):                        "items[0].quantity",
		with(`[{"sku":"tee","quantity":null}]`):        "items[0].quantity",
		with(`[{"sku":"tee","quantity":"1"}]`):         "items[0].quantity",
		with(`[{"sku":"tee","quantity":1,"price":1}]`): "items[0].price",
		with(`[{"sku":"tee","Quantity":1}]`):           "items[0].Quantity items[0].quantity",
		selling(item("tee", 0)):                        "items[0].quantity",
		selling(item("tee", -1)):                       "items[0].quantity",
		selling(item("tee", 1_000_001)):                "items[0].quantity",
		selling(item("hunter 2", 1)):                   "items[0].sku",
		selling(item("tee", 1), item("tee", 1)):        "items[1].sku",
		selling(many...):                               "items",
	} {
		r := d.post(t, alice, key, body)
		p := r.wantProblem(t, http.StatusBadRequest, "invalid_request")
		if p.fieldNames() != fields || strings.Contains(r.body, "hunter") || strings.Contains(r.body, "minor unit") {
			t.Errorf("%s: %s, want %s", body, r.body, fields)
		}
	}
	d.wantRows(t, 0)
	d.post(t, alice, key, with("null")).wantHeld(t, "")
	d.wantRows(t, 1)
	d.wantStock(t, "tee 10 = 10 + 0 + 0")
}
