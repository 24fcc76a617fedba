package main

import (
	"errors"
	"strings"
	"syscall"

	"github.com/oncepay/oncepay/charges/client"
)

func init() {
	accepted := func(side string) crashPoint { return crashPoint{"charge.accept " + side, 2} } // the first finds that nothing is left, and writes nothing
	crashStories = append(crashStories,
		crashStory{"what a restore has lost is read", both("restoration.read"), tellLostRead, nil},
		crashStory{"what a restore has lost is given up", both("restoration.give_up"), tellGivenUp, nil},
		crashStory{"a lost charge comes back, and is sold out", []crashPoint{accepted("before"), accepted("after")}, tellForgotten, []string{"charge.accept after"}},
	)
}

// lastHour is a restored database, of which all that was sold is lost.
func (c *crash) lastHour() (lost *crashOrder) {
	c.t.Helper()
	lost = c.sellLast("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	worker := c.worker()
	c.awaitStatus(c.server, lost.params.IdempotencyKey, client.StatusSucceeded)
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	for _, table := range []string{"look", "attempt", "receipt", "charge_event", "idempotency_key", "payment", "river_job", "charge_item", "charge"} {
		c.exec(`DELETE FROM ` + table)
	}
	c.exec(`UPDATE inventory SET allocated = 0`)
	c.oncepay("reconcile", "--restored", "--because=a test").must(c.t)
	lost.answers, c.orders = nil, nil
	c.sell("pm_card_visa", client.StatusSucceeded) // to somebody else
	c.mustPost()
	return lost
}

func (c *crash) exec(sql string) {
	c.t.Helper()
	if _, err := c.pool.Exec(c.t.Context(), sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

// awaitLost waits until the command says so of what was lost.
func (c *crash) awaitLost(says string) {
	c.t.Helper()
	await(c.t, patience, "what was lost is "+says, func() error {
		if said := c.oncepay("reconcile", "--lost").must(c.t); !strings.Contains(said, says) {
			return errors.New(said)
		}
		return nil
	})
}

// tellLostRead kills the worker that has read, long after the restore, all that may be lost. Nothing can linger at Stripe any more.
func tellLostRead(c *crash) {
	lost := c.lastHour()
	c.exec(`UPDATE restoration SET detected_at = detected_at - interval '16 min', lost_from = lost_from - interval '16 min'`)
	c.box.advance("16m")
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.stock(c.server, "cup", 2)
	c.orders = append(c.orders, lost)
	c.mustPost()
	c.finish()
	await(c.t, 2*patience, "it is written down", func() error {
		if c.count(`SELECT count(*) FROM restoration WHERE read_at IS NOT NULL`) == 1 {
			return nil
		}
		return errWaits
	})
	c.wantStock(c.server, "cup", 0, 0, 2)
}

// tellGivenUp kills the operator's command that gives up what nobody can read any more.
func tellGivenUp(c *crash) {
	c.server = c.api()
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.oncepay("reconcile", "--restored", "--because=a test", "--since=2026-01-01T00:00:00Z").must(c.t)
	giveUp := []string{"reconcile", "--give-up", "--because=the account is closed"}
	c.crashCommand(giveUp...)
	c.oncepay(giveUp...).must(c.t)
	if n := c.count(`SELECT count(*) FROM restoration WHERE read_at IS NULL`); n != 0 {
		c.t.Errorf("%d are not given up", n)
	}
	c.finish()
}

// tellForgotten kills the API that takes back a charge which was paid, lost, and sold out meanwhile.
func tellForgotten(c *crash) {
	lost := c.lastHour()
	worker := c.worker()
	c.awaitLost(lost.params.IdempotencyKey)
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	c.orders = append(c.orders, lost)
	c.server.signal(syscall.SIGTERM)
	c.server.exitCode()
	c.crashPosting()
	c.stock(c.server, "cup", 2) // one more was found
	c.finish()
	c.wantStock(c.server, "cup", 0, 0, 2)
	c.awaitLost("Nothing that is known of.")
}
