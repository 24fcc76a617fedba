package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncepay/oncepay/outbox"
)

// Inventory is what there is of one SKU. quantity = available + held + taken, at any time.
type Inventory struct {
	SKU       string    `json:"sku" doc:"The shop's own name of what is sold." example:"tee-blue-m"`
	Quantity  int64     `json:"quantity" minimum:"0" doc:"How many were ever stocked, sold ones included."`
	Available int64     `json:"available" minimum:"0" doc:"How many of them can still be bought."`
	Held      int64     `json:"held" minimum:"0" doc:"How many open charges hold."`
	Taken     int64     `json:"taken" minimum:"0" doc:"How many charges that have succeeded have taken."`
	UpdatedAt time.Time `json:"updated_at" doc:"When quantity last changed (UTC)."`
}

// MaxStock bounds the quantity of a SKU.
const MaxStock = 1_000_000_000_000

// QuantityError says that a SKU's quantity cannot be less than what is held and taken of it.
type QuantityError struct{ Inventory Inventory }

func (e *QuantityError) Error() string {
	return fmt.Sprintf("%d of %s are held and %d taken: its quantity cannot be less than both together", e.Inventory.Held, e.Inventory.SKU, e.Inventory.Taken)
}

// ErrInventoryBusy says that charges for a SKU, or others who set its quantity, have kept its row for too long. Nothing was written.
var ErrInventoryBusy = errors.New("others hold the row of the SKU: try again")

// asInventoryBusy names the wait for a SKU's row that took too long.
func asInventoryBusy(err error) error {
	if lockRefused(err) {
		return fmt.Errorf("%w (%w)", ErrInventoryBusy, err)
	}
	return err
}

// lockRefused tells whether PostgreSQL gave up waiting for a lock that others hold.
func lockRefused(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && pgErr.Code == "55P03"
}

// SetInventory sets how many of a SKU were ever stocked, whatever was sold of them since: doing it twice changes nothing, and a delivery of 5 adds
// 5 to what was set before. It is an [*InvalidError] for a SKU that none can be or a quantity that is out of bounds, a [*QuantityError] for less
// than is held and taken, and [ErrInventoryBusy] where the row was not to be had within 5 s. Who did it is written down.
//
// What is there is counted after that, when charges may have moved on: where many are held it takes longer than the SKU's row may be kept from buyers.
func (s *Service) SetInventory(ctx context.Context, sku string, quantity int64, actor string) (set Inventory, err error) {
	var faults []FieldError
	if reason := SKUFault(sku); reason != "" {
		faults = append(faults, FieldError{"sku", reason})
	}
	if quantity < 0 || quantity > MaxStock {
		faults = append(faults, FieldError{"quantity", fmt.Sprintf("must be from 0 to %d", MaxStock)})
	}
	if err := invalidOrNil(faults); err != nil {
		return Inventory{}, err
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "inventory.set", func(tx pgx.Tx) error {
		was, changed, err := setQuantity(ctx, tx, sku, quantity)
		if err != nil || !changed {
			return err
		}
		return outbox.RecordAction(ctx, tx, outbox.Action{Actor: actor, Action: "inventory.set", Target: sku, Data: map[string]any{"from": was, "to": quantity}})
	})
	refused := errors.Is(err, errAllocated)
	if err != nil && !refused {
		return Inventory{}, err
	}
	if set, err = readInventory(ctx, s.reads, sku); err == nil && refused {
		err = &QuantityError{Inventory: set}
	}
	return set, err
}

// errAllocated says that more of a SKU is allocated than its quantity was to be.
var errAllocated = errors.New("more is allocated")

// setQuantity sets a quantity where that is possible, else it is errAllocated, and tells what it was and whether it has changed.
func setQuantity(ctx context.Context, tx pgx.Tx, sku string, quantity int64) (was int64, changed bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO inventory (sku, quantity) VALUES ($1, $2) ON CONFLICT DO NOTHING`, sku, quantity)
	if err == nil && tag.RowsAffected() == 0 {
		err = tx.QueryRow(ctx, `SELECT quantity FROM inventory WHERE sku = $1 FOR NO KEY UPDATE`, sku).Scan(&was)
		if err == nil {
			tag, err = tx.Exec(ctx, `
UPDATE inventory SET quantity = $2, updated_at = clock_timestamp() WHERE sku = $1 AND quantity <> $2 AND allocated <= $2`, sku, quantity)
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("set the quantity of %s: %w", sku, asInventoryBusy(err))
	}
	if tag.RowsAffected() == 0 && was != quantity {
		return was, false, errAllocated
	}
	return was, tag.RowsAffected() == 1, nil
}

// Inventory returns what there is of a SKU, [ErrNotFound] for one that was never stocked.
func (s *Service) Inventory(ctx context.Context, sku string) (Inventory, error) {
	return readInventory(ctx, s.reads, sku)
}

// ListInventory returns what there is of the SKUs after one (empty: from the first on), in their order, at most limit, and whether there are more.
func (s *Service) ListInventory(ctx context.Context, after string, limit int) (list []Inventory, more bool, err error) {
	list, err = s.queryInventory(ctx, selectInventory+` WHERE v.sku > $1 ORDER BY v.sku LIMIT $2`, after, limit+1)
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, err
}

// inventoryOf is what there is of items, in the order of their SKUs; nothing of those that were never stocked.
func (s *Service) inventoryOf(ctx context.Context, items []Item) ([]Inventory, error) {
	if len(items) == 0 {
		return []Inventory{}, nil
	}
	return s.queryInventory(ctx, selectInventory+` WHERE v.sku = ANY ($1) ORDER BY v.sku`, skusOf([][]Item{items}))
}

func (s *Service) queryInventory(ctx context.Context, sql string, args ...any) ([]Inventory, error) {
	rows, err := s.reads.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list inventory: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Inventory, error) { return scanInventory(row) })
	if err != nil {
		return nil, fmt.Errorf("list inventory: %w", err)
	}
	return list, nil
}

// What is allocated and not held is taken: counting that would cost as much as was ever sold.
const selectInventory = `
SELECT v.sku, v.quantity, v.quantity - v.allocated, h.held, v.allocated - h.held, v.updated_at
  FROM inventory v
 CROSS JOIN LATERAL (SELECT coalesce(sum(quantity), 0)::bigint AS held FROM charge_item WHERE sku = v.sku AND stock = 'held') h`

func readInventory(ctx context.Context, db querier, sku string) (Inventory, error) {
	v, err := scanInventory(db.QueryRow(ctx, selectInventory+` WHERE v.sku = $1`, sku))
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return v, fmt.Errorf("read inventory of %s: %w", sku, err)
	}
	return v, nil
}

func scanInventory(row pgx.Row) (v Inventory, err error) {
	err = row.Scan(&v.SKU, &v.Quantity, &v.Available, &v.Held, &v.Taken, &v.UpdatedAt)
	v.UpdatedAt = v.UpdatedAt.UTC()
	return v, err
}
