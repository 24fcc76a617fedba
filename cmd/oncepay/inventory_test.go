package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

func (d *deployment) inventory(args ...string) launch {
	return d.oncepay(append([]string{"inventory"}, args...)...)
}

func TestInventoryCommand(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	expect(t, "nothing", d.inventory("list").must(t), `^Nothing was ever stocked\.\n$`)
	expect(t, "nothing as JSON", d.inventory("list", "--json").must(t), `^\{\s+"inventory": \[\],\s+"more": false\s+\}\n$`)
	const sku = "tee.v2:blue"
	for _, says := range []string{"new, quantity 3", "quantity 3 as before"} {
		expect(t, "set", d.inventory("set", sku, "3", "--who=ann").must(t), `^`+sku+`: `+says+`, of which 3 are available, 0 held and 0 taken\.\n$`)
	}
	d.inventory("set", "mug", "10").must(t)
	if n := d.count(`SELECT count(*) FROM operator_action WHERE actor = 'operator:ann' AND action = 'inventory.set' AND target = $1
		AND data = '{"from": 0, "to": 3}'`, sku); n != 1 {
		t.Errorf("%d audit rows of what was done twice", n)
	}

	create := []string{"create", "--amount=1099", "--currency=usd", "--payment-method=pm_card_visa", "--wait=0s"}
	held := readCharge(t, d.charging(api, append(create, "--item="+sku+"=2", "--item", "mug")...).must(t))
	got := d.charging(api, "get", held.ID).must(t)
	expect(t, "get", got, `(?m)^  "stock": "held",$`, `"items": \[\s+\{\s+"sku": "mug",\s+"quantity": 1\s+\},\s+\{\s+"sku": "`+sku+`",\s+"quantity": 2\s+\}\s+\]`)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	expect(t, "send before", d.charging(api, append(create, "--send-before="+soon)...).must(t), `(?m)^  "send_before": "`+strings.TrimSuffix(soon, "Z")+`[.0]*Z",?$`)
	if r := d.charging(api, append(create, "--send-before=tomorrow")...).run(t); r.code == 0 || !strings.Contains(r.stderr, "--send-before") {
		t.Errorf("at no time: %+v", r)
	}
	list := d.inventory("list").must(t)
	expect(t, "list", list, `^SKU +QUANTITY +AVAILABLE +HELD +TAKEN +SET AT\nmug +10 +9 +1 +0 +20\S+Z\n`+sku+` +3 +1 +2 +0 +20\S+Z\n$`)
	expect(t, "one", d.inventory("list", sku).must(t), `^SKU .*\n`+sku+` +3 +1 +2 +0 +\S+\n$`)
	if more := d.inventory("list", "--limit=1").run(t); more.code != 0 || strings.Count(more.stdout, "\n") != 2 || !strings.Contains(more.stderr, "there is more") {
		t.Errorf("a list cut short: %+v", more)
	}
	var all struct {
		Inventory []client.Inventory
		More      bool
	}
	if err := json.Unmarshal([]byte(d.inventory("list", "--json", "--limit=1").must(t)), &all); err != nil || len(all.Inventory) != 1 || all.Inventory[0].Held != 1 || !all.More {
		t.Errorf("as JSON: %+v, %v", all, err)
	}

	key := newKey()
	short := d.charging(api, append(create, "--key="+key, "--item="+sku+"=2", "--item=cap")...).run(t)
	if short.code != 1 || short.stdout != "" || strings.Count(short.stderr, "\n") != 2 || // after the key
		!strings.Contains(short.stderr, "\noncepay: 409 insufficient_inventory: There is not enough") || !strings.Contains(short.stderr, "; cap was never stocked; "+sku+": 1 of 2 available") {
		t.Errorf("too many: exit %d: %s%s", short.code, short.stdout, short.stderr)
	}
	for args, says := range map[string]string{
		"set " + sku + " 1":              "oncepay: 2 of " + sku + " are held and 0 taken: its quantity cannot be less than both together\n",
		"list cap":                       "oncepay: cap was never stocked\n",
		"set " + sku + " 9 --previous=4": "oncepay: the quantity of " + sku + " is 3, and not 4 any more: somebody else has set it\n",
		"set cap 9 --previous=4":         "oncepay: cap was never stocked: its quantity has not been 4\n",
	} {
		if r := d.inventory(strings.Split(args, " ")...).run(t); r.code != 1 || r.stdout != "" || r.stderr != says {
			t.Errorf("%s: exit %d: %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	expect(t, "more", d.inventory("set", sku, "4", "--previous=3").must(t), `: quantity 3 -> 4, of which 2 are available, 2 held and 0 taken`)
	d.inventory("set", "cap", "1").must(t)
	d.charging(api, append(create, "--key="+key, "--item="+sku+"=2", "--item=cap")...).must(t) // the same again
}

// The client library's calls against a real API: a shop sets its stock and sells it.
func TestInventoryByClient(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	d.worker()
	operator, err := client.New(api.url, strings.TrimSpace(d.oncepay("keys", "create", "--name=ops", "--role=operator").must(t)))
	if err != nil {
		t.Fatal(err)
	}
	shop := d.client(api)
	for sku, n := range map[string]int64{"tee:m": 1, "a.b": 5, "mug": 0} {
		if v, err := operator.SetInventory(t.Context(), sku, n); err != nil || v.Available != n {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if _, err := shop.SetInventory(t.Context(), "mug", 1); !refusedWith(err, "forbidden") {
		t.Errorf("a caller sets: %v", err)
	}
	buy := client.CreateParams{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", Items: []client.Item{{SKU: "tee:m", Quantity: 1}, {SKU: "a.b", Quantity: 2}}}
	c, err := shop.Create(t.Context(), buy)
	if err != nil || c.Stock != client.StockHeld {
		t.Fatalf("%+v, %v", c, err)
	}
	c = d.awaitStatus(api, c.IdempotencyKey, client.StatusSucceeded)
	if c.Stock != client.StockTaken || len(c.Items) != 2 || c.Items[0] != (client.Item{SKU: "a.b", Quantity: 2}) {
		t.Errorf("sold: %s", c.Raw)
	}
	empty := buy
	empty.Items = []client.Item{}
	if _, err := shop.Create(t.Context(), empty); !refusedWith(err, "invalid_request") {
		t.Errorf("an empty cart: %v", err)
	}
	_, err = shop.Create(t.Context(), buy)
	refused, _ := errors.AsType[*client.Error](err)
	if !refusedWith(err, "insufficient_inventory") || len(refused.Short) != 1 || refused.Short[0] != (client.Shortage{SKU: "tee:m", Requested: 1, Stocked: true}) {
		t.Errorf("sold out: %v", err)
	}
	if _, err := operator.SetInventory(t.Context(), "a.b", 9, 4); !refusedWith(err, "invalid_state") {
		t.Errorf("somebody else has set it: %v", err)
	} else if refused, _ := errors.AsType[*client.Error](err); refused.Inventory == nil || refused.Inventory.Quantity != 5 {
		t.Errorf("without what there is: %v", err)
	}
	if v, err := operator.SetInventory(t.Context(), "a.b", 6, 5); err != nil || v.Quantity != 6 {
		t.Errorf("from what it was: %+v, %v", v, err)
	}
	if v, err := operator.SetInventory(t.Context(), "a.b", 5, 6); err != nil || v.Quantity != 5 {
		t.Errorf("from what it was: %+v, %v", v, err)
	}
	if _, err := operator.SetInventory(t.Context(), "a.b", 1); !refusedWith(err, "invalid_state") {
		t.Errorf("less than is taken: %v", err)
	} else if refused, _ := errors.AsType[*client.Error](err); refused.Inventory == nil || refused.Inventory.Taken != 2 {
		t.Errorf("without what there is: %v", err)
	}
	var all []string
	for v, err := range shop.AllInventory(t.Context(), client.InventoryParams{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %d=%d+%d+%d", v.SKU, v.Quantity, v.Available, v.Held, v.Taken))
	}
	if got := strings.Join(all, ", "); got != "a.b 5=3+0+2, mug 0=0+0+0, tee:m 1=0+0+1" {
		t.Errorf("stock: %s", got)
	}
	if _, err := shop.Inventory(t.Context(), "cap"); !refusedWith(err, "not_found") {
		t.Errorf("never stocked: %v", err)
	}
}

func refusedWith(err error, code string) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Code == code
}

// confirm lets Stripe try a payment again with another card, as its dashboard does.
func (s *sandboxProcess) confirm(payment string) {
	s.t.Helper()
	a, err := call(http.MethodPost, s.url+"/v1/payment_intents/"+payment+"/confirm", url.Values{"payment_method": {"pm_card_visa"}}.Encode(), map[string]string{
		"Authorization": "Bearer " + stripeKey, "Idempotency-Key": newKey(), "Content-Type": "application/x-www-form-urlencoded",
	}, nil)
	if err == nil {
		err = a.want(http.StatusOK)
	}
	if err != nil {
		s.t.Fatalf("confirm: %v", err)
	}
}

// What is paid after its items were given back and sold to others is for a person, who sees what is short and what to do about it.
func TestReviewOfALateSuccess(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api("--late-success=review")
	d.box.hear(api.url)
	worker := d.worker("--late-success=review")
	review := func(args ...string) string { return d.oncepay(append([]string{"review"}, args...)...).must(t) }
	// Else what is declined is canceled at Stripe, and nobody can pay it any more.
	d.box.control(http.MethodPost, "faults", `{"method":"POST","path":"/v1/payment_intents/*","fault":"status","status":400,"times":-1}`, nil)
	d.inventory("set", "mug", "9").must(t)
	d.inventory("set", "tee", "3").must(t)
	sell := func(method, items string, more ...string) *client.Charge {
		t.Helper()
		key := newKey()
		d.mustPost(api.url, key, fmt.Sprintf(`{"amount":1099,"currency":"usd","payment_method":%q,"items":[%s]%s}`, method, items, strings.Join(more, "")))
		if method == "pm_card_visa" {
			return d.awaitStatus(api, key, client.StatusSucceeded)
		}
		return d.awaitStatus(api, key, client.StatusFailed)
	}
	const both = `{"sku":"tee","quantity":2},{"sku":"mug","quantity":1}`
	const order = `,"reference":"order-9"`
	first, second, third := sell("pm_card_chargeDeclined", both), sell("pm_card_chargeDeclined", both), sell("pm_card_chargeDeclined", both, order)
	tried := sell("pm_card_chargeDeclined", both, order)
	again := sell("pm_card_visa", `{"sku":"tee","quantity":2}`, order) // which leaves one
	worker.kill()                                                      // before it cancels them
	d.box.clearFaults()
	for _, c := range []*client.Charge{first, second, third} {
		if c.Stock != client.StockReturned {
			t.Errorf("declined: %s", c.Raw)
		}
		d.box.confirm(c.PaymentIntent)
		if c = d.awaitStatus(api, c.IdempotencyKey, client.StatusNeedsReview); c.Review.Reason != "insufficient_inventory" || c.Stock != client.StockReturned {
			t.Errorf("paid after all: %s", c.Raw)
		}
	}

	d.worker("--late-success=review")
	d.box.refund(second.PaymentIntent, 1099)
	await(t, patience, "the refund is known", func() error {
		if n := d.charge(api, second.IdempotencyKey).AmountRefunded; n != 1099 {
			return fmt.Errorf("%d of it", n)
		}
		return nil
	})
	list := review("list")
	expect(t, "list", list, `(?m)^`+first.ID+` .* insufficient_inventory +`+first.PaymentIntent+`$`, `(?m)^insufficient_inventory +it was paid .*others hold or have bought them\. .*: refund it .* --without-items; else .*--restock .*`,
		`(?m)^CHARGE +REFUNDED +ITS ORDER HAS ALSO +WAITS FOR +ASKS FOR +AVAILABLE$`,
		`(?m)^`+first.ID+` +\$0\.00 of \$10\.99 +- +tee +2 +1$`, `(?m)^`+second.ID+` +\$10\.99 of \$10\.99 +- +tee +2 +1$`, `(?m)^`+third.ID+` +\$0\.00 of \$10\.99 +`+again.ID+` \(succeeded\) +tee +2 +1$`)
	if strings.Contains(list, "mug") {
		t.Errorf("names what there is enough of: %s", list)
	}
	expect(t, "show", review("show", first.ID), `(?m)^reason +insufficient_inventory$`, `(?m)^to do +it was paid .*others hold or have bought them: stock more and .*--restock.*; or refund it .*--without-items$`, `(?m)^refunded +\$0\.00 of \$10\.99$`,
		`(?m)^items +returned$`,
		`(?m)^ITEM +ASKED FOR +AVAILABLE NOW +HELD BY CHARGES +TAKEN +EVER STOCKED$`, `(?m)^mug +1 +9 +0 +0 +9$`, `(?m)^tee +2 +1 +0 +2 +3$`, `(?m)^charge.needs_review .*"short":`)
	expect(t, "show, refunded", review("show", second.ID), `(?m)^to do +it was refunded in full: --as succeeded --without-items$`)
	expect(t, "show, paid again", review("show", third.ID), `(?m)^to do +its order has also `+again.ID+` \(succeeded\), .*: refund it at Stripe, then --as succeeded --without-items; else stock more`,
		`(?m)^OTHER CHARGE OF ITS ORDER +STATUS$`, `(?m)^`+again.ID+` +succeeded$`, `(?m)^`+tried.ID+` +failed$`)
	var shown struct {
		Inventory []client.Inventory
		Charge    client.Charge
	}
	if err := json.Unmarshal([]byte(review("show", "--json", first.ID)), &shown); err != nil || len(shown.Inventory) != 2 || shown.Inventory[1].Available != 1 || len(shown.Charge.Items) != 2 {
		t.Errorf("as JSON: %+v, %v", shown, err)
	}
	var listed struct {
		Charges []struct{ Short []client.Shortage }
	}
	if err := json.Unmarshal([]byte(review("list", "--json")), &listed); err != nil || len(listed.Charges) != 3 || len(listed.Charges[0].Short) != 1 ||
		listed.Charges[0].Short[0] != (client.Shortage{SKU: "tee", Requested: 2, Available: 1, Stocked: true}) {
		t.Errorf("as JSON: %+v, %v", listed, err)
	}

	settle := []string{"settle", first.ID, "--as=succeeded", "--because=found two more"}
	if r := d.oncepay(append([]string{"review"}, settle...)...).run(t); r.code != 1 || !strings.Contains(r.stderr, "2 of tee are asked for and 1 available") || strings.Contains(r.stderr, "--force") {
		t.Errorf("while it is short: %+v", r)
	}
	d.inventory("set", "tee", "4").must(t)
	expect(t, "restocked", review("list"), `(?m)^`+first.ID+` .*- +- +- +all of its items$`)
	expect(t, "show, restocked", review("show", first.ID), `(?m)^to do .*: --as succeeded takes its items, of which there are enough now; or refund`)
	expect(t, "settle", review(settle...), `is succeeded\.\n$`)
	if c := d.charge(api, first.IdempotencyKey); c.Stock != client.StockTaken {
		t.Errorf("settled: %s", c.Raw)
	}
	expect(t, "left to others", review("settle", second.ID, "--as=succeeded", "--without-items", "--because=refunded at Stripe"), `is succeeded\.\n$`)
	if c := d.charge(api, second.IdempotencyKey); c.Stock != client.StockReturned {
		t.Errorf("without its items: %s", c.Raw)
	}
	expect(t, "restocked in one step", review("settle", third.ID, "--as=succeeded", "--restock", "--because=found two more"), `is succeeded\.\n$`)
	if c := d.charge(api, third.IdempotencyKey); c.Stock != client.StockTaken {
		t.Errorf("restocked: %s", c.Raw)
	}
	expect(t, "in the end", d.inventory("list").must(t), `(?m)^mug +9 +7 +0 +2 `, `(?m)^tee +6 +0 +0 +6 `)
}
