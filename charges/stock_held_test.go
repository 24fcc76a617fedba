package charges

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

// I4: nobody is told that nothing was written under a key, and that it can be used again, while another process is accepting a charge under it: also
// where what was sold out when the second request came has come back for the first.
func TestI4RefusedOnlyAfterItsTwin(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	create := CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))}
	first, second := []*claim{newClaim(create)}, make(chan Answer, 1)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if inStock, err := passOver(t.Context(), tx, first); err != nil || len(inStock) != 1 {
		t.Fatal(inStock, err)
	}
	f.create(t, selling(one("tee"))) // the last one, to a rival
	go func() { second <- f.Create(t.Context(), create) }()
	f.awaitLocks(t, 1)
	f.stock(t, "tee", 2)
	if err := f.acceptIn(t.Context(), tx, first); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-second; a.Err != nil || a.ChargeID != first[0].charge.ID || !a.Replayed {
		t.Errorf("the second request: %+v", a)
	}
	f.wantStock(t, "tee", 0, 2, 0)
}

// A SKU whose row somebody keeps is refused, with nothing written, and holds up neither those who want others nor those who want none.
func TestStuckSKU(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "stuck", 100)
	f.stock(t, "tee", 100)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `UPDATE inventory SET quantity = 101 WHERE sku = 'stuck'`); err != nil {
		t.Fatal(err)
	}
	const n = 30
	requests := map[string]Request{"of the stuck one": selling(one("stuck")), "of both": selling(one("tee"), one("stuck")), "of another": selling(one("tee")), "of none": request()}
	type told struct {
		what string
		Answer
	}
	answers := make(chan told, len(requests)*n)
	begun := time.Now()
	keys := map[string][]CreateCharge{}
	for what, r := range requests {
		for range n {
			c := CreateCharge{Caller: "shop", Key: uuid.New(), Request: r}
			keys[what] = append(keys[what], c)
			go func() { answers <- told{what, f.Create(t.Context(), c)} }()
		}
	}
	for range len(requests) * n {
		a := <-answers
		if busy := a.what == "of the stuck one" || a.what == "of both"; busy != errors.Is(a.Err, ErrInventoryBusy) || !busy && a.Err != nil {
			t.Errorf("a charge %s: %v", a.what, a.Err)
		}
	}
	if took := time.Since(begun); took > 9*time.Second { // three times what a lock of a commit and a queue behind it may take
		t.Errorf("it took %v", took)
	}
	for range 2 {
		if a := f.Create(t.Context(), keys["of another"][0]); a.Err != nil || !a.Replayed {
			t.Errorf("a charge that is there: %+v", a)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * stuckFor)
	for {
		a := f.Create(t.Context(), keys["of both"][0])
		if a.Err == nil {
			break
		}
		if !errors.Is(a.Err, ErrInventoryBusy) || time.Now().After(deadline) {
			t.Fatalf("after it was let go: %v", a.Err)
		}
		time.Sleep(20 * time.Millisecond) // the pace of the poll
	}
	f.wantStock(t, "stuck", 100, 1, 0)
}

// A hot SKU is locked whenever one looks, each time for another sale, and nobody keeps it.
func TestHotIsNotStuck(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for _, sku := range []string{"hot", "kept", "free"} {
		f.stock(t, sku, 1)
	}
	look := func() map[string]string {
		t.Helper()
		locked, err := f.locked(t.Context(), []string{"free", "hot", "kept"})
		if err != nil || len(locked) != 2 {
			t.Fatal(locked, err)
		}
		return locked
	}
	f.keep(t, "kept")
	letGo := f.keep(t, "hot")
	before := look()
	letGo()
	f.create(t, selling(one("hot")))
	f.keep(t, "hot")
	f.Service.stuck.add(before, look())
	for sku, want := range map[string]bool{"hot": false, "kept": true, "free": false} {
		if got := f.Service.stuck.has(one(sku)); got != want {
			t.Errorf("%s is stuck: %t", sku, got)
		}
	}
}
