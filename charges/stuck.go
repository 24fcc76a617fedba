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
		if c.stuck = slices.ContainsFunc(c.wants(), k.has); c.stuck {
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

// add takes down the SKUs that were locked in both of two looks, with nothing come of it between.
func (k *stuck) add(before, after map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.until == nil {
		k.until = map[string]time.Time{}
	}
	for sku, version := range after {
		if before[sku] == version {
			k.until[sku] = time.Now().Add(stuckFor)
		}
	}
}

// findStuck finds out which of the SKUs somebody keeps: their rows are locked, and nothing comes of it. For a hot one they are locked at nearly every
// moment, each time for another sale.
func (s *Service) findStuck(ctx context.Context, skus []string) error {
	before, err := s.locked(ctx, skus)
	if err != nil || len(before) == 0 {
		return err
	}
	select {
	case <-time.After(betweenLooks):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := s.locked(ctx, skus)
	if err != nil {
		return err
	}
	s.stuck.add(before, after)
	return nil
}

// betweenLooks is time enough for a commit.
const betweenLooks = 100 * time.Millisecond

const lockedSQL = `
SELECT sku, xmin::text FROM inventory WHERE sku = ANY ($1)
   AND sku NOT IN (SELECT sku FROM (SELECT sku FROM inventory WHERE sku = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED) AS free)`

// locked are the SKUs whose rows are locked at this moment, with the version that others see.
func (s *Service) locked(ctx context.Context, skus []string) (versions map[string]string, err error) {
	undo := errors.New("nothing was written")
	versions = map[string]string{}
	err = outbox.InTx(ctx, s.pool, "inventory.stuck", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockedSQL, skus)
		if err != nil {
			return fmt.Errorf("find stuck SKUs: %w", err)
		}
		var sku, version string
		_, err = pgx.ForEachRow(rows, []any{&sku, &version}, func() error {
			versions[sku] = version
			return nil
		})
		if err != nil {
			return fmt.Errorf("find stuck SKUs: %w", err)
		}
		return undo
	})
	if errors.Is(err, undo) {
		return versions, nil
	}
	return nil, err
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
