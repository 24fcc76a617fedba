package charges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// stuck are SKUs whose rows somebody keeps: whoever else wants them is refused at once for a moment, instead of holding up those that share its commit.
type stuck struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// stuckFor is how long a SKU is left alone that was found to be stuck; saleLocks, for how long a commit waits for its SKUs. All processes that
// sell the same queue for its row, each for a commit; a row that is not to be had for longer is kept by somebody who has gone, or types.
const (
	stuckFor  = 2 * time.Second
	saleLocks = "500ms"
)

// without marks the claims for SKUs that are stuck, and returns the others.
func (k *stuck) without(claims []*claim) (free []*claim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.until) == 0 {
		return claims
	}
	for _, c := range claims {
		if c.stuck = slices.ContainsFunc(c.charge.Items, k.has); c.stuck {
			c.taken, c.short = true, nil
		} else {
			free = append(free, c)
		}
	}
	return free
}

func (k *stuck) has(i Item) bool {
	until, known := k.until[i.SKU]
	if known && time.Now().After(until) {
		delete(k.until, i.SKU)
		return false
	}
	return known
}

func (k *stuck) add(skus []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.until == nil {
		k.until = map[string]time.Time{}
	}
	for _, sku := range skus {
		k.until[sku] = time.Now().Add(stuckFor)
	}
}

// findStuck finds out which of the SKUs somebody keeps at this moment.
func (s *Service) findStuck(ctx context.Context, skus []string) error {
	undo := errors.New("nothing was written")
	err := outbox.InTx(ctx, s.pool, "inventory.stuck", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
SELECT sku FROM inventory WHERE sku = ANY ($1)
EXCEPT SELECT sku FROM (SELECT sku FROM inventory WHERE sku = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED) AS free`, skus)
		if err != nil {
			return fmt.Errorf("find stuck SKUs: %w", err)
		}
		kept, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("find stuck SKUs: %w", err)
		}
		s.stuck.add(kept)
		return undo
	})
	if errors.Is(err, undo) {
		return nil
	}
	return err
}

// boundLocks bounds how long the rest of a transaction waits for each lock.
func boundLocks(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '`+saleLocks+`'`); err != nil {
		return fmt.Errorf("bound the wait for SKUs: %w", err)
	}
	return nil
}

// awaitTwins waits until no other transaction accepts or refuses a claim under the same key, and keeps others from it. Names are locked in their
// order, so that two transactions never wait for each other in a circle.
func awaitTwins(ctx context.Context, tx pgx.Tx, claims []*claim) error {
	names := make([]int64, len(claims))
	for i, c := range claims {
		names[i] = c.twin()
	}
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(name) FROM (SELECT name FROM unnest($1::bigint[]) AS twins (name) ORDER BY name) AS twins`, names); err != nil {
		return fmt.Errorf("wait for the same keys elsewhere: %w", err)
	}
	return nil
}

// markRestored marks the claims that lack items where the database was restored not long ago.
func (s *Service) markRestored(ctx context.Context, claims []*claim) error {
	if !slices.ContainsFunc(claims, func(c *claim) bool { return len(c.short) > 0 && !c.used }) {
		return nil
	}
	all, err := listRestorations(ctx, s.reads)
	if err != nil {
		return err
	}
	for _, r := range all {
		for _, c := range claims {
			if len(c.short) > 0 && r.matters(time.Now()) && r.DetectedAt.After(c.restored) {
				c.restored = r.DetectedAt
			}
		}
	}
	return nil
}
