package charges

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/outbox"
)

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
	if e := f.lastEvent(t, second); e.Type != "charge.needs_review" || fmt.Sprint(e.Data["short"]) != "[map[available:0 requested:1 sku:tee stocked:true]]" {
		t.Errorf("its trail ends with %+v", e)
	}

	var refused *RulingError
	ruling := Ruling{As: Succeeded, Because: "the buyer waits", Actor: "operator:ada"}
	for _, force := range []bool{false, true} { // nobody knows better how many there are
		if _, err := f.tryRule(t, second, Ruling{As: Succeeded, Force: force}); !errors.As(err, &refused) || refused.Forceable {
			t.Errorf("while nothing is left: %v", err)
		}
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
	ruling.WithoutItems = true
	if c, err := f.Rule(t.Context(), third, ruling); err != nil || c.Status != Succeeded || *c.Stock != StockReturned || c.AmountCaptured != 1099 {
		t.Errorf("without its items: %+v, %v", c, err)
	}
	f.wantStock(t, "tee", 0, 1, 2)
	f.settle(t, f.begin(t, fourth, Send), answered("succeeded", "pi_4"))
	f.wantStock(t, "tee", 0, 0, 3)
}

// Successes that come late and together, in one transaction, do not take the same last item: what is left goes to as many as there is, and a person
// is asked about the others.
func TestI7LateSuccessesTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const n, left = 10, 3
	f.stock(t, "tee", n)
	begun := make([]Begun, n)
	for i := range begun {
		begun[i] = f.begin(t, f.create(t, selling(one("tee"))), Send)
		heard := *declined(fmt.Sprintf("pi_%d", i)).News
		heard.AsOf = heard.AsOf.Add(-time.Second)
		f.hear(t, begun[i].Attempt.ChargeID, heard)
	}
	f.wantStock(t, "tee", n, 0, 0)
	for range n - left { // others buy what was given back
		f.create(t, selling(one("tee")))
	}
	c := f.shareAll(n)
	for i, err := range c.do(t, n, func(i int) error {
		_, err := f.Settle(t.Context(), begun[i].Attempt, answered("succeeded", fmt.Sprintf("pi_%d", i)))
		return err
	}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	statuses := map[Status]int{}
	for _, b := range begun {
		statuses[f.status(t, b.Attempt.ChargeID)]++
	}
	if statuses[Succeeded] != left || statuses[NeedsReview] != n-left {
		t.Errorf("they are %v", statuses)
	}
	f.wantStock(t, "tee", 0, n-left, left)
}

// I3: late successes of one transaction lock their SKUs one after the other. Where that makes a circle with a buyer of both, none of them is lost, and
// the buyer has the items or is told to try again.
func TestI3LateSuccessesMeetABuyer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "a", 9)
	f.stock(t, "b", 9)
	var begun []Begun
	for i, sku := range []string{"b", "a"} { // in the order of their charges' ids, which is that of time
		b := f.begin(t, f.create(t, selling(one(sku))), Send)
		heard := *declined(fmt.Sprintf("pi_%d", i)).News
		heard.AsOf = heard.AsOf.Add(-time.Second)
		f.hear(t, b.Attempt.ChargeID, heard)
		begun = append(begun, b)
	}
	begun = append(begun, f.begin(t, f.create(t, request()), Send))
	first, shared := make(chan struct{}), make(chan struct{})
	var runs, members atomic.Int32
	f.settles = outbox.NewTogether(outbox.TogetherBounds{}, func(ctx context.Context, all []*ending) error {
		switch runs.Add(1) {
		case 1:
			close(first)
			<-shared
		case 2:
			members.Store(int32(len(all)))
		}
		return f.settleTogether(ctx, all)
	})
	settled := make(chan error, len(begun))
	settle := func(i int) {
		_, err := f.Settle(t.Context(), begun[i].Attempt, answered("succeeded", fmt.Sprintf("pi_%d", i)))
		settled <- err
	}
	go settle(2)
	<-first // those who come now share the next
	go settle(0)
	go settle(1)
	for f.settles.Waiting() < 2 {
		time.Sleep(time.Millisecond) // the pace of the poll
	}

	letGo, bought := f.keep(t, "a"), make(chan error, 1)
	buyer := open(t, f, Options{})
	go func() {
		bought <- buyer.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("a"), one("b"))}).Err
	}()
	f.awaitLocks(t, 1)
	close(shared)
	f.awaitLocks(t, 2) // they have b
	letGo()            // the buyer has a
	if err := errors.Join(<-settled, <-settled, <-settled); err != nil || members.Load() != 2 {
		t.Errorf("%d shared a transaction: %v", members.Load(), err)
	}
	if err := <-bought; err != nil && !errors.Is(err, ErrInventoryBusy) {
		t.Error(err)
	}
	for _, b := range begun {
		if got := f.status(t, b.Attempt.ChargeID); got != Succeeded {
			t.Errorf("a late success is %s", got)
		}
	}
	f.lawful(t)
}

// A person who may not call a charge done is told everything that it lacks, and so is the shop that asks for one.
func TestAllThatIsShortIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "cap", 2)
	f.stock(t, "tee", 2)
	both := selling(Item{"tee", 2}, Item{"cap", 2})
	id := f.create(t, both)
	f.settle(t, f.begin(t, id, Send), declined("pi_1"))
	f.create(t, selling(one("cap"), Item{"tee", 2}))
	late := said("succeeded", "pi_1")
	late.AsOf = late.AsOf.Add(time.Minute)
	f.hear(t, id, late)
	_, refused := f.Rule(t.Context(), id, Ruling{As: Succeeded, Because: "the buyer waits", Actor: "operator:ada"})
	a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: both})
	const want = "2 of cap are asked for and 1 available, 2 of tee are asked for and 0 available"
	for _, err := range []error{refused, a.Err} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
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
