package charges

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncepay/oncepay/outbox"
)

// I3: while somebody keeps the row of a SKU, successes of charges that hold it are written down, at the first try, and so are those of others. What
// gives it back waits until it can, and none of it is lost.
func TestI3ResultsWhileASKUIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const n = 12
	f.stock(t, "tee", n)
	begun := make([]Begun, n)
	for i := range begun {
		begun[i] = f.begin(t, f.create(t, selling(one("tee"))), Send)
	}
	settle, apart := f.settleTogether, 0
	f.settles = outbox.NewTogether(outbox.TogetherBounds{}, func(ctx context.Context, all []*ending) error {
		err := settle(ctx, all)
		apart += len(all)
		if err != nil {
			t.Errorf("%d successes were held up: %v", len(all), err)
		}
		return err
	})
	letGo := f.keep(t, "tee")
	var successes, declines sync.WaitGroup
	for i, b := range begun {
		end := func(r Result) {
			if _, err := f.Settle(t.Context(), b.Attempt, r); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if i%2 == 0 {
			declines.Go(func() { end(declined(fmt.Sprintf("pi_%d", i))) })
		} else {
			successes.Go(func() { end(answered("succeeded", fmt.Sprintf("pi_%d", i))) })
		}
	}
	f.awaitLocks(t, 1)
	successes.Wait()
	if apart != n/2 {
		t.Errorf("%d results went apart from what gives back, want %d", apart, n/2)
	}
	f.wantStock(t, "tee", 0, n/2, n/2)
	f.awaitLocks(t, patient)
	letGo()
	declines.Wait()
	f.wantStock(t, "tee", n/2, 0, n/2)
}

// While it is counted what is held of a SKU, whose quantity was set or could not be, others can lock its row.
func TestSetInventoryKeepsNoSKU(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 2)
	f.create(t, selling(Item{"tee", 2}))
	for quantity, refused := range map[int64]bool{3: false, 1: true} {
		uncounted, err := f.pool.Begin(t.Context())
		if err == nil {
			_, err = uncounted.Exec(t.Context(), `LOCK TABLE charge_item IN ACCESS EXCLUSIVE MODE`)
		}
		if err != nil {
			t.Fatal(err)
		}
		set := make(chan error, 1)
		go func() {
			_, err := f.SetInventory(t.Context(), "tee", quantity, "operator:ada")
			set <- err
		}()
		f.awaitLocks(t, 1)
		if n := f.count(t, `SELECT count(*) FROM (SELECT FROM inventory WHERE sku = 'tee' FOR NO KEY UPDATE SKIP LOCKED) free`); n != 1 {
			t.Errorf("set to %d: its row is kept", quantity)
		}
		if err := uncounted.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		var less *QuantityError
		if err := <-set; refused != errors.As(err, &less) || !refused && err != nil {
			t.Errorf("set to %d: %v", quantity, err)
		}
	}
	f.wantStock(t, "tee", 1, 2, 0)
}

// patient is how many results wait for a lock at a time.
const patient = 2

// I3: a result whose lock was not to be had in time is written down all the same, once it is.
func TestI3ResultIsTriedAgainForItsLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 1)
	b := f.begin(t, f.create(t, selling(one("tee"))), Send)
	letGo, tries := f.keep(t, "tee"), 0
	settle := f.settleTogether
	f.giveBacks = outbox.NewTogether(outbox.TogetherBounds{Members: 1}, func(ctx context.Context, all []*ending) error {
		if tries++; tries == 3 {
			letGo()
			return settle(ctx, all)
		}
		return asInventoryBusy(&pgconn.PgError{Code: "55P03"}) // as after 5 s
	})
	f.settle(t, b, declined("pi_1"))
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
	f.wantStock(t, "tee", 1, 0, 0)
}
