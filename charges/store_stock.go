package charges

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// readAvailable is how much is available of each SKU that was ever stocked.
func readAvailable(ctx context.Context, db querier, skus []string) (map[string]int64, error) {
	rows, err := db.Query(ctx, `SELECT sku, quantity - allocated FROM inventory WHERE sku = ANY ($1)`, skus)
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	available := make(map[string]int64, len(skus))
	var sku string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&sku, &n}, func() error {
		available[sku] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	return available, nil
}

// Rows are locked in the order of the SKUs, so that two such statements never wait for each other in a circle, and read as the last to hold a lock has
// left them. A shared transaction has several where successes come late: it can meet an accept in a circle, which the bound on its waits for a lock
// ends. Then its members are run again, in the end each alone.
const allocateSQL = `
WITH wanted AS (
    SELECT sku, quantity FROM unnest($1::text[], $2::bigint[]) AS wanted (sku, quantity)
), locked AS MATERIALIZED (
    SELECT sku, quantity - allocated AS available FROM inventory WHERE sku = ANY ($1) ORDER BY sku FOR NO KEY UPDATE
)
UPDATE inventory i SET allocated = i.allocated + wanted.quantity
  FROM locked JOIN wanted ON wanted.sku = locked.sku
 WHERE i.sku = locked.sku
   AND NOT EXISTS (SELECT FROM wanted w LEFT JOIN locked l ON l.sku = w.sku WHERE l.available IS NULL OR l.available < w.quantity)`

// allocate allocates their items to all members or, where there is not enough, to none. Then it tells what is short for each if they are served one
// after the other, those before it first. From here until tx ends no other transaction has the SKUs.
func allocate(ctx context.Context, tx pgx.Tx, members [][]Item) (short [][]Shortage, err error) {
	sums := map[string]int64{}
	for _, items := range members {
		for _, i := range items {
			sums[i.SKU] += i.Quantity
		}
	}
	skus := slices.Sorted(maps.Keys(sums))
	quantities := make([]int64, len(skus))
	for i, sku := range skus {
		quantities[i] = sums[sku]
	}
	tag, err := tx.Exec(ctx, allocateSQL, skus, quantities)
	if err != nil {
		return nil, asInventoryBusy(fmt.Errorf("allocate inventory: %w", err))
	}
	short = make([][]Shortage, len(members))
	if tag.RowsAffected() == int64(len(skus)) {
		return short, nil
	}
	available, err := readAvailable(ctx, tx, skus)
	if err != nil {
		return nil, err
	}
	for m, items := range members {
		if short[m] = shortOf(items, available); len(short[m]) > 0 {
			continue
		}
		for _, i := range items {
			available[i.SKU] -= i.Quantity
		}
	}
	if !slices.ContainsFunc(short, func(s []Shortage) bool { return len(s) > 0 }) {
		return nil, fmt.Errorf("allocate inventory: %d of %d SKUs were updated, and none is short", tag.RowsAffected(), len(skus))
	}
	return short, nil
}

// The rows are locked in the order of their SKUs before any is changed.
const giveBackSQL = `
WITH back AS (
    SELECT i.sku, sum(i.quantity)::bigint AS quantity
      FROM unnest($1::integer[], $2::uuid[]) AS back (place, charge_id)
      JOIN charge_item i ON i.charge_id = back.charge_id
     GROUP BY i.sku
), locked AS MATERIALIZED (
    SELECT sku FROM inventory WHERE sku = ANY (ARRAY(SELECT sku FROM back)) ORDER BY sku FOR NO KEY UPDATE
)
UPDATE inventory i SET allocated = i.allocated - back.quantity
  FROM back JOIN locked ON locked.sku = back.sku
 WHERE i.sku = back.sku`

// giveBack makes the items of a locked charge available to others. Whoever buys the same queues for their rows: in a shared transaction they are locked
// last of all that it does, for as long as its commit takes. A charge alone has little to do after that.
func giveBack(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	if err := outbox.WriteLast(ctx, tx, giveBackSQL, charge); err != nil {
		return asInventoryBusy(fmt.Errorf("give back the items of charge %s: %w", charge, err))
	}
	return nil
}
