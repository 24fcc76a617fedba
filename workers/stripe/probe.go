package stripe

import (
	"context"
	"regexp"
	"sync"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/transport"
)

var accountID = regexp.MustCompile(`^acct_[A-Za-z0-9_]{1,250}$`)

// Probe reads our own account: whose key this is, in which mode, and what time Stripe has, to the second. It changes
// nothing and fails whenever sending would.
func (g *Gateway) Probe(ctx context.Context) (charges.Account, time.Time, error) {
	var account struct {
		stripego.APIResource
		ID     string `json:"id"`
		Object string `json:"object"`
	}
	_, answer, err := g.get(ctx, "/v1/account", nil, &account)
	if err != nil {
		return charges.Account{}, time.Time{}, err
	}
	if account.Object != "account" || !accountID.MatchString(account.ID) {
		return charges.Account{}, time.Time{}, unknown("the answer is not an account")
	}
	now := answer.Date()
	if now.IsZero() {
		return charges.Account{}, time.Time{}, unknown("the answer has no date")
	}
	return charges.Account{ID: account.ID, Livemode: g.livemode}, now, nil
}

// Clock is Stripe's present time: the Date of its latest answer plus what has passed here since. It is false before the first answer.
func (g *Gateway) Clock() (time.Time, bool) { return g.clock.now() }

// maxTook is how long an answer may have been on its way for its Date to be believed. One that a suspended machine
// wakes up to tells the time before the suspension.
const maxTook = 30 * time.Second

// clock follows Stripe's time from answer to answer.
type clock struct {
	mu     sync.Mutex
	date   time.Time
	readAt time.Time // with its monotonic reading
}

func (c *clock) observe(a *transport.Answer) {
	date, now := a.Date(), time.Now()
	if date.IsZero() || a.Took > maxTook || a.Took < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.date, c.readAt = date, now
}

func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date.IsZero() {
		return time.Time{}, false
	}
	return c.date.Add(since(c.readAt, time.Now())), true
}

// since is how much time has passed by the clock that saw more of it: the monotonic one stands still while a virtual machine is
// suspended, and the wall clock can be set back.
func since(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
