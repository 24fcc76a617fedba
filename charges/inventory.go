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

// Stocking sets how many of a SKU were ever stocked, whatever was sold of them since.
type Stocking struct {
	SKU      string
	Quantity int64

	// What the quantity must have been until now, unless it is Quantity already; 0 also fits a SKU that was never stocked. nil: whatever it was.
	// So of two who add different numbers to what both have read, the second one is told.
	Previous *int64

	Actor string // "operator:NAME", for whoever asks who did it
}

// Stocked is what there is of a SKU whose quantity was set.
type Stocked struct {
	Inventory Inventory
	Was       int64 // the quantity before; the same: nothing has changed
	New       bool  // it was never stocked before
}

// PreviousError says that a SKU's quantity is not what it was said to have been.
type PreviousError struct {
	SKU      string
	Previous int64

	Inventory *Inventory // nil: it was never stocked
}

func (e *PreviousError) Error() string {
	if e.Inventory == nil {
		return fmt.Sprintf("%s was never stocked: its quantity has not been %d", e.SKU, e.Previous)
	}
	return fmt.Sprintf("the quantity of %s is %d, and not %d any more: somebody else has set it", e.SKU, e.Inventory.Quantity, e.Previous)
}

func (st Stocking) faults() (faults []FieldError) {
	if reason := SKUFault(st.SKU); reason != "" {
		faults = append(faults, FieldError{"sku", reason})
	}
	bounds := fmt.Sprintf("must be from 0 to %d", MaxStock)
	if st.Quantity < 0 || st.Quantity > MaxStock {
		faults = append(faults, FieldError{"quantity", bounds})
	}
	if p := st.Previous; p != nil && (*p < 0 || *p > MaxStock) {
		faults = append(faults, FieldError{"previous", bounds})
	}
	return faults
}

// SetInventory is [Service.Stock] for a quantity that holds whatever it was before.
func (s *Service) SetInventory(ctx context.Context, sku string, quantity int64, actor string) (Inventory, error) {
	set, err := s.Stock(ctx, Stocking{SKU: sku, Quantity: quantity, Actor: actor})
	return set.Inventory, err
}

// Stock sets a quantity: doing it twice changes nothing, and a delivery of 5 adds 5 to what was set before. It is an [*InvalidError] for a SKU that
// none can be or a quantity that is out of bounds, a [*PreviousError] where it was another before, a [*QuantityError] for less than is held and
// taken, and [ErrInventoryBusy] where the row was not to be had within 5 s. Who did it is written down.
//
// What is there is counted after that, when charges may have moved on: where many are held it takes longer than the SKU's row may be kept from buyers.
func (s *Service) Stock(ctx context.Context, st Stocking) (set Stocked, err error) {
	if err := invalidOrNil(st.faults()); err != nil {
		return set, err
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "inventory.set", func(tx pgx.Tx) (err error) {
		changed := false
		if set, changed, err = setQuantity(ctx, tx, st); err != nil || !changed {
			return err
		}
		return outbox.RecordAction(ctx, tx, outbox.Action{Actor: st.Actor, Action: "inventory.set", Target: st.SKU, Data: map[string]any{"from": set.Was, "to": st.Quantity}})
	})
	moved, refused := errors.Is(err, errMoved), errors.Is(err, errAllocated)
	if err != nil && !refused && !moved {
		return Stocked{}, err
	}
	found, err := readInventory(ctx, s.reads, st.SKU)
	switch {
	case moved && errors.Is(err, ErrNotFound):
		return Stocked{}, &PreviousError{SKU: st.SKU, Previous: *st.Previous}
	case err != nil:
		return Stocked{}, err
	case moved:
		return Stocked{}, &PreviousError{SKU: st.SKU, Previous: *st.Previous, Inventory: &found}
	case refused:
		return Stocked{}, &QuantityError{Inventory: found}
	}
	set.Inventory = found
	return set, nil
}

// errMoved says that a quantity is not what it was said to have been.
var errMoved = errors.New("somebody else has set it")

// errAllocated says that more of a SKU is allocated than its quantity was to be.
var errAllocated = errors.New("more is allocated")

// setQuantity sets a quantity where that is possible, else it is errMoved or errAllocated, and tells what it was and whether there is anything new.
func setQuantity(ctx context.Context, tx pgx.Tx, st Stocking) (set Stocked, changed bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO inventory (sku, quantity) VALUES ($1, $2) ON CONFLICT DO NOTHING`, st.SKU, st.Quantity)
	if err == nil && tag.RowsAffected() == 0 {
		err = tx.QueryRow(ctx, `SELECT quantity FROM inventory WHERE sku = $1 FOR NO KEY UPDATE`, st.SKU).Scan(&set.Was)
	} else {
		set.New = true
	}
	if err != nil {
		return set, false, fmt.Errorf("set the quantity of %s: %w", st.SKU, asInventoryBusy(err))
	}
	switch {
	case st.Previous != nil && set.Was != *st.Previous && set.Was != st.Quantity:
		return set, false, errMoved
	case set.New || set.Was == st.Quantity:
		return set, set.New, nil
	}
	tag, err = tx.Exec(ctx, `UPDATE inventory SET quantity = $2, updated_at = clock_timestamp() WHERE sku = $1 AND allocated <= $2`, st.SKU, st.Quantity)
	if err != nil {
		return set, false, fmt.Errorf("set the quantity of %s: %w", st.SKU, err)
	}
	if tag.RowsAffected() == 0 {
		return set, false, errAllocated
	}
	return set, true, nil
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
