package main

import (
	"net/http"
	"slices"

	"github.com/oncepay/oncepay/charges/client"
)

// tellOutage kills the worker that finds out that Stripe is away, that it is still, or that it is back.
func tellOutage(c *crash) {
	c.server = c.api()
	first := c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	var victim *process
	c.armed(c.point, func() { victim = c.workerProcess().start(c.t) })
	c.awaitStatus(c.server, first.params.IdempotencyKey, client.StatusSucceeded)
	c.box.control(http.MethodPost, "faults", `{"path":"/v1/*","fault":"status","status":503,"times":-1}`, nil)
	for range 4 {
		c.buy("pm_card_visa", client.StatusSucceeded)
	}
	c.mustPost()
	await(c.t, 2*patience, "the outage is on record", func() error {
		if victim.hasEnded() || c.count(`SELECT count(*) FROM provider WHERE outage IS NOT NULL`) > 0 {
			return nil
		}
		return errWaits
	})
	if name, _, _ := cutLast(c.point.at); name == "provider.resume" || name == "provider.trial_call_ended" {
		c.box.clearFaults()
	}
	c.awaitDeath(victim)
	c.box.clearFaults()
	c.aMinutePasses()
	c.finish()
}

func tellSlow(c *crash) {
	c.server = c.api()
	c.box.fault(`"fault":"status","status":429,"retry_after":1`)
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
}

func tellPause(c *crash) {
	c.server = c.api()
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	pause, resume := []string{"outbox", "pause", "--provider=stripe", "--because=a test"}, []string{"outbox", "resume", "--provider=stripe"}
	name, side, _ := cutLast(c.point.at)
	if name == "provider.operator_pause" {
		c.crashCommand(pause...)
		if n := c.count(`SELECT count(*) FROM provider WHERE paused_by IS NOT NULL`); (n == 1) != (side == "after") {
			c.t.Errorf("%d providers are paused", n)
		}
		c.oncepay(pause...).must(c.t)
	} else {
		c.oncepay(pause...).must(c.t)
		c.crashCommand(resume...)
	}
	c.oncepay(resume...).must(c.t)
	c.finish()
}

func tellRestored(c *crash) {
	c.server = c.api()
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	declare := []string{"reconcile", "--restored", "--because=a test", "--since=2026-01-01T00:00:00Z"}
	c.crashCommand(declare...)
	c.oncepay(declare...).must(c.t)
	c.finish()
}

// tellReview kills the operator's command that settles a charge for which Stripe has stored a failure.
func tellReview(c *crash) {
	c.server = c.api()
	o := c.buy("pm_card_visa", client.StatusFailed)
	c.box.fault(`"fault":"stored_status","status":500`)
	c.mustPost()
	worker := c.worker("--look-delays=0s")
	charge := c.awaitStatus(c.server, o.params.IdempotencyKey, client.StatusNeedsReview)
	worker.kill()
	c.aMinutePasses()
	settle := []string{"review", "settle", charge.ID, "--as=failed", "--because=a test", "--force"} // its look came at once, and proves nothing
	c.crashCommand(settle...)
	_, side, _ := cutLast(c.point.at)
	if again := c.oncepay(settle...).run(c.t); again.code != 0 && side == "before" {
		c.t.Errorf("settled again: exit %d: %s", again.code, again.stderr)
	}
	c.finish()
}

// tellRuling kills the operator's command that settles a receipt of which nobody knows.
func tellRuling(c *crash) {
	c.server = c.api()
	o := c.buy("pm_card_visa", client.StatusSucceeded)
	c.box.mailFault(`"fault":"drop_after"`)
	c.mustPost()
	worker := c.worker()
	c.awaitReceipt(c.server, o.params.IdempotencyKey, "unknown")
	worker.kill()
	c.aMinutePasses()
	rule := []string{"review", "settle-receipt", c.charge(c.server, o.params.IdempotencyKey).ID, "--as=sent", "--because=a test"}
	c.crashCommand(rule...)
	_, side, _ := cutLast(c.point.at)
	if again := c.oncepay(rule...).run(c.t); again.code != 0 && side == "before" {
		c.t.Errorf("settled again: exit %d: %s", again.code, again.stderr)
	}
	c.finish()
	if r := c.charge(c.server, o.params.IdempotencyKey).Receipt; r == nil || !slices.Contains([]string{"sent", "delivered"}, r.Status) {
		c.t.Error("the ruling was lost")
	}
}
