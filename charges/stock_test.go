package charges

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lawBroken lists what contradicts the law of stock, read in one snapshot: for each SKU as much is allocated as charges hold and have taken, and each
// charge's items are where its status wants them.
const lawBroken = `
SELECT format('%s: %s allocated, %s held and taken', v.sku, v.allocated, sum(i.quantity))
  FROM inventory v LEFT JOIN charge_item i ON i.sku = v.sku AND i.stock IN ('held', 'taken')
 GROUP BY v.sku HAVING v.allocated <> coalesce(sum(i.quantity), 0) OR v.allocated > v.quantity
 UNION ALL
SELECT format('charge %s is %s, its items are %s and %s', c.id, c.status, c.stock, i.stock)
  FROM charge c FULL JOIN charge_item i ON i.charge_id = c.id
 WHERE c.stock IS DISTINCT FROM i.stock
    OR c.status IN ('failed', 'canceled') AND c.stock <> 'returned' OR c.status = 'succeeded' AND c.stock = 'held'`

// lawful fails the test where stock and charges contradict each other.
func (f *fixture) lawful(t *testing.T) {
	t.Helper()
	rows, err := f.pool.Query(t.Context(), lawBroken)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var broken string
		if err := rows.Scan(&broken); err != nil {
			t.Fatal(err)
		}
		t.Error(broken)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) stock(t *testing.T, sku string, quantity int64) {
	t.Helper()
	if _, err := f.SetInventory(t.Context(), sku, quantity, "operator:ada"); err != nil {
		t.Fatal(err)
	}
}

// wantStock compares what there is of a SKU, and asks the law.
func (f *fixture) wantStock(t *testing.T, sku string, available, held, taken int64) {
	t.Helper()
	v, err := f.Inventory(t.Context(), sku)
	if err != nil {
		t.Fatal(err)
	}
	if v.Available != available || v.Held != held || v.Taken != taken || v.Quantity != available+held+taken {
		t.Errorf("of %s %d are available, %d held and %d taken; want %d, %d and %d", sku, v.Available, v.Held, v.Taken, available, held, taken)
	}
	f.lawful(t)
}

func selling(items ...Item) Request { return request(func(r *Request) { r.Items = items }) }

func one(sku string) Item { return Item{SKU: sku, Quantity: 1} }

// I7: what a charge holds follows its status, wherever that leads, and is nobody else's as long as it may still be paid for.
func TestI7StockFollowsStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for name, tc := range map[string]struct {
		results []Result // of its one attempt, and of what is heard of it later
		want    []Stock
	}{
		"succeeds":              {[]Result{answered("succeeded", "pi_a")}, []Stock{StockTaken}},
		"is declined":           {[]Result{declined("pi_b")}, []Stock{StockReturned}},
		"waits for its buyer":   {[]Result{answered("requires_action", "pi_c"), answered("succeeded", "pi_c")}, []Stock{StockHeld, StockTaken}},
		"is abandoned":          {[]Result{answered("requires_action", "pi_d"), answered("canceled", "pi_d")}, []Stock{StockHeld, StockReturned}},
		"takes days":            {[]Result{answered("processing", "pi_e"), declined("pi_e")}, []Stock{StockHeld, StockReturned}},
		"is captured later":     {[]Result{answered("requires_capture", "pi_f"), answered("succeeded", "pi_f")}, []Stock{StockHeld, StockTaken}},
		"has no answer":         {[]Result{{Outcome: Unknown}}, []Stock{StockHeld}},
		"needs a person":        {[]Result{{Outcome: StoredFailure, Change: Change{To: NeedsReview, Reason: "stored_failure"}}}, []Stock{StockHeld}},
		"was declined, by code": {[]Result{{Outcome: Answered, Change: Change{To: Failed, Failure: &Failure{Code: "card_declined", Advice: RetryLater}}}}, []Stock{StockReturned}},
	} {
		sku := "sku-" + uuid.NewString()
		f.stock(t, sku, 5)
		id := f.create(t, selling(Item{SKU: sku, Quantity: 3}))
		f.wantStock(t, sku, 2, 3, 0)
		b := f.begin(t, id, Send)
		f.wantStock(t, sku, 2, 3, 0)
		for i, r := range tc.results {
			if i == 0 {
				f.settle(t, b, r)
			} else {
				r.News.AsOf = r.News.AsOf.Add(time.Minute)
				f.hear(t, id, *r.News)
			}
			c, err := f.Get(t.Context(), "shop", id)
			if err != nil || c.Stock == nil || *c.Stock != tc.want[i] {
				t.Errorf("%s: after %d it is %s with its items %v, %v; want %s", name, i+1, c.Status, c.Stock, err, tc.want[i])
			}
			switch tc.want[i] {
			case StockHeld:
				f.wantStock(t, sku, 2, 3, 0)
			case StockTaken:
				f.wantStock(t, sku, 2, 0, 3)
			default:
				f.wantStock(t, sku, 5, 0, 0)
			}
		}
	}
}

// A charge that was not sent in time gives back what it held, and one that could still be sent holds it, however old it is.
func TestStockOfSendBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 2)
	soon := time.Now().Add(time.Hour)
	r := selling(one("tee"))
	r.SendBefore = &soon
	id, other := f.create(t, r), f.create(t, selling(one("tee")))
	f.exec(t, `UPDATE charge SET request = jsonb_set(request::jsonb, '{send_before}', '"2020-01-01T00:00:00.000000Z"') WHERE id = $1`, id)
	f.exec(t, `UPDATE charge SET created_at = now() - interval '40 days' WHERE id = $1`, other)
	f.wantStock(t, "tee", 0, 2, 0)
	f.begin(t, id, Nothing)
	if got := f.status(t, id); got != Canceled {
		t.Fatalf("it is %s", got)
	}
	f.wantStock(t, "tee", 1, 1, 0)
}

// A refused charge leaves nothing, and disturbs none of those that share its transaction; its key can be used again, even for another request. Those
// who come first are served first, and a smaller order after a refused one gets what that could not.
func TestI1RefusedForWantOfStock(t *testing.T) {
	t.Parallel()
	for name, direct := range map[string]bool{"refused without a lock": false, "refused under the lock": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{})
			f.stock(t, "cap", 2)
			f.stock(t, "tee", 4)
			creates := []CreateCharge{
				{Request: selling(Item{"tee", 3}, one("cap"))},
				{Request: selling(Item{"tee", 5}, Item{"cap", 9}, one("never-stocked"))}, // never in stock
				{Request: selling(one("cap"), Item{"tee", 2})},                           // too late: one tee is left
				{Request: request()},
				{Request: selling(one("tee"))}, // the last one
				{Request: selling(one("tee"))},
				{Request: selling(one("cap"))},
			}
			for i := range creates {
				creates[i].Caller, creates[i].Key = "shop", uuid.New()
			}
			if direct { // what is short is known under the lock alone
				creates[1].Request = selling(Item{"tee", 2})
			}
			answers := f.createAll(t, creates)
			for i, accepted := range []bool{true, false, false, true, true, false, true} {
				var short *InsufficientInventoryError
				if a := answers[i]; accepted != (a.Err == nil) || !accepted && !errors.As(a.Err, &short) {
					t.Errorf("%d: %+v", i, a)
				}
			}
			var short *InsufficientInventoryError
			if errors.As(answers[1].Err, &short); !direct && fmt.Sprint(short.Short) != "[{cap 9 2} {never-stocked 1 0} {tee 5 4}]" {
				t.Errorf("short are %v", short.Short)
			}
			f.wantStock(t, "tee", 0, 4, 0)
			f.wantStock(t, "cap", 0, 2, 0)
			for _, table := range []string{"charge", "idempotency_key", "charge_event", "river_job"} {
				if n := f.count(t, `SELECT count(*) FROM `+table); n != 4 {
					t.Errorf("%s has %d rows", table, n)
				}
			}
			creates[1].Request = request()
			for i, again := range f.createAll(t, creates) {
				if want := answers[i].Err == nil || i == 1; want != (again.Err == nil) || answers[i].Err == nil && (!again.Replayed || string(again.Body) != string(answers[i].Body)) {
					t.Errorf("%d again: %+v", i, again)
				}
			}
			f.stock(t, "tee", 6)
			f.stock(t, "cap", 3)
			if a := f.Create(t.Context(), creates[2]); a.Err != nil || a.Replayed {
				t.Errorf("restocked: %+v", a)
			}
			f.wantStock(t, "tee", 0, 6, 0)
		})
	}
}

// I4: while the charge that holds the last item is being accepted, the same request under its key waits for it, and is not told that nothing is left.
func TestI4TwinOfTheLastItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	create := CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))}
	first := newClaim(create)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if err := f.acceptIn(t.Context(), tx, []*claim{first}); err != nil {
		t.Fatal(err)
	}
	twin, stranger := make(chan Answer, 1), make(chan Answer, 1)
	other := open(t, f, Options{})
	go func() { twin <- f.Create(t.Context(), create) }()
	go func() {
		stranger <- other.Create(t.Context(), CreateCharge{Caller: "rival", Key: uuid.New(), Request: create.Request})
	}()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) && f.count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) < 2 {
		time.Sleep(5 * time.Millisecond) // the pace of the poll
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-twin; a.Err != nil || !a.Replayed || a.ChargeID != first.charge.ID {
		t.Errorf("the twin: %+v", a)
	}
	var short *InsufficientInventoryError
	if a := <-stranger; !errors.As(a.Err, &short) {
		t.Errorf("another buyer: %+v", a)
	}
	f.wantStock(t, "tee", 0, 1, 0)
}

// open returns a service as another process would have it.
func open(t *testing.T, f *fixture, o Options) *fixture {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), f.pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &fixture{Service: New(pool, f.box, o), pool: pool, box: f.box, home: f.home, clock: f.clock}
}

// Charges for the same SKUs, named in any order, are accepted, paid for and declined by two processes at once: they wait for each other, and never in
// a circle.
func TestStockWithoutDeadlock(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const buyers, rounds = 12, 8
	skus := []string{"a", "b", "c", "d"}
	for _, sku := range skus {
		f.stock(t, sku, buyers*rounds)
	}
	f.exec(t, fmt.Sprintf(`ALTER DATABASE %s SET deadlock_timeout = '1ms'`, pgx.Identifier{f.pool.Config().ConnConfig.Database}.Sanitize())) // before any other bound
	processes := []*fixture{open(t, f, Options{Apart: true}), open(t, f, Options{})}                                                         // many transactions, and large ones
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			for k := range rounds {
				p := processes[(i+k)%2]
				var items []Item
				for j := range skus {
					items = append(items, one(skus[(i+k+j*(1+2*(i%2)))%len(skus)])) // forwards or backwards, from another one on
				}
				a := p.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(items[:2+k%3]...)})
				if a.Err != nil {
					t.Errorf("create: %v", a.Err)
					return
				}
				b, err := p.Begin(t.Context(), a.ChargeID, p.here(true))
				if err != nil || b.Action != Send {
					t.Errorf("begin: %q, %v", b.Action, err)
					return
				}
				result := declined(fmt.Sprintf("pi_%d_%d", i, k))
				if k%4 == 0 {
					result = answered("succeeded", fmt.Sprintf("pi_%d_%d", i, k))
				}
				if _, err := p.Settle(t.Context(), b.Attempt, result); err != nil {
					t.Errorf("settle: %v", err)
				}
			}
		})
	}
	all.Wait()
	f.lawful(t)
	for _, p := range processes {
		p.pool.Close() // and so tell the server what there was
	}
	if n := f.count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := f.count(t, `SELECT count(*) FROM charge_item WHERE stock = 'held'`); n != 0 {
		t.Errorf("%d items are held", n)
	}
}

// What a hundred charges of one transaction give back is given back, each piece once, and what they take is taken.
func TestStockOfAHundred(t *testing.T) {
	t.Parallel()
	const n = 100
	f := newFixture(t, Options{})
	f.stock(t, "cap", 2*n)
	f.stock(t, "tee", n)
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = f.create(t, selling(one("tee"), Item{"cap", 2}))
	}
	f.wantStock(t, "cap", 0, 2*n, 0)
	c := f.shareAll(n)
	begun := make([]Begun, n)
	for _, err := range c.do(t, n, func(i int) (err error) { begun[i], err = f.Begin(t.Context(), ids[i], f.here(true)); return err }) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range c.do(t, n, func(i int) error {
		result := declined(fmt.Sprintf("pi_%d", i))
		if i%4 == 0 {
			result = answered("succeeded", fmt.Sprintf("pi_%d", i))
		}
		_, err := f.Settle(t.Context(), begun[i].Attempt, result)
		return err
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.wantStock(t, "tee", n*3/4, 0, n/4)
	f.wantStock(t, "cap", n*3/2, 0, n/2)
}

// I7: a payment that succeeds after its charge was over, and after its items were given back, has them again; where nothing is left, a person is
// asked, and cannot call it done as if there were.
func TestI7LateSuccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	late := func(payment string, taken int64) (id uuid.UUID) {
		t.Helper()
		id = f.create(t, request(func(r *Request) { r.Items, r.ReceiptEmail = []Item{one("tee")}, "buyer@example.com" }))
		f.settle(t, f.begin(t, id, Send), declined(payment))
		f.wantStock(t, "tee", 1, 0, taken)
		return id
	}
	success := func(payment string) News {
		n := said("succeeded", payment)
		n.AsOf, n.Received = n.AsOf.Add(time.Minute), 1099
		return n
	}

	first, second := late("pi_1", 0), late("pi_2", 0)
	if note := f.hear(t, first, success("pi_1")); note != PaidAfterEnd || f.status(t, first) != Succeeded {
		t.Errorf("the first: %s, %s", note, f.status(t, first))
	}
	f.wantStock(t, "tee", 0, 0, 1)
	for range 2 { // as events do, it comes again
		if f.hear(t, second, success("pi_2")); f.status(t, second) != NeedsReview {
			t.Errorf("the second is %s", f.status(t, second))
		}
	}
	f.wantStock(t, "tee", 0, 0, 1)
	c, err := f.Get(t.Context(), "shop", second)
	if err != nil || c.Review == nil || c.Review.Reason != InsufficientInventory || *c.Stock != StockReturned || c.PaymentIntent == nil || c.Receipt != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if e := f.lastEvent(t, second); e.Type != "charge.needs_review" || fmt.Sprint(e.Data["short"]) != "[map[available:0 requested:1 sku:tee]]" {
		t.Errorf("its trail ends with %+v", e)
	}

	var refused *RulingError
	ruling := Ruling{As: Succeeded, Because: "the buyer waits", Actor: "operator:ada"}
	if _, err := f.Rule(t.Context(), second, ruling); !errors.As(err, &refused) || !refused.Forceable {
		t.Errorf("while nothing is left: %v", err)
	}
	f.stock(t, "tee", 2)
	if c, err := f.Rule(t.Context(), second, ruling); err != nil || c.Status != Succeeded || *c.Stock != StockTaken || c.Receipt == nil {
		t.Errorf("once there is one: %+v, %v", c, err)
	}
	f.wantStock(t, "tee", 0, 0, 2)

	f.stock(t, "tee", 3)
	third, fourth := late("pi_3", 2), uuid.UUID{}
	fourth = f.create(t, selling(one("tee")))
	f.hear(t, third, success("pi_3"))
	ruling.Force = true
	if c, err := f.Rule(t.Context(), third, ruling); err != nil || c.Status != Succeeded || *c.Stock != StockReturned || c.AmountCaptured != 1099 {
		t.Errorf("forced: %+v, %v", c, err)
	}
	f.wantStock(t, "tee", 0, 1, 2)
	f.settle(t, f.begin(t, fourth, Send), answered("succeeded", "pi_4"))
	f.wantStock(t, "tee", 0, 0, 3)
}

// What a person decides moves the items as what Stripe says does.
func TestStockOfRulings(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	stored := Result{Outcome: StoredFailure, HTTPStatus: 500, Change: Change{To: NeedsReview, Reason: "stored_failure"}}
	id := f.create(t, selling(one("tee")))
	f.settle(t, f.begin(t, id, Send), stored)
	f.wantStock(t, "tee", 0, 1, 0)
	f.rule(t, id, Ruling{As: Succeeded, Payment: "pi_9"})
	f.wantStock(t, "tee", 0, 0, 1)
	n := said("canceled", "pi_9") // Stripe knows better
	if note := f.hear(t, id, n); note != RulingContradicted {
		t.Errorf("%s", note)
	}
	f.wantStock(t, "tee", 0, 0, 1)
	f.rule(t, id, Ruling{As: Failed, Force: true})
	f.wantStock(t, "tee", 1, 0, 0)
}

// A process of a release that knows nothing of items cannot end a charge and leave them held, nor open one and leave them taken.
func TestStockUnknownToAnOlderRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	id := f.create(t, selling(one("tee")))
	for _, status := range []string{"succeeded", "failed", "canceled"} {
		_, err := f.pool.Exec(t.Context(), `UPDATE charge SET status = $2, payment_intent = 'pi_1', failure_code = 'x' WHERE id = $1`, id, status)
		if err == nil {
			t.Errorf("it became %s with its items held", status)
		}
	}
	f.wantStock(t, "tee", 0, 1, 0)
}

func TestSetInventory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 3)
	f.create(t, selling(Item{"tee", 2}))
	before, err := f.Inventory(t.Context(), "tee")
	if err != nil {
		t.Fatal(err)
	}
	f.stock(t, "tee", 3)
	if again, err := f.Inventory(t.Context(), "tee"); err != nil || again != before {
		t.Errorf("set again: %+v, %v; was %+v", again, err, before)
	}
	var less *QuantityError
	if _, err := f.SetInventory(t.Context(), "tee", 1, "operator:ada"); !errors.As(err, &less) || less.Inventory.Held != 2 {
		t.Errorf("less than is held: %v", err)
	}
	f.wantStock(t, "tee", 1, 2, 0)
	f.stock(t, "tee", 2)
	f.stock(t, "cap", 0)
	f.wantStock(t, "tee", 0, 2, 0)
	list, more, err := f.ListInventory(t.Context(), "", 1)
	if err != nil || !more || len(list) != 1 || list[0].SKU != "cap" {
		t.Errorf("%+v, %v, %v", list, more, err)
	}
	if list, more, err = f.ListInventory(t.Context(), "cap", 1); err != nil || more || len(list) != 1 || list[0].SKU != "tee" {
		t.Errorf("%+v, %v, %v", list, more, err)
	}
	var invalid *InvalidError
	for sku, quantity := range map[string]int64{"": 1, "a b": 1, "-a": 1, "fine": -1, "fine2": MaxStock + 1} {
		if _, err := f.SetInventory(t.Context(), sku, quantity, "operator:ada"); !errors.As(err, &invalid) {
			t.Errorf("%q, %d: %v", sku, quantity, err)
		}
	}
	if _, err := f.Inventory(t.Context(), "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if n := f.count(t, `SELECT count(*) FROM operator_action WHERE action = 'inventory.set' AND actor = 'operator:ada'`); n != 3 {
		t.Errorf("%d actions on record", n)
	}
}
