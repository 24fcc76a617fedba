package workers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/stocktest"
)

// shelf is what the worlds' shop sells, and how many of each it has at first: few, so that they run out.
var shelf = map[string]int64{"cup": 1, "mug": 2, "tee": 3}

var skus = []string{"cup", "mug", "tee"}

// sale is what a buyer asks for besides paying.
type sale struct {
	items      []charges.Item
	sendBefore time.Duration // from now; zero: any time
}

func one(sku string) sale { return sale{items: []charges.Item{{SKU: sku, Quantity: 1}}} }

// sell posts a charge with items. It is accepted exactly if there is enough of all of them; -1: it was refused.
func (w *world) sell(method, receiptTo string, s sale) int {
	w.t.Helper()
	return w.try(buys(method, receiptTo, s))
}

func buys(method, receiptTo string, s sale) charges.CreateCharge {
	c := charges.CreateCharge{Caller: "shop", Key: uuid.New(), Request: charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: method,
		CaptureMethod: charges.CaptureAutomatic, ReceiptEmail: receiptTo, ReturnURL: "https://shop.example/back", Items: s.items}}
	if s.sendBefore > 0 {
		at := time.Now().Add(s.sendBefore).UTC().Truncate(time.Second)
		c.Request.SendBefore = &at
	}
	return c
}

// rush has two buyers ask for the same in the same moment: both have seen that there is one, and wait for its row.
func (w *world) rush(sku string) {
	w.t.Helper()
	ctx := context.Background()
	holder, err := w.stage.pool.Begin(ctx)
	if err == nil {
		_, err = holder.Exec(ctx, `SELECT FROM inventory WHERE sku = $1 FOR UPDATE`, sku)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(ctx) }()
	buying := make(chan charges.Answer, 2)
	for range 2 {
		go func() { buying <- w.charges.Create(ctx, buys("pm_card_visa", "", one(sku))) }()
	}
	for waits, until := 0, time.Now().Add(runBound); waits < 2; {
		if err := w.stage.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits); err != nil {
			w.t.Fatal(err)
		}
		if time.Now().After(until) {
			w.t.Fatalf("%d of two buyers wait", waits)
		}
	}
	if err := holder.Rollback(ctx); err != nil {
		w.t.Fatal(err)
	}
	accepted := 0
	for range 2 {
		switch a := <-buying; {
		case a.Err == nil:
			accepted++
		case !errors.As(a.Err, new(*charges.InsufficientInventoryError)):
			w.t.Errorf("stock: a buyer was answered %v", a.Err)
		}
	}
	rows := 0
	if err := w.stage.pool.QueryRow(ctx, `SELECT count(*) FROM charge`).Scan(&rows); err != nil {
		w.t.Fatal(err)
	}
	if accepted != 1 || rows != 1 {
		w.t.Errorf("stock: of two buyers of one %s %d were accepted, and %d have charges", sku, accepted, rows)
	}
	w.checkStock()
}

// try posts a charge whose key has no charge yet.
func (w *world) try(c charges.CreateCharge) int {
	w.t.Helper()
	want, before := w.short(c.Request.Items), w.rows()
	a := w.charges.Create(context.Background(), c)
	short := (*charges.InsufficientInventoryError)(nil)
	switch {
	case len(want) == 0 && a.Err == nil:
		w.posts, w.answers, w.ids = append(w.posts, c), append(w.answers, a), append(w.ids, a.ChargeID)
		return len(w.ids) - 1
	case len(want) > 0 && errors.As(a.Err, &short):
		if !slices.Equal(short.Short, want) {
			w.t.Fatalf("stock: refused for want of %+v, and short are %+v", short.Short, want)
		}
		if after := w.rows(); after != before {
			w.t.Fatalf("stock: a refused charge left %d rows", after-before)
		}
		w.refused = append(w.refused, c)
		return -1
	default:
		w.t.Fatalf("stock: short are %+v, and the answer is %v", want, a.Err)
		return -1
	}
}

// tryAgain posts again what was refused, under its key, which is as good as new: for another request, too.
func (w *world) tryAgain(i int, same bool) {
	w.t.Helper()
	c := w.refused[i]
	w.refused = slices.Delete(w.refused, i, i+1)
	if !same {
		c.Request.Amount++
		c.Request.Items = c.Request.Items[:1]
	}
	w.try(c)
}

// short is what there is too little of.
func (w *world) short(items []charges.Item) (short []charges.Shortage) {
	w.t.Helper()
	for _, i := range items {
		if v := w.inventory(i.SKU); v.Available < i.Quantity {
			short = append(short, charges.Shortage{SKU: i.SKU, Requested: i.Quantity, Available: v.Available, Stocked: true})
		}
	}
	return short
}

func (w *world) inventory(sku string) charges.Inventory {
	w.t.Helper()
	v, err := w.charges.Inventory(context.Background(), sku)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// rows are all that a create can leave behind.
func (w *world) rows() (n int) {
	w.t.Helper()
	if err := w.stage.pool.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM charge) + (SELECT count(*) FROM charge_item) +
		(SELECT count(*) FROM charge_event) + (SELECT count(*) FROM idempotency_key) + (SELECT count(*) FROM river_job)`).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// stock sets how many of a SKU were ever stocked. It is refused exactly if more is held and taken.
func (w *world) stock(sku string, quantity int64) {
	w.t.Helper()
	held, known := int64(0), (*charges.QuantityError)(nil)
	if _, before := w.stocked[sku]; before {
		v := w.inventory(sku)
		held = v.Held + v.Taken
	}
	_, err := w.charges.SetInventory(context.Background(), sku, quantity, "operator:ann")
	switch {
	case err == nil && quantity >= held:
		w.stocked[sku] = quantity
	case errors.As(err, &known) && quantity < held:
	default:
		w.t.Fatalf("stock: set to %d while %d of %s are allocated: %v", quantity, held, sku, err)
	}
}

// checkStock holds the law of the stock, and that what is shown of a SKU adds up to what was stocked.
func (w *world) checkStock() {
	w.t.Helper()
	faults, err := stocktest.Faults(context.Background(), w.stage.pool)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, fault := range faults {
		w.t.Fatalf("stock: %s", fault)
	}
	for _, sku := range skus {
		v := w.inventory(sku)
		if v.Available+v.Held+v.Taken != w.stocked[sku] || v.Quantity != w.stocked[sku] || min(v.Available, v.Held, v.Taken) < 0 {
			w.t.Fatalf("stock: %d were stocked, and there are %+v", w.stocked[sku], v)
		}
	}
}

// checkSold holds, when all is final, that nothing is held, and that what is taken is what those who have paid asked for: all but those
// whom a person has called paid without it.
func (w *world) checkSold() {
	w.t.Helper()
	sold := map[string]int64{}
	for i, id := range w.ids {
		c := w.get(id)
		if !c.Status.Final() {
			w.t.Fatalf("I3: charge %d is %s", i, c.Status)
		}
		if c.Status == charges.Succeeded && !w.without[i] {
			for _, item := range w.posts[i].Request.Items {
				sold[item.SKU] += item.Quantity
			}
		}
	}
	for _, sku := range skus {
		if v := w.inventory(sku); v.Held != 0 || v.Taken != sold[sku] {
			w.t.Fatalf("stock: all is over, %d of %s were sold, and there are %+v", sold[sku], sku, v)
		}
	}
}
