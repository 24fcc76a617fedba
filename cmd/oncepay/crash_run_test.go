package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// crash is one deployment in which one process is killed at one point.
type crash struct {
	*deployment
	point  crashPoint
	server service // the API
	orders []*crashOrder
	poke   string // SQL that lets what waits for a time be due now; empty: nothing waits
}

// crashOrder is a charge, and what must have come of it.
type crashOrder struct {
	order
	want    client.Status
	receipt bool // a mail is due
	expired bool // its stored answer is gone, so that a retry is told the present
}

// buy adds an order; nobody has posted it yet.
func (c *crash) buy(method string, want client.Status) *crashOrder {
	o := &crashOrder{want: want, receipt: want == client.StatusSucceeded}
	o.params = client.CreateParams{IdempotencyKey: newKey(), Amount: int64(1000 + len(c.orders)), Currency: "usd", PaymentMethod: method,
		ReturnURL: "https://shop.example/back", ReceiptEmail: fmt.Sprintf("buyer%d@%s", len(c.orders), buyersHost)}
	c.orders = append(c.orders, o)
	return o
}

// post posts every order, as an application does.
func (c *crash) post(caller *client.Client) error {
	for _, o := range c.orders {
		if err := o.post(context.Background(), caller); err != nil {
			return err
		}
	}
	return nil
}

func (c *crash) mustPost() {
	c.t.Helper()
	if err := c.post(c.client(c.server)); err != nil {
		c.t.Fatalf("post: %v", err)
	}
}

// armed starts something whose process ends at the point.
func (c *crash) armed(p crashPoint, start func()) {
	c.t.Helper()
	c.env = []string{crashEnv + "=" + p.String()}
	start()
	c.env = nil
}

// awaitDeath waits until the process has reached its point.
func (c *crash) awaitDeath(p *process) {
	c.t.Helper()
	await(c.t, patience, "the process comes to "+c.point.String(), func() error {
		if p.hasEnded() {
			return nil
		}
		return c.hurry()
	})
	if !strings.Contains(p.stderr.String(), crashMark) {
		c.t.Fatalf("it ended otherwise: %v", p.cmd.ProcessState)
	}
}

var errWaits = errors.New("not yet")

func (c *crash) hurry() error {
	if c.poke != "" {
		if _, err := c.pool.Exec(c.t.Context(), c.poke); err != nil {
			return fatal{err}
		}
	}
	return errWaits
}

// crashWorker runs a worker until it dies at p.
func (c *crash) crashWorker(p crashPoint) {
	c.t.Helper()
	var victim *process
	c.armed(p, func() { victim = c.workerProcess().start(c.t) })
	c.awaitDeath(victim)
}

// crashCommand runs a command that dies at the point.
func (c *crash) crashCommand(args ...string) {
	c.t.Helper()
	var victim *process
	c.armed(c.point, func() { victim = c.oncepay(args...).start(c.t) })
	c.awaitDeath(victim)
}

// restartAPI starts the API again at its address.
func (c *crash) restartAPI() {
	c.t.Helper()
	c.server = c.api("--listen=" + strings.TrimPrefix(c.server.url, "http://"))
}

// aMinutePasses does while no worker runs what a minute would: River gives a dead worker's jobs back and takes its leadership away, and
// what was under way when it died is a minute older.
func (c *crash) aMinutePasses() {
	c.t.Helper()
	// What PostgreSQL still does for the dead, such as marking jobs as running, it has done.
	await(c.t, patience, "the dead worker's sessions end", func() error {
		if c.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'oncepay-worker%'`) > 0 {
			return errWaits
		}
		return nil
	})
	for _, sql := range []string{
		`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'running'`,
		`UPDATE attempt SET sent_at = sent_at - interval '61 s', stripe_sent_at = stripe_sent_at - interval '61 s' WHERE outcome IS NULL`,
		`UPDATE receipt SET claimed_at = claimed_at - interval '61 s' WHERE status = 'sending'`,
		`UPDATE reading SET held_until = held_until - interval '61 s' WHERE holder IS NOT NULL`,
		`UPDATE provider SET trial_call_at = trial_call_at - interval '76 s' WHERE trial_call_at IS NOT NULL`,
		`DELETE FROM river_leader`,
	} {
		if _, err := c.pool.Exec(c.t.Context(), sql); err != nil {
			c.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// dueNow is for stories that wait for a time.
const dueNow = `
UPDATE river_job SET state = 'available', scheduled_at = now()
 WHERE state IN ('scheduled', 'retryable', 'available') AND scheduled_at > now() AND args ? 'charge_id'`

// finish lets a worker do the rest, has every client retry, counts; and once more a day later, after a replay.
func (c *crash) finish() {
	c.t.Helper()
	c.worker()
	c.settle()
}

func (c *crash) settle() {
	c.t.Helper()
	c.awaitQuiet()
	c.mustPost()
	first := c.tally()
	c.box.advance("25h")
	c.oncepay("outbox", "replay", "--apply").must(c.t)
	c.awaitQuiet()
	if again := c.tally(); again != first {
		c.t.Errorf("%s; a day later, after a replay: %s", first, again)
	}
}

// awaitQuiet waits until no charge and no receipt waits for a worker.
func (c *crash) awaitQuiet() {
	c.t.Helper()
	await(c.t, 2*patience, "nothing waits for a worker", func() error {
		charges := c.count(`SELECT count(*) FROM charge WHERE status NOT IN ('succeeded', 'failed', 'canceled', 'needs_review')`)
		receipts := c.count(`SELECT count(*) FROM receipt WHERE status IN ('pending', 'sending')`)
		jobs := c.count(`SELECT count(*) FROM river_job WHERE args ? 'charge_id' AND state <> 'completed'`)
		if charges+receipts+jobs == 0 {
			return nil
		}
		return errors.Join(fmt.Errorf("%d charges, %d receipts and %d jobs do", charges, receipts, jobs), c.hurry())
	})
}

// tally compares what clients were told, what the API and the database say, and what really happened; it returns the latter in brief.
func (c *crash) tally() string {
	c.t.Helper()
	l := c.box.ledger()
	for _, o := range c.orders {
		if err := c.checkCrashOrder(o, l); err != nil {
			c.t.Errorf("key %s: %v", o.params.IdempotencyKey, err)
		}
	}
	if n := c.count(`SELECT count(*) FROM charge`); n != len(c.orders) {
		c.t.Errorf("%d charges for %d orders", n, len(c.orders))
	}
	c.checkTrail()
	c.checkStock()
	for _, r := range l.Requests {
		if name := callName(r.Method, r.Path); !crashedCalls[name] && name != "POST /v1/refunds" {
			c.t.Errorf("no process is killed at the call %s", name)
		}
	}
	return fmt.Sprintf("%d payments, %d mails", len(l.Payments), len(l.Mails))
}

// checkTrail checks that each charge's audit trail leads without a gap to where it is, and that River has given nothing up.
func (c *crash) checkTrail() {
	c.t.Helper()
	if n := c.count(`SELECT count(*) FROM (
		SELECT from_status, lag(to_status) OVER (PARTITION BY charge_id ORDER BY id) AS before FROM charge_event) trail
		WHERE from_status IS DISTINCT FROM before`); n != 0 {
		c.t.Errorf("%d events do not follow on the one before", n)
	}
	if n := c.count(`SELECT count(*) FROM charge c WHERE status IS DISTINCT FROM
		(SELECT to_status FROM charge_event e WHERE e.charge_id = c.id ORDER BY id DESC LIMIT 1)`); n != 0 {
		c.t.Errorf("%d charges are not where their events lead", n)
	}
	if n := c.count(`SELECT count(*) FROM (SELECT FROM charge_event WHERE to_status = 'succeeded' AND from_status <> to_status
		GROUP BY charge_id HAVING count(*) > 1) twice`); n != 0 {
		c.t.Errorf("%d charges succeeded twice", n)
	}
	if n := c.count(`SELECT count(*) FROM river_job WHERE state IN ('discarded', 'cancelled') AND args ? 'charge_id'`); n != 0 {
		c.t.Errorf("River gave %d jobs up", n)
	}
}

func (c *crash) checkCrashOrder(o *crashOrder, l ledger) error {
	key := o.params.IdempotencyKey
	use, err := c.client(c.server).Key(c.t.Context(), key)
	if err != nil {
		return fmt.Errorf("forgotten: %w", err)
	}
	now := use.Charge
	for _, told := range o.answers {
		if told.ID != now.ID || !o.expired && string(told.Raw) != string(o.answers[0].Raw) {
			return fmt.Errorf("answers differ: %s and %s, now %s", o.answers[0].Raw, told.Raw, now.Raw)
		}
	}
	payments, succeeded := l.payments(key)
	mails := l.mails(key)
	switch {
	case now.Status != o.want:
		err = fmt.Errorf("it should be %s", o.want)
	case o.want == client.StatusSucceeded && (succeeded != 1 || payments != 1 || now.PaymentIntent != l.paymentOf(key)):
		err = errors.New("the card was good")
	case o.want != client.StatusSucceeded && (succeeded > 0 || payments > 1):
		err = errors.New("nobody should pay")
	case mails > 1, !o.receipt && (mails > 0 || now.Receipt != nil):
		err = errors.New("mails that nobody should get")
	case o.receipt && now.Receipt == nil:
		err = errors.New("the receipt was forgotten")
	case o.receipt && !slices.Contains([]string{"sent", "delivered", "unknown"}, now.Receipt.Status):
		err = errors.New("the receipt has no outcome")
	case o.receipt && now.Receipt.Status != "unknown" && mails != 1:
		err = errors.New("the receipt was not sent")
	}
	if err != nil {
		return fmt.Errorf("%w: %s; %d payments, %d succeeded, %d mails", err, now.Raw, payments, succeeded, mails)
	}
	return nil
}

// refund gives a part of a payment back, as somebody does in Stripe's dashboard.
func (s *sandboxProcess) refund(payment string, amount int) {
	s.t.Helper()
	a, err := call(http.MethodPost, s.url+"/v1/refunds", fmt.Sprintf("payment_intent=%s&amount=%d", payment, amount), map[string]string{
		"Authorization": "Bearer " + stripeKey, "Content-Type": "application/x-www-form-urlencoded",
	}, nil)
	if err == nil {
		err = a.want(http.StatusOK)
	}
	if err != nil {
		s.t.Fatalf("refund: %v", err)
	}
}

// lateBy waits until a time has passed.
func lateBy(t *testing.T, at time.Time) {
	t.Helper()
	await(t, patience, "it is late", func() error {
		if time.Now().Before(at) {
			return errWaits
		}
		return nil
	})
}
