package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/charges/stocktest"
)

// chaosSKUs run out: the first is what everybody wants, and the stockkeeper is slower than the shops.
var chaosSKUs = []string{"cup", "cup", "mug", "tee"}

// chaosStock is what is done to the stock beside everything else, and how often it was looked at.
type chaosStock struct {
	working sync.WaitGroup
	looks   int // at which the law held or did not
	away    int // for which there was no database
	broken  int
	set     int // quantities
	refused int // quantities below what was held and taken
}

// drawItems are what an order asks for: of some nothing, of most one or two things.
func drawItems(rng *rand.Rand) (items []client.Item) {
	for range rng.IntN(3) {
		item := client.Item{SKU: chaosSKUs[rng.IntN(len(chaosSKUs))], Quantity: 1 + rng.Int64N(2)}
		if len(items) == 0 || items[0].SKU != item.SKU {
			items = append(items, item)
		}
	}
	return items
}

// keepStock lets a stockkeeper stock some more from time to time, or less, and somebody look whether the law holds, until the chaos is over.
func (c *chaos) keepStock(rng *rand.Rand) {
	c.t.Helper()
	keeper := c.stockkeeper(c.apis[0].service, client.WithAttemptTimeout(10*time.Second), client.WithMaxElapsed(10*time.Second))
	for _, sku := range chaosSKUs {
		c.setStock(keeper, sku, 5)
	}
	c.stocks.working.Go(func() {
		for time.Now().Before(c.end) {
			time.Sleep(upTo(rng, 800*time.Millisecond))
			sku, more := chaosSKUs[rng.IntN(len(chaosSKUs))], rng.Int64N(14)-2
			if v, err := keeper.Inventory(c.shops.ctx, sku); err == nil {
				c.setStock(keeper, sku, max(0, v.Quantity+more))
			}
		}
	})
	c.stocks.working.Go(func() {
		for time.Now().Before(c.end) {
			c.lookAtStock()
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// setStock sets a quantity, until it is told whether that was done.
func (c *chaos) setStock(keeper *client.Client, sku string, quantity int64) {
	for c.shops.ctx.Err() == nil {
		_, err := keeper.SetInventory(c.shops.ctx, sku, quantity)
		refused := (*client.Error)(nil)
		switch {
		case err == nil:
			c.stocks.set++
			return
		case errors.As(err, &refused) && refused.Code == "invalid_state":
			c.stocks.refused++
			return
		case errors.As(err, &refused) && refused.Status/100 == 4:
			c.t.Errorf("set the stock: %v", err)
			return
		}
	}
}

// lookAtStock asks whether the law of the stock holds at this moment.
func (c *chaos) lookAtStock() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	faults, err := stocktest.Faults(ctx, c.pool)
	if err != nil {
		c.stocks.away++
		return
	}
	c.stocks.looks++
	for _, fault := range faults {
		if c.stocks.broken++; c.stocks.broken <= 10 { // what is wrong is mostly so for good
			c.t.Errorf("stock: %s", fault)
		}
	}
}

// judgeStock compares what is held and taken with what the orders have come to.
func (c *chaos) judgeStock(v *verdict, now map[string]*client.Charge) {
	c.t.Helper()
	c.checkStock()
	if c.stocks.looks == 0 {
		c.t.Error("nobody looked at the stock while everything ran")
		v.other++
	}
	v.other += c.stocks.broken
	held, taken := map[string]int64{}, map[string]int64{}
	for _, charge := range now {
		for _, i := range charge.Items {
			switch charge.Status {
			case client.StatusSucceeded:
				taken[i.SKU] += i.Quantity
			case client.StatusFailed, client.StatusCanceled:
			default:
				held[i.SKU] += i.Quantity
			}
		}
	}
	for i, err := range c.client(c.apis[0].service).AllInventory(c.t.Context(), client.InventoryParams{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if i.Held != held[i.SKU] || i.Taken != taken[i.SKU] || i.Quantity != i.Available+i.Held+i.Taken || i.Available < 0 {
			c.t.Errorf("orders hold %d and took %d of what there is: %+v", held[i.SKU], taken[i.SKU], *i)
			v.other++
		}
	}
}

func (s *chaosStock) String() string {
	return fmt.Sprintf("the stock's law held at %d looks of %d (%d more without a database), while it was set %d times, and %d times not as it was held", s.looks-s.broken, s.looks, s.away, s.set, s.refused)
}
