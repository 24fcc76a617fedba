package main

import (
	"context"
	"errors"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/charges/stocktest"
	"github.com/oncepay/oncepay/outbox"
)

const stockkeepersToken = "token_of_the_stockkeeper"

// stockkeeper is an operator's client.
func (d *deployment) stockkeeper(s service, options ...client.Option) *client.Client {
	d.t.Helper()
	if d.count(`SELECT count(*) FROM api_token WHERE name = 'stockkeeper'`) == 0 {
		box, err := outbox.New(d.pool)
		if err == nil {
			err = charges.New(d.pool, box, charges.Options{}).AddToken(d.t.Context(), stockkeepersToken, "stockkeeper", charges.Operator)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	c, err := client.New(s.url, stockkeepersToken, options...)
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// stock sets how many of a SKU were ever stocked.
func (d *deployment) stock(s service, sku string, quantity int64) {
	d.t.Helper()
	if _, err := d.stockkeeper(s).SetInventory(d.t.Context(), sku, quantity); err != nil {
		d.t.Fatal(err)
	}
}

// wantStock holds how many of a SKU are left for others, held and taken, and the law of the stock.
func (d *deployment) wantStock(s service, sku string, available, held, taken int64) {
	d.t.Helper()
	d.checkStock()
	v, err := d.client(s).Inventory(d.t.Context(), sku)
	if err != nil {
		d.t.Fatal(err)
	}
	if v.Available != available || v.Held != held || v.Taken != taken || v.Quantity != available+held+taken {
		d.t.Errorf("of %d %s %d are available, %d held and %d taken, and should be %d, %d and %d", v.Quantity, sku, v.Available, v.Held, v.Taken, available, held, taken)
	}
}

// checkStock holds the law of the stock, whatever runs meanwhile.
func (d *deployment) checkStock() {
	d.t.Helper()
	faults, err := stocktest.Faults(context.Background(), d.pool)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, fault := range faults {
		d.t.Errorf("stock: %s", fault)
	}
}

// short tells whether a charge was refused because there is not enough of what it asks for.
func short(err error) bool {
	refused := (*client.Error)(nil)
	return errors.As(err, &refused) && refused.Code == "insufficient_inventory"
}
