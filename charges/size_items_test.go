package charges

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hotSKU is what a third of the charges sell.
const hotSKU = "sku-0"

// itemOps are the operations on what charges sell, before those on charges.
var itemOps = []sizeOp{
	{"hold the last", onePages, "SetInventory Stock Inventory Create Evidence", func(t *testing.T, s *sized) {
		sku := "sku-" + uuid.NewString()
		must[Inventory](t)(s.SetInventory(t.Context(), sku, 1, "operator:ada"))
		for i := range 2 {
			a := s.Create(t.Context(), CreateCharge{Caller: "shop-3", Key: uuid.New(), Request: request(func(r *Request) {
				r.Items, r.Reference = []Item{{SKU: sku, Quantity: 1}}, sku+fmt.Sprint(i)
			})})
			if want := i == 0; want != (a.Err == nil) {
				t.Fatalf("%d: %v", i, a.Err)
			}
			if a.Err == nil {
				must[Evidence](t)(s.Evidence(t.Context(), a.ChargeID))
			}
		}
		if v := must[Inventory](t)(s.Inventory(t.Context(), sku)); v.Held != 1 || v.Available != 0 {
			t.Errorf("%+v", v)
		}
		must[Inventory](t)(s.SetInventory(t.Context(), sku, 2, "operator:ada"))
	}},
	{"hold a hundred of a hot SKU", 4000, "Create", func(t *testing.T, s *sized) {
		s.accept(t, 100, Item{SKU: hotSKU, Quantity: 1})
	}},
	{"take", onePages, "Begin Settle", func(t *testing.T, s *sized) {
		id := s.pickSelling(t, Pending)
		s.pay(t, id)
		s.wantStock(t, id, Succeeded, StockTaken)
	}},
	{"give back", onePages, "Begin Settle", func(t *testing.T, s *sized) {
		id := s.pickSelling(t, Pending)
		s.decline(t, id)
		s.wantStock(t, id, Failed, StockReturned)
	}},
	{"take late", onePages, "Hear", func(t *testing.T, s *sized) {
		id := s.pickSelling(t, Failed)
		s.hearPaid(t, id)
		s.wantStock(t, id, Succeeded, StockTaken)
	}},
	{"take too late", onePages, "Hear Rule", func(t *testing.T, s *sized) {
		id := s.pickSelling(t, Failed)
		s.exec(t, `UPDATE inventory SET quantity = allocated WHERE sku = $1`, hotSKU)
		s.hearPaid(t, id)
		s.wantStock(t, id, NeedsReview, StockReturned)
		s.exec(t, `UPDATE inventory SET quantity = allocated + 1000000 WHERE sku = $1`, hotSKU)
		must[Charge](t)(s.Rule(t.Context(), id, Ruling{As: Succeeded, Because: "stocked again", Actor: "operator:ada"}))
		s.wantStock(t, id, Succeeded, StockTaken)
	}},
	{"restock, and leave to others", onePages, "Hear Rule", func(t *testing.T, s *sized) {
		for _, r := range []Ruling{{As: Succeeded, Restock: true}, {As: Succeeded, WithoutItems: true}} {
			id := s.pickSelling(t, Failed)
			s.exec(t, `UPDATE inventory SET quantity = allocated WHERE sku = $1`, hotSKU)
			s.hearPaid(t, id)
			s.wantStock(t, id, NeedsReview, StockReturned)
			r.Because, r.Actor = "seen", "operator:ada"
			must[Charge](t)(s.Rule(t.Context(), id, r))
			s.exec(t, `UPDATE inventory SET quantity = allocated + 1000000 WHERE sku = $1`, hotSKU)
			s.wantStock(t, id, Succeeded, map[bool]Stock{true: StockTaken, false: StockReturned}[r.Restock])
		}
	}},
	{"rule on what is held", onePages, "Rule", func(t *testing.T, s *sized) {
		for _, r := range []Ruling{{As: Succeeded, Payment: "pi_" + uuid.NewString()[:8]}, {As: Failed, Force: true}} {
			id := s.pickSelling(t, NeedsReview)
			r.Because, r.Actor = "seen", "operator:ada"
			must[Charge](t)(s.Rule(t.Context(), id, r))
			s.wantStock(t, id, r.As, stockAt(r.As, StockHeld))
		}
	}},
	{"list inventory", pagePages, "Inventory ListInventory", func(t *testing.T, s *sized) {
		list, _, err := s.ListInventory(t.Context(), "", 50)
		if err != nil || len(list) == 0 {
			t.Fatal(len(list), err)
		}
		if v := must[Inventory](t)(s.Inventory(t.Context(), hotSKU)); v.Held < *sizeRows/50 || v.Taken < *sizeRows/10 {
			t.Errorf("%+v", v)
		}
	}},
}

// pickSelling is pick for a charge with items.
func (s *sized) pickSelling(t *testing.T, status Status) uuid.UUID {
	t.Helper()
	for i, id := range s.sample[status] {
		if c := must[Charge](t)(s.Get(t.Context(), "", id)); len(c.Items) > 0 {
			s.sample[status] = slices.Delete(s.sample[status], i, i+1)
			return id
		}
	}
	t.Fatalf("no charge with items is %s", status)
	return uuid.Nil
}

// wantStock checks where a charge is, and its items with it.
func (s *sized) wantStock(t *testing.T, id uuid.UUID, status Status, stock Stock) {
	t.Helper()
	if c := must[Charge](t)(s.Get(t.Context(), "", id)); c.Status != status || c.Stock == nil || *c.Stock != stock {
		t.Errorf("it is %s and its items are %v, want %s and %s", c.Status, *c.Stock, status, stock)
	}
}

// hearPaid hears that a charge's payment has succeeded.
func (s *sized) hearPaid(t *testing.T, id uuid.UUID) {
	t.Helper()
	c := must[Charge](t)(s.Get(t.Context(), "", id))
	must[Note](t)(s.Hear(t.Context(), id, s.here().Account, paidNow(c)))
}

// allocatedAsHeld checks that what is allocated of each SKU is what charges have of it, as it was filled and after all that was done.
func allocatedAsHeld(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var wrong int
	err := pool.QueryRow(t.Context(), `
SELECT count(*) FROM inventory i
 WHERE allocated <> (SELECT coalesce(sum(quantity) FILTER (WHERE stock <> 'returned'), 0) FROM charge_item WHERE sku = i.sku)`).Scan(&wrong)
	if err != nil || wrong > 0 {
		t.Errorf("%d SKUs are not allocated as their charges say, %v", wrong, err)
	}
}
