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
	begin := func() (tx interface {
		Commit(context.Context) error
	}, accept func(CreateCharge) error, exec func(string) error) {
		t.Helper()
		began, err := f.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = began.Rollback(context.WithoutCancel(t.Context())) })
		return began, func(c CreateCharge) error { return f.acceptIn(t.Context(), began, []*claim{newClaim(c)}) },
			func(sql string) error { _, err := began.Exec(t.Context(), sql); return err }
	}
	rival, accept, _ := begin() // the last one, about to be committed
	if err := accept(CreateCharge{Caller: "rival", Key: uuid.New(), Request: selling(one("tee"))}); err != nil {
		t.Fatal(err)
	}
	delivery, _, exec := begin() // behind it one more comes in
	delivered := make(chan error, 1)
	go func() { delivered <- exec(`UPDATE inventory SET quantity = 2 WHERE sku = 'tee'`) }()
	f.awaitLocks(t, 1)

	create := CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))}
	first, second := make(chan Answer, 1), make(chan Answer, 1)
	go func() { first <- open(t, f, Options{Apart: true}).Create(t.Context(), create) }() // behind that
	f.awaitLocks(t, 2)
	if err := errors.Join(rival.Commit(t.Context()), <-delivered); err != nil {
		t.Fatal(err)
	}
	f.awaitLocks(t, 1)
	go func() { second <- open(t, f, Options{Apart: true}).Create(t.Context(), create) }() // to which the last one is gone
	f.awaitLocks(t, 2)
	if err := delivery.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, b := <-first, <-second
	if a.Err != nil || b.Err != nil || a.ChargeID != b.ChargeID || !b.Replayed {
		t.Errorf("the first request: %v, %v; the second: %v, %v", a.ChargeID, a.Err, b.ChargeID, b.Err)
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

// After a restore, whoever is refused for want of an item is told that what was done under the key before may be lost.
func TestRefusedAfterARestore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	refused := func() (short *InsufficientInventoryError) {
		t.Helper()
		a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: selling(one("tee"))})
		if !errors.As(a.Err, &short) {
			t.Fatalf("%+v", a)
		}
		return short
	}
	if short := refused(); !short.Restored.IsZero() {
		t.Errorf("%+v", short)
	}
	r, err := f.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:ada", "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	if short := refused(); !short.Restored.Equal(r.DetectedAt) {
		t.Errorf("%v, want %v", short.Restored, r.DetectedAt)
	}
	f.exec(t, `UPDATE restoration SET detected_at = detected_at - interval '31 days', lost_from = lost_from - interval '31 days'`)
	if short := refused(); !short.Restored.IsZero() {
		t.Errorf("a month later: %+v", short)
	}
}
