package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

var (
	chaosDuration = flag.Duration("chaos.duration", 20*time.Second, "for how long everything breaks")
	chaosSeed     = flag.Uint64("chaos.seed", 0, "decides what breaks when, and what is bought; 0: another one each time")
)

// chaos is a deployment in which everything breaks, and whoever buys in it meanwhile.
type chaos struct {
	*deployment
	seed    uint64
	server  *pgtest.Server
	apis    []*replica
	workers []*replica
	shops   *shops

	end      time.Time      // of the chaos
	calendar sync.Mutex     // held while time is moved
	settled  time.Time      // since when PostgreSQL runs undisturbed
	faults   faultCount     // requests at the providers that a fault acted on
	kills    map[string]int // by what was killed
	stocks   chaosStock
	jumps    int // days that the providers' clock was moved
	replays  int
}

// replica is one of several processes of a kind; it is started again after each death.
type replica struct {
	service
	start func() service
}

// Two APIs, two workers and a PostgreSQL of their own are killed again and again while shops buy through them, both providers lose, refuse
// and delay what they like, and days pass; what is sold runs out, and is stocked again. In the end clients, database and providers agree: nothing is lost,
// doubled or stuck; and at every look meanwhile what charges held and had taken was what was allocated, and no more than there was.
//
//	go test ./cmd/oncepay -run Chaos -v -timeout 30m -chaos.duration=10m -chaos.seed=7
//
// The seed decides what is done and bought in which order; when exactly, the machine.
func TestI2I3I4I5I7Chaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("-chaos.seed=%d -chaos.duration=%s", seed, *chaosDuration)
	c := startChaos(t, seed)
	c.shops.open(c)
	c.keepStock(rand.New(rand.NewPCG(seed, shopCount+1)))
	c.direct(rand.New(rand.NewPCG(seed, 0)))
	c.settle()
	for _, m := range c.workers { // so that nothing moves while it is judged
		m.signal(syscall.SIGTERM)
		m.exitCode()
	}
	c.report(c.verdict())
}

func startChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	server, url := pgtest.Own(t)
	c := &chaos{deployment: deployOn(t, url), seed: seed, server: server, shops: newShops(seed), settled: time.Now(), kills: map[string]int{}}
	for range 2 {
		first := c.api()
		at := "--listen=" + strings.TrimPrefix(first.url, "http://")
		c.apis = append(c.apis, &replica{first, func() service { return c.apiUnready(at) }})
	}
	c.box.hear(balance(t, c.apis[0].service, c.apis[1].service))
	flags := []string{"--look-delays=0s,1s,4s", "--action-ttl=1m", "--concurrency=16"}
	if seed%2 == 1 {
		flags = append(flags, "--rekey=auto")
	}
	t.Logf("workers get %s", flags)
	for range 2 {
		start := func() service { return c.workerUnready(flags...) }
		c.workers = append(c.workers, &replica{start(), start})
	}
	c.payForeign(250)
	return c
}

// settle ends the chaos and waits until nothing can change any more, but by a person or a buyer.
func (c *chaos) settle() {
	c.t.Helper()
	c.faults.read(c)
	c.box.clearFaults()
	for _, m := range append(c.apis, c.workers...) {
		m.awaitReady()
	}
	limit := 5*time.Minute + *chaosDuration/2
	c.stocks.working.Wait()
	c.shops.close(c, limit)
	c.awaitNone(limit, "charges that Stripe has said nothing of",
		`SELECT count(*) FROM charge WHERE status = 'pending' OR status = 'processing' AND payment_intent IS NULL`)
	c.box.advance("73h") // until bank debits are through
	c.redeliver()
	c.awaitNone(limit, "charges that wait for nobody", `SELECT count(*) FROM charge WHERE status IN ('pending', 'processing', 'requires_capture')`)
	c.awaitNone(limit, "receipts that wait for a worker", `SELECT count(*) FROM receipt WHERE status IN ('pending', 'sending')`)
	c.redeliver()
	before := c.tally()
	c.box.advance("25h")
	c.replayTwiceAtOnce()
	c.awaitNone(limit, "jobs that are due", `SELECT count(*) FROM river_job WHERE args ? 'charge_id' AND (state IN ('running', 'retryable') OR state = 'available' AND scheduled_at <= now())`)
	if after := c.tally(); after != before {
		c.t.Errorf("%s; a day later, after a replay: %s", before, after)
	}
}

func (c *chaos) tally() string {
	l := c.box.ledger()
	succeeded := 0
	for _, p := range l.Payments {
		if p.Status == "succeeded" {
			succeeded++
		}
	}
	return fmt.Sprintf("%d payments, %d succeeded, %d mails", len(l.Payments), succeeded, len(l.Mails))
}

// awaitNone waits until a query counts none. What is left at the end is judged with everything else.
func (c *chaos) awaitNone(limit time.Duration, what, query string) {
	c.t.Helper()
	began := time.Now()
	for {
		n := c.count(query)
		if n == 0 {
			c.t.Logf("after %s there are no %s", time.Since(began).Round(time.Second), what)
			return
		}
		if time.Since(began) > limit {
			c.t.Errorf("after %s there are %d %s", limit, n, what)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// redeliver is what the providers do for three days with events that nobody took.
func (c *chaos) redeliver() {
	c.t.Helper()
	var ids []string
	await(c.t, patience, "no event is on its way", func() error {
		ids = nil
		for _, e := range c.box.events() {
			switch e.State {
			case "pending":
				return errors.New(e.ID + " is")
			case "recorded", "abandoned":
				ids = append(ids, `"`+e.ID+`"`)
			}
		}
		return nil
	})
	for len(ids) > 0 {
		n := min(len(ids), 500)
		c.box.deliver(`"parallel":true,"events":[` + strings.Join(ids[:n], ",") + `]`)
		ids = ids[n:]
	}
}

// faultCount counts requests that a fault acted on. The ledger keeps the last 10,000 requests.
type faultCount struct {
	seen int64
	n    int
}

func (f *faultCount) read(c *chaos) {
	for _, r := range c.box.ledger().Requests {
		if r.Seq > f.seen && r.Fault != "" {
			f.n++
		}
		f.seen = max(f.seen, r.Seq)
	}
}

// report prints what the run was worth in one line.
func (c *chaos) report(v verdict) {
	kills := 0
	for _, n := range c.kills {
		kills += n
	}
	line := fmt.Sprintf("chaos: seed %d, %s: %d charges, %d faults (%d at the providers, %d kills: %d api, %d worker, %d PostgreSQL; %d days jumped), %d replays; "+
		"%d paid, %d declined or canceled, %d mails; waiting: %d for a person, %d for the buyer, %d receipts unknown; lost %d, doubled %d, stuck %d, other %d",
		c.seed, *chaosDuration, v.charges, c.faults.n+kills+c.jumps, c.faults.n, kills, c.kills["api"], c.kills["worker"], c.kills["PostgreSQL"], c.jumps, c.replays,
		v.paid, v.ended, v.mails, v.review, v.buyer, v.unknown, v.lost, v.doubled, v.stuck, v.other)
	c.t.Log(line)
	c.t.Logf("%s; %d times an order was short of something, and %d never got it", &c.stocks, v.short, v.refused)
	if v.lost+v.doubled+v.stuck+v.other > 0 {
		c.t.Errorf("again with: -chaos.seed=%d -chaos.duration=%s", c.seed, *chaosDuration)
	}
}
