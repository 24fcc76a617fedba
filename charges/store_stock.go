package charges

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

const readAvailableSQL = `SELECT sku, quantity - allocated FROM inventory WHERE sku = ANY ($1)`

// lockAvailableSQL locks in the order of the SKUs, so that two transactions never wait for each other in a circle, and reads what the last to
// hold a lock has left.
const lockAvailableSQL = readAvailableSQL + ` ORDER BY sku FOR NO KEY UPDATE`

// readAvailable is how much is available of each SKU that was ever stocked.
func readAvailable(ctx context.Context, db querier, sql string, skus []string) (map[string]int64, error) {
	rows, err := db.Query(ctx, sql, skus)
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

// allot tells what is short for each member: with all of its items, or with none where one is short, one member after the other, those before it
// first. From here until tx ends nobody else has the SKUs.
func allot(ctx context.Context, tx pgx.Tx, members [][]Item) (short [][]Shortage, err error) {
	available, err := readAvailable(ctx, tx, lockAvailableSQL, skusOf(members))
	if err != nil {
		return nil, err
	}
	short = make([][]Shortage, len(members))
	for m, items := range members {
		if short[m] = shortOf(items, available); len(short[m]) > 0 {
			continue
		}
		for _, i := range items {
			available[i.SKU] -= i.Quantity
		}
	}
	return short, nil
}

const allocateSQL = `
UPDATE inventory i SET allocated = i.allocated + n.quantity
  FROM unnest($1::text[], $2::bigint[]) AS n (sku, quantity)
 WHERE i.sku = n.sku`

// allocate allocates a charge's items to it or, where one is short, none, and returns what is.
func allocate(ctx context.Context, tx pgx.Tx, items []Item) (short []Shortage, err error) {
	all, err := allot(ctx, tx, [][]Item{items})
	if err != nil {
		return nil, err
	}
	if short = all[0]; len(short) > 0 {
		return short, nil
	}
	skus, quantities := make([]string, len(items)), make([]int64, len(items))
	for i, item := range items {
		skus[i], quantities[i] = item.SKU, item.Quantity
	}
	if _, err := tx.Exec(ctx, allocateSQL, skus, quantities); err != nil {
		return nil, fmt.Errorf("allocate inventory: %w", err)
	}
	return nil, nil
}

// The rows are locked in the order of their SKUs before any is changed.
const giveBackSQL = `
WITH back AS (
    SELECT i.sku, sum(i.quantity)::bigint AS quantity
      FROM unnest($1::integer[], $2::uuid[]) AS back (place, charge_id)
      JOIN charge_item i ON i.charge_id = back.charge_id
     GROUP BY i.sku
), locked AS MATERIALIZED (
    SELECT sku FROM inventory WHERE sku IN (SELECT sku FROM back) ORDER BY sku FOR NO KEY UPDATE
)
UPDATE inventory i SET allocated = i.allocated - back.quantity
  FROM back JOIN locked ON locked.sku = back.sku
 WHERE i.sku = back.sku`

// giveBack makes the items of a locked charge available to others. Whoever buys the same queues for their rows: they are locked last of all that
// the transaction does, for as long as its commit takes.
func giveBack(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	if err := outbox.WriteLast(ctx, tx, giveBackSQL, charge); err != nil {
		return fmt.Errorf("give back the items of charge %s: %w", charge, err)
	}
	return nil
}

// removeCharges takes back the rows of charges that this very transaction has inserted.
func removeCharges(ctx context.Context, tx pgx.Tx, refused []*claim) error {
	ids := make(uuids, len(refused))
	for i, c := range refused {
		ids[i] = c.charge.ID
	}
	if _, err := tx.Exec(ctx, `DELETE FROM charge WHERE id = ANY ($1)`, ids); err != nil {
		return fmt.Errorf("remove charges without stock: %w", err)
	}
	return nil
}
