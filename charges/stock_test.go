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

	"github.com/oncepay/oncepay/charges/stocktest"
)

// lawful fails the test where stock and charges contradict each other.
func (f *fixture) lawful(t *testing.T) {
	t.Helper()
	faults, err := stocktest.Faults(t.Context(), f.pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
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

// awaitLocks waits until so many sessions wait for what others have locked.
func (f *fixture) awaitLocks(t *testing.T, sessions int) {
	t.Helper()
	waiting := 0
	for deadline := time.Now().Add(30 * time.Second); waiting < sessions; time.Sleep(time.Millisecond) { // the pace of the poll
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions wait for a lock, want %d", waiting, sessions)
		}
		waiting = f.count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	}
}

// keep locks a SKU's row, as another process does that does not come to its end.
func (f *fixture) keep(t *testing.T, sku string) (letGo func()) {
	t.Helper()
	tx, err := f.pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT FROM inventory WHERE sku = $1 FOR NO KEY UPDATE`, sku)
	}
	if err != nil {
		t.Fatal(err)
	}
	letGo = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(letGo)
	return letGo
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
			if errors.As(answers[1].Err, &short); !direct && fmt.Sprint(short.Short) != "[{cap 9 2 true} {never-stocked 1 0 false} {tee 5 4 true}]" {
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
	f.awaitLocks(t, 2)
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

// Where a SKU's row does not change, for whatever reason, no charge is accepted as if it held its items.
func TestStockThatIsNotAllocated(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	f.exec(t, `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	f.exec(t, `CREATE TRIGGER nothing BEFORE UPDATE ON inventory FOR EACH ROW EXECUTE FUNCTION nothing()`)
	var short *InsufficientInventoryError
	if a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))}); a.Err == nil || errors.As(a.Err, &short) {
		t.Errorf("it is %+v", a)
	}
	f.wantStock(t, "tee", 1, 0, 0)
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
