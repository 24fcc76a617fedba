package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"
)

// direct breaks one thing after the other until the chaos is over. What and when is the seed's choice.
func (c *chaos) direct(rng *rand.Rand) {
	c.t.Helper()
	began := time.Now()
	var days sync.WaitGroup
	defer days.Wait()
	c.wellAgain()
	for i := 0; time.Now().Before(c.end); i++ {
		var what string
		switch n := rng.IntN(100); {
		case n < 62:
			what = c.arm(rng) + " and " + c.arm(rng)
		case n < 72:
			what = c.killOne("worker", c.workers[rng.IntN(2)], rng)
		case n < 80:
			what = c.killOne("api", c.apis[rng.IntN(2)], rng)
		case n < 84:
			what = c.killPostgres(rng)
		case n < 88:
			what = c.restartOne([]*replica{c.workers[rng.IntN(2)], c.apis[rng.IntN(2)]}[rng.IntN(2)])
		case n < 92:
			what = c.dayWithoutWorkers(rng)
		case n < 93:
			what = c.dayInAMinute(&days)
		case n < 96:
			what = c.replayOnce()
		default:
			what = "a stranger's payment"
			if err := c.box.pay(fmt.Sprintf("stranger-%d", i)); err != nil {
				what += ": " + err.Error() // a fault hit it
			}
		}
		c.t.Logf("%6.1fs %s", time.Since(began).Seconds(), what)
		if i%20 == 0 {
			c.faults.read(c)
		}
		time.Sleep(50*time.Millisecond + upTo(rng, 450*time.Millisecond))
	}
}

// wellAgain ends all faults, and leaves providers that take their time, as they do: so that many calls are under way when a process dies.
func (c *chaos) wellAgain() {
	c.t.Helper()
	c.box.clearFaults()
	for _, path := range []string{"/v1/payment_intents*", "/v3/mail/send"} {
		c.box.control("POST", "faults", `{"method":"POST","path":"`+path+`","fault":"delay","delay_ms":250,"probability":0.5,"times":-1}`, nil)
	}
}

// arm arms a fault of the providers.
func (c *chaos) arm(rng *rand.Rand) string {
	times := 1 + rng.IntN(4)
	fault := []string{
		`"fault":"drop_before"`, `"fault":"drop_after"`, `"fault":"truncate"`, `"fault":"html"`,
		`"fault":"status","status":429,"retry_after":1`, `"fault":"status","status":500`, `"fault":"status","status":503`,
		fmt.Sprintf(`"fault":"delay","delay_ms":%d`, 100+rng.IntN(4000)),
		fmt.Sprintf(`"fault":"drop_after","delay_ms":%d`, 100+rng.IntN(2000)),
		`"fault":"stored_status","status":500`, `"fault":"stored_status","status":500,"done":true`,
		fmt.Sprintf(`"fault":"list_lag","delay_ms":%d`, 100+rng.IntN(1400)), // less than the last of the workers' look delays
		`"fault":"no_webhooks"`,
	}[rng.IntN(13)]
	where := []string{
		`"method":"POST","path":"/v1/payment_intents"`, `"method":"POST","path":"/v1/payment_intents"`, `"method":"POST","path":"/v3/mail/send"`,
		`"method":"POST","path":"/v3/mail/send"`, `"method":"GET","path":"/v1/payment_intents*"`, `"method":"POST","path":"/v1/payment_intents/*"`,
		`"method":"GET","path":"/v1/account"`,
	}[rng.IntN(7)]
	switch {
	case strings.Contains(fault, "no_webhooks"):
		where = ""
	case strings.Contains(fault, "list_lag"):
		where = `"method":"GET","path":"/v1/payment_intents"`
	case strings.Contains(fault, "stored_status"):
		where, times = `"method":"POST","path":"/v1/payment_intents"`, 1
	}
	members := strings.TrimPrefix(fmt.Sprintf(`%s,%s,"times":%d`, where, fault, times), ",")
	c.box.control("POST", "faults", "{"+members+"}", nil)
	return members
}

// killOne is kill -9 of one process, which is started again after a while.
func (c *chaos) killOne(kind string, m *replica, rng *rand.Rand) string {
	m.kill()
	c.kills[kind]++
	away := upTo(rng, 2*time.Second)
	time.Sleep(away)
	m.service = m.start()
	return fmt.Sprintf("%s killed, away for %s", kind, away.Round(time.Millisecond))
}

// restartOne stops a process as a deploy does.
func (c *chaos) restartOne(m *replica) string {
	m.signal(syscall.SIGTERM)
	m.exitCode()
	m.service = m.start()
	return "restarted: " + m.name
}

func (c *chaos) killPostgres(rng *rand.Rand) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	away := upTo(rng, 3*time.Second)
	c.calendar.Lock()
	defer c.calendar.Unlock()
	if err := c.server.Kill(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.kills["PostgreSQL"]++
	time.Sleep(away)
	if err := c.server.Restart(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.settled = time.Now()
	c.pool.Reset()
	return fmt.Sprintf("PostgreSQL killed, away for %s", away.Round(time.Millisecond))
}

// dayWithoutWorkers lets more than a day pass at the providers while no worker runs. A worker may not live to see the clock jump by so
// much: between the moment when it is told the time and the one when its request arrives no day passes in truth.
func (c *chaos) dayWithoutWorkers(rng *rand.Rand) string {
	// The answers to the last requests are lost, and some are still on their way when their worker dies.
	for _, members := range []string{`"fault":"drop_after","probability":0.6`, `"fault":"drop_after","delay_ms":600`} {
		c.box.control("POST", "faults", `{"method":"POST","path":"/v1/payment_intents","times":-1,`+members+`}`, nil)
	}
	heard := "heard"
	if rng.IntN(3) > 0 { // nor do events tell of them
		heard = "not heard"
		c.box.control("POST", "faults", `{"fault":"no_webhooks"}`, nil)
	}
	time.Sleep(500*time.Millisecond + upTo(rng, time.Second))
	how := "killed"
	for _, m := range c.workers {
		if rng.IntN(3) == 0 {
			m.signal(syscall.SIGTERM)
			m.exitCode()
			how = "stopped or killed"
		} else {
			m.kill()
			c.kills["worker"]++
		}
	}
	c.awaitArrivals()
	c.wellAgain()
	c.calendar.Lock()
	c.box.advance("25h")
	c.jumps++
	c.calendar.Unlock()
	for _, m := range c.workers {
		m.service = m.start()
	}
	return fmt.Sprintf("a day without workers, who were %s; the providers' events before it were %s", how, heard)
}

// awaitArrivals waits until requests of the dead have arrived: until no more come.
func (c *chaos) awaitArrivals() {
	last := int64(-1)
	for {
		now := int64(0)
		for _, r := range c.box.ledger().Requests {
			now = max(now, r.Seq)
		}
		if now == last {
			return
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
}

const (
	dayStep  = 20 * time.Minute // well below the hour by which a worker trusts a key less than Stripe promises
	dayPause = 700 * time.Millisecond
	dayCalm  = 15 * time.Second // workers that wait for PostgreSQL may know a time that is some seconds old
)

// dayInAMinute lets a day pass at the providers before the workers' eyes, beside everything else.
func (c *chaos) dayInAMinute(days *sync.WaitGroup) string {
	if time.Until(c.end) < time.Minute {
		return "no time for a day in a minute"
	}
	days.Go(func() {
		for passed := time.Duration(0); passed < 25*time.Hour && time.Now().Before(c.end); {
			time.Sleep(dayPause)
			c.calendar.Lock()
			if time.Since(c.settled) > dayCalm {
				passed += dayStep
				if a, err := call("POST", c.box.url+"/_sandbox/clock", `{"advance":"`+dayStep.String()+`"}`, nil, nil); err != nil || a.status != 200 {
					c.t.Errorf("clock: %v %v", a, err)
				}
			}
			c.calendar.Unlock()
		}
		c.calendar.Lock()
		c.jumps++
		c.calendar.Unlock()
	})
	return "a day in a minute begins"
}

// replayOnce presses the button, whether the database is well or not.
func (c *chaos) replayOnce() string {
	r := c.oncepay("outbox", "replay", "--apply").run(c.t)
	c.replays++
	return fmt.Sprintf("replay: exit %d", r.code)
}
