package charges

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// ruledStock is withStock for what a person decides, who says what becomes of items that are not to be had any more.
func ruledStock(ctx context.Context, tx pgx.Tx, c Charge, ruled Change, r Ruling, data map[string]any) (Change, error) {
	switch {
	case r.WithoutItems:
		ruled.stock, data["without_items"] = StockReturned, true
		ruled.tell(data, nil)
		return ruled, nil
	case r.Restock:
		added, err := restock(ctx, tx, c, r.Actor)
		if err != nil {
			return ruled, err
		}
		if len(added) > 0 {
			data["restocked"] = added
		}
	}
	change, short, err := withStock(ctx, tx, c, ruled)
	if err != nil {
		return change, err
	}
	if len(short) > 0 {
		return change, refuse("its items were given back, and there are not enough of them: %s. Stock what is short (--restock does it in the same step), "+
			"or refund the payment at Stripe and settle it --without-items", tellShort(short))
	}
	change.tell(data, nil)
	return change, nil
}

// Restocked is by how much a SKU's quantity was raised for a charge.
type Restocked struct {
	SKU  string `json:"sku"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// The rows are locked as allocateSQL locks them, so that nobody comes between this and the charge that takes what was added.
const restockSQL = `
WITH wanted AS (
    SELECT sku, quantity FROM charge_item WHERE charge_id = $1
), locked AS MATERIALIZED (
    SELECT sku, quantity, quantity - allocated AS available
      FROM inventory WHERE sku = ANY (ARRAY(SELECT sku FROM wanted)) ORDER BY sku FOR NO KEY UPDATE
)
UPDATE inventory i SET quantity = locked.quantity + wanted.quantity - locked.available, updated_at = clock_timestamp()
  FROM locked JOIN wanted ON wanted.sku = locked.sku
 WHERE i.sku = locked.sku AND locked.available < wanted.quantity
RETURNING i.sku, locked.quantity, i.quantity`

// restock raises the quantities of what is short of a locked charge's items by just that, written down as whoever sets a quantity is.
func restock(ctx context.Context, tx pgx.Tx, c Charge, actor string) ([]Restocked, error) {
	rows, err := tx.Query(ctx, restockSQL, c.ID)
	if err != nil {
		return nil, fmt.Errorf("restock the items of charge %s: %w", c.ID, err)
	}
	added, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Restocked])
	if err != nil {
		return nil, fmt.Errorf("restock the items of charge %s: %w", c.ID, asInventoryBusy(err))
	}
	for _, a := range added {
		if a.To > MaxStock {
			return nil, refuse("of %s no more than %d can be stocked", a.SKU, int64(MaxStock))
		}
		if err := outbox.RecordAction(ctx, tx, outbox.Action{Actor: actor, Action: "inventory.set", Target: a.SKU,
			Data: map[string]any{"from": a.From, "to": a.To, "charge": c.ID}}); err != nil {
			return nil, err
		}
	}
	return added, nil
}
