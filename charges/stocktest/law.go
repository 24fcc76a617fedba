// Package stocktest holds the law of the stock, for every test that sells something.
package stocktest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// law finds what breaks the law, in one statement: it sees one moment, so that it may be asked while everything runs.
//
// What is open may have nothing only after a time when nothing was to be had, as when it was accepted for a lost payment, and what has succeeded only
// where a person has left them to others.
const law = `
WITH allocated AS (
    SELECT sku, coalesce(sum(quantity) FILTER (WHERE stock <> 'returned'), 0) AS quantity FROM charge_item GROUP BY sku
), asked AS (
    SELECT c.id, i.value ->> 'sku' AS sku, (i.value ->> 'quantity')::bigint AS quantity
      FROM charge c CROSS JOIN LATERAL jsonb_array_elements(coalesce(c.request::jsonb -> 'items', '[]')) i
)
SELECT format('%s of %s are allocated, charges have %s, and %s were stocked', v.allocated, v.sku, coalesce(a.quantity, 0), v.quantity)
  FROM inventory v LEFT JOIN allocated a USING (sku)
 WHERE v.allocated <> coalesce(a.quantity, 0) OR v.allocated NOT BETWEEN 0 AND v.quantity
 UNION ALL
SELECT format('charge %s asks for %s of %s, and has %s', coalesce(a.id, i.charge_id), coalesce(a.quantity, 0), coalesce(a.sku, i.sku), coalesce(i.quantity, 0))
  FROM asked a FULL JOIN charge_item i ON i.charge_id = a.id AND i.sku = a.sku
 WHERE i.quantity IS DISTINCT FROM a.quantity
 UNION ALL
SELECT format('charge %s says its items are %s, and %s is %s', c.id, coalesce(c.stock, 'none'), i.sku, i.stock)
  FROM charge c JOIN charge_item i ON i.charge_id = c.id
 WHERE i.stock IS DISTINCT FROM c.stock
 UNION ALL
SELECT format('charge %s has no items, and says they are %s', c.id, c.stock)
  FROM charge c
 WHERE c.stock IS NOT NULL AND NOT EXISTS (SELECT FROM charge_item i WHERE i.charge_id = c.id)
 UNION ALL
SELECT format('charge %s is %s, and its items are %s', c.id, c.status, c.stock)
  FROM charge c
 WHERE c.stock IS NOT NULL
   AND NOT CASE WHEN c.status = 'needs_review' THEN true
                WHEN c.status IN ('failed', 'canceled') THEN c.stock = 'returned'
                WHEN c.status = 'succeeded' THEN c.stock = 'taken' OR c.stock = 'returned' AND EXISTS (
                     SELECT FROM charge_event e WHERE e.charge_id = c.id AND e.to_status = 'succeeded' AND e.data ->> 'without_items' = 'true')
                ELSE c.stock = 'held' OR c.stock = 'returned' AND EXISTS (
                     SELECT FROM charge_event e WHERE e.charge_id = c.id AND (e.data ? 'short' OR e.data ? 'lost'))
           END`

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Faults says what breaks the law of the stock at one moment; none: nothing does. The law: of each SKU, what is allocated is what charges hold or
// have taken, and no more than was ever stocked; each charge has just what it asks for, at the one place that follows from its status: held while
// it is open, taken by success, returned by failure and cancel.
func Faults(ctx context.Context, db Querier) ([]string, error) {
	rows, err := db.Query(ctx, law)
	if err != nil {
		return nil, fmt.Errorf("ask for the law of the stock: %w", err)
	}
	faults, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("ask for the law of the stock: %w", err)
	}
	return faults, nil
}
