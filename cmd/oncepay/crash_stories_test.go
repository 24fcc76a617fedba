package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/charges/client"
)

// crashStory is what happens to a charge, and where on its way a process is killed.
type crashStory struct {
	name   string
	points []crashPoint
	tell   func(c *crash) // kills the process at c.point, and goes on without it
	few    []string       // the points that are tried in every run; -crash.all tries all
}

// both are both sides of each.
func both(names ...string) (points []crashPoint) {
	for _, name := range names {
		points = append(points, crashPoint{at: name + " before"}, crashPoint{at: name + " after"})
	}
	return points
}

const (
	callAccount = "GET /v1/account"
	callCreate  = "POST /v1/payment_intents"
	callList    = "GET /v1/payment_intents"
	callRead    = "GET /v1/payment_intents/{id}"
	callCancel  = "POST /v1/payment_intents/{id}/cancel"
	callMail    = "POST /v3/mail/send"
)

var crashStories = []crashStory{
	{"a charge is accepted", both("charge.accept"), tellAccept, []string{"charge.accept after"}},
	{"several are accepted together", []crashPoint{{"charge.accept before", 2}, {"charge.accept after", 2}}, tellTogether, []string{"charge.accept after"}},
	{"a retry comes too late", both("charge.await_twin"), tellLate, nil},
	{"a charge is paid", both(callAccount, "identity.confirm", "provider.lease", "attempt.begin", callCreate, "attempt.settle",
		"provider.success", "receipt.claim", callMail, "receipt.settle"), tellPaid,
		[]string{"attempt.begin after", callCreate + " after", "attempt.settle after", callMail + " before"}},
	{"a charge is declined", both("attempt.begin", callCreate, "attempt.settle"), tellDeclined, []string{callCreate + " after"}},
	{"an answer is lost for a day", both("attempt.begin", "reading.take", callList, "reading.save", "look.record"), tellAdopted, []string{"look.record after"}},
	{"a request is lost for a day", append(both("reading.take", callList, "reading.save", callCreate, "attempt.settle"), crashPoint{"attempt.begin after", 2}),
		tellAbsent, []string{callCreate + " after"}},
	{"a buyer fails to authenticate", both(callRead, "payment.hear", "cancel.begin", callCancel, "cancel.settle"), tellCanceled,
		[]string{callCancel + " after"}},
	{"a buyer authenticates unheard", both(callRead, "payment.hear"), tellAuthenticated, nil},
	{"events are told", append(both("webhook.stripe", "webhook.sendgrid"), crashPoint{"webhook.stripe after", 2}), tellEvents,
		[]string{"webhook.stripe after", "webhook.sendgrid before"}},
	{"a refund is read", both("GET /v1/refunds", "GET /v1/disputes", "refund.hear", "refund.read"), tellRefund, nil},
	{"an event waits", both("webhook.pending"), tellPending, nil},
	{"an event is retried by hand", both("webhook.retry"), tellRetry, nil},
	{"upkeep", both("keys.expire", "outbox.sweep", "webhook.remove", "attempt.remove", "reading.remove", "provider.read", "provider.reconcile", "backlog.move"), tellUpkeep, []string{"outbox.sweep after"}},
	{"Stripe is away", both("provider.pause", "provider.trial_failed", "provider.resume", "provider.trial_call_ended"), tellOutage, []string{"provider.pause after"}},
	{"Stripe says that we are too fast", both("provider.slow"), tellSlow, nil},
	{"an operator pauses", both("provider.operator_pause", "provider.operator_resume"), tellPause, nil},
	{"an operator declares a restored database", both("restoration.declare"), tellRestored, nil},
	{"an operator settles a charge", both("review.settle"), tellReview, []string{"review.settle after"}},
	{"an operator settles a receipt", both("receipt.rule"), tellRuling, nil},
	{"a replay", append(both("outbox.preview", "outbox.replay_begin", "outbox.replay", "outbox.replay_end"),
		crashPoint{"outbox.replay_end before", 2}, crashPoint{"outbox.replay_end after", 2}), tellReplay, []string{"outbox.replay before"}},
	{"a list", both("outbox.list"), tellList, nil},
	{"tokens", both("token.add", "token.revoke"), tellTokens, nil},
}

// crashedCalls are the calls at which a process is killed.
var crashedCalls = map[string]bool{}

func init() {
	for _, story := range crashStories {
		for _, p := range story.points {
			if name, _, _ := cutLast(p.at); strings.Contains(name, "/") {
				crashedCalls[name] = true
			}
		}
	}
}

// crashPosting starts an API that dies at the point, posts to it, and starts it again for the client's next try.
func (c *crash) crashPosting(flags ...string) {
	c.t.Helper()
	c.armed(c.point, func() { c.server = c.api(flags...) })
	posting, caller := make(chan error, 1), c.client(c.server)
	go func() { posting <- c.post(caller) }()
	c.awaitDeath(c.server.process)
	c.restartAPI()
	if err := receive(c.t, posting, "the client's retry"); err != nil {
		c.t.Fatalf("post: %v", err)
	}
}

func tellAccept(c *crash) {
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.crashPosting()
	c.finish()
}

// tellTogether kills the API at the commit that several requests share, those that came while another was held up. Each client tries again.
func tellTogether(c *crash) {
	const several = 8
	var gate *gate
	c.armed(c.point, func() {
		c.env = append(c.env, "GOMAXPROCS=2") // one such commit at a time
		c.server = c.api()
		gate = c.closeGate(beforeCommit)
	})
	var posts errgroup.Group
	post := func(o *crashOrder) {
		caller := c.client(c.server)
		posts.Go(func() error { return o.post(context.Background(), caller) })
	}
	post(c.buy("pm_card_visa", client.StatusSucceeded))
	gate.awaitHeld()
	for range several {
		post(c.buy("pm_card_visa", client.StatusSucceeded))
	}
	await(c.t, patience, "the others wait", func() error {
		metrics, err := call(http.MethodGet, c.server.url+"/metrics", "", nil, nil)
		if want := fmt.Sprintf("oncepay_shared_commit_members_sum{transaction=\"token.find\"} %d\n", 1+several); err == nil && !strings.Contains(metrics.body, want) {
			err = errWaits
		}
		return err
	})
	gate.open()
	c.awaitDeath(c.server.process)
	c.awaitNoAPI()
	_, side, _ := cutLast(c.point.at)
	switch n := c.count(`SELECT count(*) FROM charge`); {
	case side == "before" && n != 1:
		c.t.Errorf("%d charges before the commit", n)
	case side == "after" && n < 1+several/2:
		c.t.Errorf("%d charges after the commit: few shared it", n)
	}
	c.restartAPI()
	if err := posts.Wait(); err != nil {
		c.t.Fatalf("post: %v", err)
	}
	c.finish()
}

func tellLate(c *crash) {
	o := c.buy("pm_card_visa", client.StatusCanceled)
	o.params.SendBefore = time.Now().Add(3 * time.Second)
	c.server = c.api()
	c.mustPost()
	c.server.kill()
	lateBy(c.t, o.params.SendBefore)
	c.crashPosting("--listen=" + strings.TrimPrefix(c.server.url, "http://"))
	c.finish()
	if n := c.box.ledger().sends(o.params.IdempotencyKey); n != 0 {
		c.t.Errorf("too late, and sent %d times", n)
	}
}

func tellPaid(c *crash) { c.tellOne("pm_card_visa", client.StatusSucceeded) }

func tellDeclined(c *crash) { c.tellOne("pm_card_chargeDeclined", client.StatusFailed) }

func (c *crash) tellOne(method string, want client.Status) {
	c.server = c.api()
	c.buy(method, want)
	c.mustPost()
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
}

func tellAdopted(c *crash) { c.tellLost(" after") }

func tellAbsent(c *crash) { c.tellLost(" before") }

// tellLost kills a worker in its call, lets a day pass, and then kills the one that looks.
func (c *crash) tellLost(side string) {
	c.server = c.api()
	o := c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.crashWorker(crashPoint{at: callCreate + side})
	c.aMinutePasses()
	c.box.advance("25h")
	c.poke = dueNow
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
	if n := c.box.ledger().sends(o.params.IdempotencyKey); side == " after" && n != 1 {
		c.t.Errorf("sent %d times", n)
	}
}

func tellCanceled(c *crash) { c.tellAction("failed", client.StatusFailed) }

func tellAuthenticated(c *crash) { c.tellAction("succeeded", client.StatusSucceeded) }

// tellAction has the buyer act while nobody listens, so that only asking tells.
func (c *crash) tellAction(outcome string, want client.Status) {
	c.server = c.api()
	o := c.buy("pm_card_authenticationRequired", want)
	c.mustPost()
	worker := c.worker()
	c.awaitStatus(c.server, o.params.IdempotencyKey, client.StatusRequiresAction)
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	c.box.authenticate(c.box.ledger().paymentOf(o.params.IdempotencyKey), outcome)
	c.poke = dueNow
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
	if status := c.box.ledger().statusOf(o.params.IdempotencyKey); want == client.StatusFailed && status != "canceled" {
		c.t.Errorf("failed, and at Stripe the payment is %s", status)
	}
}

func tellEvents(c *crash) {
	o := c.buy("pm_card_visa", client.StatusSucceeded)
	c.armed(c.point, func() { c.server = c.api() })
	c.box.hear(c.server.url)
	c.mustPost()
	c.worker()
	c.awaitDeath(c.server.process)
	c.restartAPI()
	c.awaitReceipt(c.server, o.params.IdempotencyKey, "delivered")
	c.settle()
}

// payHeard has one charge paid and its events heard, and stops the worker.
func (c *crash) payHeard() (key string) {
	c.t.Helper()
	c.server = c.api()
	c.box.hear(c.server.url)
	key = c.buy("pm_card_visa", client.StatusSucceeded).params.IdempotencyKey
	c.mustPost()
	worker := c.worker()
	c.awaitReceipt(c.server, key, "delivered")
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	return key
}

func tellRefund(c *crash) {
	key := c.payHeard()
	c.box.refund(c.box.ledger().paymentOf(key), 500)
	c.poke = dueNow
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
	if refunded := c.charge(c.server, key).AmountRefunded; refunded != 500 {
		c.t.Errorf("500 were given back, and it knows of %d", refunded)
	}
}

func tellPending(c *crash) {
	c.payHeard()
	if err := c.box.pay("foreign-1"); err != nil {
		c.t.Fatal(err)
	}
	l := c.box.ledger()
	i := slices.IndexFunc(l.Payments, func(p payment) bool { return p.Metadata["order"] == "foreign-1" })
	c.box.refund(l.Payments[i].ID, 100) // of which nobody knows whose it is
	await(c.t, patience, "the refund is told", func() error {
		if c.count(`SELECT count(*) FROM webhook_event WHERE status = 'pending'`) == 0 {
			return errWaits
		}
		return nil
	})
	c.poke = `UPDATE webhook_event SET due_at = now() WHERE status = 'pending' AND due_at > now()`
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
}

func tellRetry(c *crash) {
	c.payHeard()
	c.crashCommand("webhooks", "retry", "1")
	c.oncepay("webhooks", "retry", "1").must(c.t)
	c.finish()
	await(c.t, patience, "the event is applied again", func() error {
		if c.count(`SELECT count(*) FROM webhook_event WHERE id = 1 AND status <> 'pending'`) == 0 {
			return errWaits
		}
		return nil
	})
}

func tellUpkeep(c *crash) {
	c.server = c.api()
	o := c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	o.expired = true
	for _, sql := range []string{`UPDATE idempotency_key SET expires_at = now()`, `DELETE FROM river_job`} {
		if _, err := c.pool.Exec(c.t.Context(), sql); err != nil {
			c.t.Fatal(err)
		}
	}
	c.crashWorker(c.point)
	c.aMinutePasses()
	c.finish()
	if n := c.count(`SELECT count(*) FROM idempotency_key`); n != 0 {
		c.t.Errorf("%d answers are still stored", n)
	}
}

func tellReplay(c *crash) {
	c.server = c.api()
	for range 3 {
		c.buy("pm_card_visa", client.StatusSucceeded)
	}
	c.mustPost()
	if _, err := c.pool.Exec(c.t.Context(), `DELETE FROM river_job`); err != nil {
		c.t.Fatal(err)
	}
	c.crashCommand("outbox", "replay", "--apply")
	c.oncepay("outbox", "replay", "--apply").must(c.t)
	if n := c.count(`SELECT count(*) FROM river_job`); n != len(c.orders) {
		c.t.Errorf("%d jobs for %d charges", n, len(c.orders))
	}
	c.finish()
}

func tellList(c *crash) {
	c.server = c.api()
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	c.crashCommand("outbox", "list")
	expect(c.t, "list", c.oncepay("outbox", "list").must(c.t), ` never_sent `)
	c.finish()
}

func tellTokens(c *crash) {
	c.server = c.api()
	name, side, _ := cutLast(c.point.at)
	if name == "token.add" {
		c.crashCommand("keys", "create", "--name=shop", "--role=caller")
	}
	c.token = strings.TrimSpace(c.oncepay("keys", "create", "--name=shop", "--role=caller").must(c.t))
	c.buy("pm_card_visa", client.StatusSucceeded)
	c.mustPost()
	if name == "token.revoke" {
		other := c.oncepay("keys", "create", "--name=lost", "--role=caller").must(c.t)
		var id string
		if err := c.pool.QueryRow(c.t.Context(), `SELECT id::text FROM api_token WHERE name = 'lost'`).Scan(&id); err != nil {
			c.t.Fatal(err)
		}
		c.crashCommand("keys", "revoke", id)
		if again := c.oncepay("keys", "revoke", id).run(c.t); (again.code == 0) != (side == "before") {
			c.t.Errorf("revoked again: exit %d: %s", again.code, again.stderr)
		}
		if err := get(c.t, c.server.url+"/charges", strings.TrimSpace(other)).want(401); err != nil {
			c.t.Errorf("revoked, and still good: %v", err)
		}
	}
	c.finish()
}
