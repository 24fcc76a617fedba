package main

import (
	"net/http"

	"github.com/oncepay/oncepay/charges/client"
)

func init() {
	var points []crashPoint
	for _, p := range both("attempt.begin", "attempt.settle") {
		points = append(points, crashPoint{p.at, 2}) // the first comes alone, and the others wait for it
	}
	for _, p := range both("receipt.claim", "receipt.settle") {
		points = append(points, crashPoint{p.at, 5}) // when the first mails, which went out one by one, have been answered together
	}
	crashStories = append(crashStories, crashStory{"many charges share their commits", points, tellMany, []string{"attempt.begin after", "attempt.settle before"}})
}

// tellMany kills a worker in a transaction that several charges share.
func tellMany(c *crash) {
	const n = 24
	c.server = c.api()
	for range n {
		c.buy("pm_card_visa", client.StatusSucceeded)
	}
	c.mustPost()
	c.box.control(http.MethodPost, "faults", `{"method":"POST","path":"/v*","fault":"delay","delay_ms":300,"times":-1}`, nil) // all are answered at about the same time
	c.holdFirst()
	c.env = []string{crashEnv + "=" + c.point.String(), "GOMAXPROCS=2"} // with more, more transactions run at a time, of fewer members
	victim := c.workerProcess().start(c.t)
	c.env = nil
	c.awaitDeath(victim)
	c.box.clearFaults()
	attempts, answered := c.count(`SELECT count(*) FROM attempt`), c.count(`SELECT count(*) FROM attempt WHERE outcome IS NOT NULL`)
	claimed, mailed := c.count(`SELECT count(*) FROM receipt WHERE claim_id IS NOT NULL`), c.count(`SELECT count(*) FROM receipt WHERE status = 'sent'`)
	c.t.Logf("%s: %d attempts, %d answered, %d receipts claimed, %d sent", c.point, attempts, answered, claimed, mailed)
	reached := map[string]int{"attempt.begin after": attempts, "attempt.settle after": answered, "receipt.claim after": claimed, "receipt.settle after": mailed}
	if members, known := reached[c.point.at]; known && members <= c.point.nth {
		c.t.Errorf("%d commits were of %d charges: nobody shared", c.point.nth, members)
	}
	c.aMinutePasses()
	c.finish()
}

// holdFirst lets the first commit of begun attempts, and that of ended ones, take half a second, so that others gather behind it on any machine.
func (c *crash) holdFirst() {
	for _, sql := range []string{`
CREATE FUNCTION hold_first() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM attempt WHERE TG_OP = 'INSERT' OR ended_at IS NOT NULL) = 1 THEN PERFORM pg_sleep(0.5); END IF;
    RETURN NULL;
END
$$`, `CREATE CONSTRAINT TRIGGER hold_first AFTER INSERT OR UPDATE ON attempt DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold_first()`} {
		if _, err := c.pool.Exec(c.t.Context(), sql); err != nil {
			c.t.Fatal(err)
		}
	}
}
