package charges

import (
	"errors"
	"testing"
)

func TestSetInventory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "tee", 3)
	f.create(t, selling(Item{"tee", 2}))
	before, err := f.Inventory(t.Context(), "tee")
	if err != nil {
		t.Fatal(err)
	}
	f.stock(t, "tee", 3)
	if again, err := f.Inventory(t.Context(), "tee"); err != nil || again != before {
		t.Errorf("set again: %+v, %v; was %+v", again, err, before)
	}
	var less *QuantityError
	if _, err := f.SetInventory(t.Context(), "tee", 1, "operator:ada"); !errors.As(err, &less) || less.Inventory.Held != 2 {
		t.Errorf("less than is held: %v", err)
	}
	f.wantStock(t, "tee", 1, 2, 0)
	f.stock(t, "tee", 2)
	f.stock(t, "cap", 0)
	f.wantStock(t, "tee", 0, 2, 0)
	list, more, err := f.ListInventory(t.Context(), "", 1)
	if err != nil || !more || len(list) != 1 || list[0].SKU != "cap" {
		t.Errorf("%+v, %v, %v", list, more, err)
	}
	if list, more, err = f.ListInventory(t.Context(), "cap", 1); err != nil || more || len(list) != 1 || list[0].SKU != "tee" {
		t.Errorf("%+v, %v, %v", list, more, err)
	}
	var invalid *InvalidError
	for sku, quantity := range map[string]int64{"": 1, "a b": 1, "-a": 1, "fine": -1, "fine2": MaxStock + 1} {
		if _, err := f.SetInventory(t.Context(), sku, quantity, "operator:ada"); !errors.As(err, &invalid) {
			t.Errorf("%q, %d: %v", sku, quantity, err)
		}
	}
	if _, err := f.Inventory(t.Context(), "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if n := f.count(t, `SELECT count(*) FROM operator_action WHERE action = 'inventory.set' AND actor = 'operator:ada'`); n != 3 {
		t.Errorf("%d actions on record", n)
	}
}
