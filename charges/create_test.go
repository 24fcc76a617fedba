package charges

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Two processes that accept charges under the same keys, in opposite order, never wait for each other in a circle.
func TestCreateInOppositeOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const rounds, members = 20, 40
	var runs atomic.Int32 // what PostgreSQL ends as a deadlock is run again
	insert := func(claims []*claim) {
		err := outbox.InTx(t.Context(), f.pool, "test", func(tx pgx.Tx) error {
			runs.Add(1)
			accepted, _, err := insertCharges(t.Context(), tx, claims)
			if err != nil || len(accepted) == 0 {
				return err
			}
			return insertKeys(t.Context(), tx, accepted, time.Hour)
		})
		if err != nil {
			t.Error(err)
		}
	}
	for range rounds {
		up, down := make([]*claim, members), make([]*claim, members)
		for i := range members {
			key := uuid.New()
			up[i] = newClaim(CreateCharge{Caller: "shop", Key: key, Request: request()})
			down[members-1-i] = newClaim(CreateCharge{Caller: "shop", Key: key, Request: request()})
		}
		slices.SortFunc(up, func(a, b *claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		slices.SortFunc(down, func(a, b *claim) int { return bytes.Compare(b.Key[:], a.Key[:]) })
		var both sync.WaitGroup
		both.Go(func() { insert(up) })
		both.Go(func() { insert(down) })
		both.Wait()
	}
	if n := runs.Load(); n != 2*rounds {
		t.Errorf("%d transactions ran %d times", 2*rounds, n)
	}
	if n := f.count(t, `SELECT count(*) FROM charge`); n != rounds*members {
		t.Errorf("%d charges, want %d", n, rounds*members)
	}
}
