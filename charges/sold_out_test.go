package charges

import (
	"errors"
	"testing"

	"github.com/google/uuid"
)

// Of those that are refused together, each is told what it is refused for: another charge of its order comes before the want of its items, and its
// own earlier charge before both.
func TestI4RefusalsOfACrowdNameTheirReasons(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.stock(t, "last", 1)
	lastFor := func(reference string) Request {
		return request(func(r *Request) { r.Items, r.Reference = []Item{{SKU: "last", Quantity: 1}}, reference })
	}
	first := CreateCharge{Caller: "shop", Key: uuid.New(), Request: lastFor("order-1")}
	sold := f.Create(t.Context(), first)
	if sold.Err != nil {
		t.Fatal(sold.Err)
	}
	claims := []*claim{
		newClaim(CreateCharge{Caller: "shop", Key: uuid.New(), Request: lastFor("order-2")}),
		newClaim(CreateCharge{Caller: "shop", Key: uuid.New(), Request: lastFor("order-1")}),
		newClaim(CreateCharge{Caller: "shop", Key: uuid.New(), Request: lastFor("")}),
		newClaim(CreateCharge{Caller: "other", Key: uuid.New(), Request: lastFor("order-1")}),
		newClaim(first),
	}
	f.acceptAll(t, claims)
	for i, c := range claims {
		short, inUse := (*InsufficientInventoryError)(nil), (*ReferenceInUseError)(nil)
		switch i {
		case 1:
			if !errors.As(c.answer.Err, &inUse) || inUse.ChargeID != sold.ChargeID {
				t.Errorf("%d, whose order has a charge: %v", i, c.answer.Err)
			}
		case 4:
			if c.answer.Err != nil || !c.answer.Replayed || c.answer.ChargeID != sold.ChargeID {
				t.Errorf("%d, which has been accepted: %+v", i, c.answer)
			}
		default:
			if !errors.As(c.answer.Err, &short) || len(short.Short) != 1 || short.Short[0] != (Shortage{SKU: "last", Requested: 1, Stocked: true}) {
				t.Errorf("%d, which lacks its item: %v", i, c.answer.Err)
			}
		}
	}
	if n := f.count(t, `SELECT count(*) FROM charge`); n != 1 {
		t.Errorf("%d charges", n)
	}
}

// Whoever sells a SKU by the thousand goes through each version of its row that an open transaction keeps, once for each statement that needs the
// row: a foreign key would need it for each item.
func TestNoKeyIsCheckedInAHotRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	if n := f.count(t, `SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND confrelid = 'inventory'::regclass`); n != 0 {
		t.Errorf("%d foreign keys refer to inventory", n)
	}
	f.stock(t, "hot", 1)
	if _, err := f.pool.Exec(t.Context(), `DELETE FROM inventory WHERE sku = 'hot'`); err == nil {
		t.Error("a SKU was removed")
	}
}
