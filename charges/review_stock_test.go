package charges

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// paidLate is a charge for items whose payment has succeeded after it was over, when others held all that there is of them.
func (f *fixture) paidLate(t *testing.T, payment string, items ...Item) uuid.UUID {
	t.Helper()
	id := f.create(t, request(func(r *Request) { r.Items, r.ReceiptEmail = items, "buyer@example.com" }))
	f.settle(t, f.begin(t, id, Send), declined(payment))
	for _, i := range items {
		if v, err := f.Inventory(t.Context(), i.SKU); err != nil {
			t.Fatal(err)
		} else if v.Available > 0 {
			f.create(t, selling(Item{i.SKU, v.Available}))
		}
	}
	n := said("succeeded", payment)
	n.AsOf, n.Received = n.AsOf.Add(time.Minute), 1099
	if f.hear(t, id, n); f.status(t, id) != NeedsReview {
		t.Fatalf("paid late, it is %s", f.status(t, id))
	}
	return id
}

// refund puts on record that so much of a charge's payment was given back.
func (f *fixture) refund(t *testing.T, id uuid.UUID, payment string, amount int64) {
	t.Helper()
	f.exec(t, `INSERT INTO refund (id, charge_id, payment, amount, currency, status, as_of) VALUES ($1, $2, $3, $4, 'usd', 'succeeded', now())`,
		"re_"+uuid.NewString(), id, payment, amount)
}

// Whoever settles a charge that is short is told of everything that is, and stocks it in the same step, or leaves it to others.
func TestRulingsOfWhatIsShort(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for sku, n := range map[string]int64{"cap": 2, "mug": 4, "tee": 3} {
		f.stock(t, sku, n)
	}
	id := f.paidLate(t, "pi_1", one("cap"), Item{"mug", 2}, Item{"tee", 3})
	f.stock(t, "mug", 9)
	f.stock(t, "tee", 4)

	var refused *RulingError
	_, err := f.tryRule(t, id, Ruling{As: Succeeded, Force: true})
	if !errors.As(err, &refused) || refused.Forceable {
		t.Fatalf("short: %v", err)
	}
	for _, text := range []string{"1 of cap are asked for and 0 available", "3 of tee are asked for and 1 available", "--restock", "refund", "--without-items"} {
		if !strings.Contains(refused.Why, text) {
			t.Errorf("%q does not say %q", refused.Why, text)
		}
	}
	if strings.Contains(refused.Why, "mug") {
		t.Errorf("%q names what there is enough of", refused.Why)
	}
	f.wantStock(t, "tee", 1, 3, 0)

	c := f.rule(t, id, Ruling{As: Succeeded, Restock: true})
	if c.Status != Succeeded || *c.Stock != StockTaken || c.Receipt == nil {
		t.Errorf("restocked: %+v", c)
	}
	f.wantStock(t, "cap", 0, 2, 1)
	f.wantStock(t, "mug", 3, 4, 2)
	f.wantStock(t, "tee", 0, 3, 3)
	if n := f.count(t, `SELECT count(*) FROM operator_action WHERE action = 'inventory.set' AND actor = 'operator:ann' AND data ->> 'charge' = $1
		AND (target, data ->> 'from', data ->> 'to') IN (('cap', '2', '3'), ('tee', '4', '6'))`, id.String()); n != 2 {
		t.Errorf("%d SKUs were set, by what is written down", n)
	}
	if e := f.lastEvent(t, id); fmt.Sprint(e.Data["restocked"]) != "[map[from:2 sku:cap to:3] map[from:4 sku:tee to:6]]" {
		t.Errorf("its trail ends with %+v", e)
	}

	// Where there is enough of it nothing is stocked, and what is left to others stays theirs.
	restocked := f.paidLate(t, "pi_2", one("mug"))
	f.stock(t, "mug", 10)
	left := f.paidLate(t, "pi_3", one("mug"))
	f.stock(t, "mug", 12)
	v, err := f.Inventory(t.Context(), "mug")
	if err != nil || v.Available < 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	f.rule(t, restocked, Ruling{As: Succeeded, Restock: true})
	if c := f.rule(t, left, Ruling{As: Succeeded, WithoutItems: true}); c.Status != Succeeded || *c.Stock != StockReturned || c.Receipt == nil {
		t.Errorf("without its items: %+v", c)
	}
	if e := f.lastEvent(t, left); e.Data["without_items"] != true || e.Data["stock"] != string(StockReturned) || e.Data["forced"] != nil {
		t.Errorf("its trail ends with %+v", e)
	}
	f.wantStock(t, "mug", v.Available-1, v.Held, v.Taken+1)
	f.stock(t, "cap", 4)
	full := f.paidLate(t, "pi_4", one("cap"))
	f.exec(t, `UPDATE inventory SET quantity = $1, allocated = $1 WHERE sku = 'cap'`, int64(MaxStock))
	if _, err := f.tryRule(t, full, Ruling{As: Succeeded, Restock: true}); !errors.As(err, &refused) || !strings.Contains(refused.Why, "no more than") {
		t.Errorf("past all bounds: %v", err)
	}
}

// Who buys the same while it is restocked does not get there first.
func TestRestockIsNobodyElses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	id := f.paidLate(t, "pi_1", one("tee"))
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			if a := f.Create(t.Context(), CreateCharge{Caller: "rival", Key: uuid.New(), Request: selling(one("tee"))}); a.Err == nil {
				n++
			}
		}
	}()
	f.rule(t, id, Ruling{As: Succeeded, Restock: true})
	close(stop)
	if n := <-done; n != 0 {
		t.Errorf("%d others have bought what was stocked for it", n)
	}
	f.wantStock(t, "tee", 0, 1, 1)
}

// Who has their money back is not sent what they ordered, nor a receipt, but where a person knows better.
func TestRulingsOfWhatWasRefunded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	partly := f.paidLate(t, "pi_1", one("tee"))
	f.stock(t, "tee", 2)
	fully := f.paidLate(t, "pi_2", one("tee"))
	f.stock(t, "tee", 3)
	forced := f.paidLate(t, "pi_3", one("tee"))
	f.stock(t, "tee", 6)
	f.refund(t, partly, "pi_1", 1098)
	f.refund(t, fully, "pi_2", 1000)
	f.refund(t, fully, "pi_2", 99)
	f.refund(t, forced, "pi_3", 1099)

	if c := f.rule(t, partly, Ruling{As: Succeeded}); *c.Stock != StockTaken || c.Receipt == nil {
		t.Errorf("refunded in part: %+v", c)
	}
	var refused *RulingError
	for _, r := range []Ruling{{As: Succeeded}, {As: Succeeded, Restock: true}} {
		if _, err := f.tryRule(t, fully, r); !errors.As(err, &refused) || !refused.Forceable || !strings.Contains(refused.Why, "refunded in full") ||
			!strings.Contains(refused.Why, "--without-items") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if c := f.rule(t, fully, Ruling{As: Succeeded, WithoutItems: true}); *c.Stock != StockReturned || c.Receipt != nil || c.AmountRefunded != 1099 {
		t.Errorf("refunded in full: %+v", c)
	}
	if c := f.rule(t, forced, Ruling{As: Succeeded, Force: true}); *c.Stock != StockTaken || c.Receipt != nil {
		t.Errorf("refunded in full, by force: %+v", c)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'receipt' AND args ->> 'charge_id' <> $1`, partly.String()); n != 0 {
		t.Errorf("%d receipts are to be sent for what was refunded", n)
	}
	f.lawful(t)
}

// What is said of items fits a charge whose items were given back, and that has succeeded.
func TestRulingsThatNameItemsInVain(t *testing.T) {
	t.Parallel()
	returned, taken := StockReturned, StockTaken
	for _, tc := range []struct {
		r     Ruling
		stock *Stock
		why   string
	}{
		{Ruling{As: Succeeded, WithoutItems: true}, &returned, ""},
		{Ruling{As: Succeeded, Restock: true}, &returned, ""},
		{Ruling{As: Succeeded, WithoutItems: true}, nil, "no items that were given back"},
		{Ruling{As: Succeeded, Restock: true}, nil, "no items that were given back"},
		{Ruling{As: Succeeded, WithoutItems: true}, &taken, "no items that were given back"},
		{Ruling{As: Succeeded, WithoutItems: true, Restock: true}, &returned, "needs none stocked"},
		{Ruling{As: Failed, WithoutItems: true}, &returned, "only where it has succeeded"},
		{Ruling{As: Processing, Restock: true}, &returned, "only where it has succeeded"},
	} {
		payment := "pi_1"
		tc.r.Because, tc.r.Force = "seen", true
		err := tc.r.check(dossier{charge: Charge{Status: NeedsReview, Stock: tc.stock, PaymentIntent: &payment, Request: Request{Amount: 1099}}})
		if (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%+v of %v: %v, want %q", tc.r, tc.stock, err, tc.why)
		}
	}
}

// Whoever must decide about a charge that is short sees what became of its order: another charge of it that goes on, the likeliest reason, comes first.
func TestOthersOfAnOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	order := func(r *Request) { r.Reference = "order-1" }
	var failed []uuid.UUID
	for i := range 2 {
		id := f.create(t, request(order))
		f.settle(t, f.begin(t, id, Send), declined(fmt.Sprintf("pi_f%d", i)))
		failed = append(failed, id)
	}
	f.stock(t, "tee", 1)
	id := f.create(t, request(order, func(r *Request) { r.Items = []Item{one("tee")} }))
	f.settle(t, f.begin(t, id, Send), declined("pi_1"))
	again := f.create(t, request(order, func(r *Request) { r.Items = []Item{one("tee")} }))
	for caller, reference := range map[string]string{"rival": "order-1", "shop": "order-2"} {
		if a := f.Create(t.Context(), CreateCharge{Caller: caller, Key: uuid.New(), Request: request(func(r *Request) { r.Reference = reference })}); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	n := said("succeeded", "pi_1")
	n.AsOf, n.Received = n.AsOf.Add(time.Minute), 1099
	f.hear(t, id, n)
	f.refund(t, id, "pi_1", 99)

	e, err := f.Evidence(t.Context(), id)
	if err != nil || e.Charge.AmountRefunded != 99 || fmt.Sprint(e.Others) != fmt.Sprint([]OtherCharge{{again, Pending}, {failed[1], Failed}, {failed[0], Failed}}) {
		t.Errorf("evidence: %+v, %v", e, err)
	}
	list, _, err := f.Reviews(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].Received != 1099 || list[0].Charge.AmountRefunded != 99 || fmt.Sprint(list[0].Others) != fmt.Sprint([]OtherCharge{{again, Pending}}) {
		t.Errorf("reviews: %+v, %v", list, err)
	}
	if e, err := f.Evidence(t.Context(), f.create(t, request())); err != nil || e.Others == nil || len(e.Others) != 0 {
		t.Errorf("of a charge without a reference: %+v, %v", e, err)
	}
}
