package main

import (
	"context"
	"net/http"
	"syscall"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

func init() {
	crashStories = append(crashStories,
		crashStory{"the last one is held", both("charge.accept"), tellHeld, []string{"charge.accept after"}},
		crashStory{"the last one is taken", both("attempt.begin", callCreate, "attempt.settle"), tellTaken, nil},
		crashStory{"the last one is given back by a decline", both("attempt.begin", callCreate, "attempt.settle"), tellGivenBack, []string{"attempt.settle after"}},
		crashStory{"the last one is given back, not sent in time", both("attempt.begin"), tellTooLate, nil},
		crashStory{"the last one is given back by a buyer who does not come back", both("cancel.begin", callCancel, "cancel.settle"), tellAbandoned, nil},
		crashStory{"the last one was given back, and its charge is paid after all", both("webhook.stripe"), tellPaidAfterEnd, []string{"webhook.stripe after"}},
		crashStory{"the stock is set", both("inventory.set"), tellStock, []string{"inventory.set after"}},
	)
}

// sell is buy, of one cup.
func (c *crash) sell(method string, want client.Status) *crashOrder {
	o := c.buy(method, want)
	o.params.Items = []client.Item{{SKU: "cup", Quantity: 1}}
	return o
}

// sellLast begins with one cup and a buyer for it.
func (c *crash) sellLast(method string, want client.Status) *crashOrder {
	c.t.Helper()
	c.server = c.api()
	c.stock(c.server, "cup", 1)
	return c.sell(method, want)
}

// soldOut has another buyer ask for the cup, in vain.
func (c *crash) soldOut(o *crashOrder) {
	c.t.Helper()
	if err := o.post(context.Background(), c.client(c.server)); !short(err) {
		c.t.Errorf("another buyer of the last one is told: %v", err)
	}
	c.checkStock()
}

func newCup() *crashOrder {
	return (&crash{}).sell("pm_card_visa", client.StatusSucceeded)
}

func tellHeld(c *crash) {
	c.sellLast("pm_card_visa", client.StatusSucceeded)
	c.server.signal(syscall.SIGTERM)
	c.server.exitCode()
	c.crashPosting()
	c.wantStock(c.server, "cup", 0, 1, 0)
	other := newCup()
	c.soldOut(other)
	c.finish()
	c.wantStock(c.server, "cup", 0, 0, 1)
	c.soldOut(other)
	c.stock(c.server, "cup", 2)
	c.orders = append(c.orders, other) // whose key is as good as new
	c.mustPost()
	c.awaitQuiet()
	c.tally()
	c.wantStock(c.server, "cup", 0, 0, 2)
}

func tellTaken(c *crash) {
	c.sellLast("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.crashWorker(c.point)
	c.soldOut(newCup())
	c.aMinutePasses()
	c.finish()
	c.wantStock(c.server, "cup", 0, 0, 1)
}

func tellGivenBack(c *crash) {
	c.sellLast("pm_card_chargeDeclined", client.StatusFailed)
	c.mustPost()
	c.crashWorker(c.point)
	if name, side, _ := cutLast(c.point.at); name == "attempt.settle" && side == "after" {
		c.wantStock(c.server, "cup", 1, 0, 0) // with the commit that says so
	} else {
		c.soldOut(newCup())
	}
	c.aMinutePasses()
	c.finish()
	c.sellAgain()
}

// sellAgain sells the cup that has been given back.
func (c *crash) sellAgain() {
	c.t.Helper()
	c.wantStock(c.server, "cup", 1, 0, 0)
	c.sell("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.awaitQuiet()
	c.tally()
	c.wantStock(c.server, "cup", 0, 0, 1)
}

func tellTooLate(c *crash) {
	o := c.sellLast("pm_card_visa", client.StatusCanceled)
	o.params.SendBefore = time.Now().Add(3 * time.Second)
	c.mustPost()
	lateBy(c.t, o.params.SendBefore)
	c.wantStock(c.server, "cup", 0, 1, 0) // by the charge's state, and no timer
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
	c.sellAgain()
}

func tellAbandoned(c *crash) {
	o := c.sellLast("pm_card_authenticationRequired", client.StatusCanceled)
	c.mustPost()
	worker := c.worker()
	c.awaitStatus(c.server, o.params.IdempotencyKey, client.StatusRequiresAction)
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	if _, err := c.pool.Exec(c.t.Context(), `UPDATE charge SET updated_at = updated_at - interval '25 h'`); err != nil {
		c.t.Fatal(err)
	}
	c.poke = dueNow
	c.crashWorker(c.point)
	if c.point.at != "cancel.settle after" {
		c.soldOut(newCup())
	}
	c.aMinutePasses()
	c.finish()
	c.sellAgain()
}

// tellPaidAfterEnd has a person call failed what was paid unheard, and kills the API that hears of it.
func tellPaidAfterEnd(c *crash) {
	o := c.sellLast("pm_card_visa", client.StatusSucceeded)
	c.box.fault(`"fault":"drop_after"`)
	c.box.fault(`"fault":"status","status":403`)
	c.mustPost()
	worker := c.worker()
	charge := c.awaitStatus(c.server, o.params.IdempotencyKey, client.StatusNeedsReview)
	worker.kill()
	c.aMinutePasses()
	c.oncepay("review", "settle", charge.ID, "--as=failed", "--because=a test", "--force").must(c.t)
	c.wantStock(c.server, "cup", 1, 0, 0)

	c.server.signal(syscall.SIGTERM)
	c.server.exitCode()
	c.armed(c.point, func() { c.server = c.api() })
	c.box.hear(c.server.url)
	paid := `"events":["` + c.box.eventOf("payment_intent.succeeded", charge.ID) + `"]`
	if _, err := call(http.MethodPost, c.box.url+"/_sandbox/webhooks/deliver", "{"+paid+"}", nil, nil); err != nil {
		c.t.Fatal(err)
	}
	c.awaitDeath(c.server.process)
	c.awaitNoAPI()
	c.checkStock()
	c.restartAPI()
	c.box.deliver(paid)
	c.wantStock(c.server, "cup", 0, 0, 1)
	c.finish()
	c.wantStock(c.server, "cup", 0, 0, 1)
}

// tellStock kills the API that sets a quantity, whose answer is lost, so that it is set again.
func tellStock(c *crash) {
	c.sellLast("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.server.signal(syscall.SIGTERM)
	c.server.exitCode()
	c.armed(c.point, func() { c.server = c.api() })
	setting, keeper := make(chan error, 1), c.stockkeeper(c.server)
	go func() {
		_, err := keeper.SetInventory(context.Background(), "cup", 3)
		setting <- err
	}()
	c.awaitDeath(c.server.process)
	c.awaitNoAPI()
	c.checkStock()
	set := c.count(`SELECT quantity FROM inventory WHERE sku = 'cup'`)
	if _, side, _ := cutLast(c.point.at); (set == 3) != (side == "after") {
		c.t.Errorf("killed %s, and %d are stocked", c.point, set)
	}
	c.restartAPI()
	if err := receive(c.t, setting, "the stockkeeper's retry"); err != nil {
		c.t.Fatalf("set: %v", err)
	}
	c.wantStock(c.server, "cup", 2, 1, 0)
	if n := c.count(`SELECT count(*) FROM operator_action WHERE action = 'inventory.set' AND data ->> 'to' = '3'`); n != 1 {
		c.t.Errorf("set twice, and %d times on record", n)
	}
	c.finish()
	c.wantStock(c.server, "cup", 2, 0, 1)
	if _, err := c.stockkeeper(c.server).SetInventory(c.t.Context(), "cup", 0); err == nil {
		c.t.Error("the stock is less than was sold")
	}
}
