package stocktest_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/stocktest"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The law can be broken: each way in which stock can be lost or sold twice is found.
func TestFaults(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	box, err := outbox.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	service := charges.New(pool, box, charges.Options{})
	if _, err := service.SetInventory(t.Context(), "cup", 2, "operator:ann"); err != nil {
		t.Fatal(err)
	}
	a := service.Create(t.Context(), charges.CreateCharge{Caller: "shop", Key: uuid.New(), Request: charges.Request{Amount: 1099, Currency: "usd",
		PaymentMethod: "pm_card_visa", CaptureMethod: charges.CaptureAutomatic, Items: []charges.Item{{SKU: "cup", Quantity: 1}}}})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	const succeeded = `INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data) SELECT id, 'charge.succeeded', 'needs_review', 'succeeded', 'operator:ann', `
	for name, c := range map[string]struct{ breaks, fault string }{
		"as it is":                    {`SELECT`, ""},
		"nothing is allocated":        {`UPDATE inventory SET allocated = 0`, "0 of cup are allocated, charges have 1, and 2 were stocked"},
		"more is":                     {`UPDATE inventory SET allocated = 2`, "2 of cup are allocated, charges have 1, and 2 were stocked"},
		"there is less":               {`ALTER TABLE inventory DROP CONSTRAINT inventory_not_oversold; UPDATE inventory SET quantity = 0`, "1 of cup are allocated, charges have 1, and 0 were stocked"},
		"it has more than it wants":   {`UPDATE charge_item SET quantity = 2; UPDATE inventory SET allocated = 2`, "asks for 1 of cup, and has 2"},
		"it has nothing":              {`DELETE FROM charge_item; UPDATE inventory SET allocated = 0`, "has no items, and says they are held"},
		"its item is elsewhere":       {`UPDATE charge_item SET stock = 'taken'`, "says its items are held, and cup is taken"},
		"it says nothing of its item": {`UPDATE charge SET stock = NULL`, "says its items are none, and cup is held"},
		"it is open, and has none": {`UPDATE charge SET stock = 'returned'; UPDATE charge_item SET stock = 'returned'; UPDATE inventory SET allocated = 0`,
			"is pending, and its items are returned"},
		"it has succeeded without it": {`UPDATE charge SET status = 'succeeded', payment_intent = 'pi_1', stock = 'returned'; UPDATE charge_item SET stock = 'returned'; UPDATE inventory SET allocated = 0`,
			"is succeeded, and its items are returned"},
		"it has succeeded without it, says a person": {`UPDATE charge SET status = 'succeeded', payment_intent = 'pi_1', stock = 'returned'; UPDATE charge_item SET stock = 'returned'; UPDATE inventory SET allocated = 0; ` +
			succeeded + `'{"without_items": true}' FROM charge`, ""},
		"a failed one holds it": {`ALTER TABLE charge DROP CONSTRAINT charge_stock_follows_status;
			UPDATE charge SET status = 'failed', failure_code = 'card_declined', advice = 'do_not_retry'`, "is failed, and its items are held"},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			if _, err := tx.Exec(t.Context(), c.breaks); err != nil {
				t.Fatal(err)
			}
			faults, err := stocktest.Faults(t.Context(), tx)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(faults, "\n"); (c.fault == "") != (all == "") || !strings.Contains(all, c.fault) {
				t.Errorf("found %q, want %q", all, c.fault)
			}
		})
	}
}
