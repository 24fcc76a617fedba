package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// chaosOrder is one charge that a shop wants made once, and what it was told.
type chaosOrder struct {
	params client.CreateParams
	card   card

	mu    sync.Mutex
	id    string
	told  []byte // the stored answer
	bad   error  // what no client may ever be told
	short int    // how often it was refused because there was not enough
}

// card is a payment method, and what its buyer does where there is something to do.
type card struct {
	method string
	buyer  string // the outcome of the authentication, if the buyer comes back
	weight int
}

var chaosCards = []card{
	{"pm_card_visa", "", 50},
	{"pm_card_chargeDeclined", "", 12},
	{"pm_card_chargeDeclinedInsufficientFunds", "", 3},
	{"pm_card_authenticationRequired", "succeeded", 10},
	{"pm_card_authenticationRequired", "failed", 5},
	{"pm_card_authenticationRequired", "", 5},
	{"pm_usBankAccount", "", 10},
	{"pm_usBankAccount_insufficientFunds", "", 5},
}

// shops buy all the time, each by a chance of its own.
type shops struct {
	seed    uint64
	ctx     context.Context // until all answers are in
	cancel  context.CancelFunc
	selling sync.WaitGroup

	mu     sync.Mutex
	orders []*chaosOrder
}

const shopCount = 5

func newShops(seed uint64) *shops {
	s := &shops{seed: seed}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// open lets them buy from now on until the chaos is over.
func (s *shops) open(c *chaos) {
	c.end = time.Now().Add(*chaosDuration)
	c.t.Cleanup(s.cancel)
	var callers []*client.Client
	for _, api := range c.apis {
		callers = append(callers, c.client(api.service, client.WithAttemptTimeout(10*time.Second), client.WithMaxElapsed(10*time.Second)))
	}
	for i := range shopCount {
		s.selling.Go(func() { s.sell(c, callers, rand.New(rand.NewPCG(s.seed, uint64(i)+1))) })
	}
}

// close waits until everybody has been answered.
func (s *shops) close(c *chaos, limit time.Duration) {
	c.t.Helper()
	done := make(chan struct{})
	go func() { s.selling.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
		c.t.Errorf("%s later some clients have no answer", limit)
		s.cancel()
		<-done
	}
}

func (s *shops) sell(c *chaos, callers []*client.Client, rng *rand.Rand) {
	var mine []*chaosOrder
	for time.Now().Before(c.end) && s.ctx.Err() == nil {
		o, api := newChaosOrder(rng), rng.IntN(2)
		twice, wait, pause := rng.IntN(4) == 0, time.Duration(rng.IntN(8)/7)*time.Second, upTo(rng, 600*time.Millisecond)
		s.mu.Lock()
		s.orders = append(s.orders, o)
		s.mu.Unlock()
		mine = append(mine, o)
		posting := []*client.Client{callers[api]}
		if twice {
			posting = callers
		}
		s.post(o, posting, wait)
		s.postAgain(c, o, posting, rng)
		if o.card.buyer != "" {
			patient := upTo(rng, 2*time.Second)
			s.selling.Go(func() { s.authenticate(c, o, callers[api], patient) })
		}
		if again := mine[rng.IntN(len(mine))]; rng.IntN(5) == 0 { // a shop that has forgotten that it has its answer
			s.post(again, callers[1-api:][:1], 0)
		}
		time.Sleep(pause)
	}
	for _, o := range mine {
		s.post(o, callers[:1], 0)
	}
}

func newChaosOrder(rng *rand.Rand) *chaosOrder {
	all := 0
	for _, k := range chaosCards {
		all += k.weight
	}
	o := &chaosOrder{}
	for i, n := 0, rng.IntN(all); n >= 0; i++ {
		o.card = chaosCards[i]
		n -= o.card.weight
	}
	o.params = client.CreateParams{IdempotencyKey: newKey(), Amount: 100 + rng.Int64N(100_000), Currency: "usd", PaymentMethod: o.card.method,
		ReturnURL: "https://shop.example/back", Items: drawItems(rng)}
	if rng.IntN(5) < 3 {
		o.params.ReceiptEmail = fmt.Sprintf("buyer%d@%s", rng.IntN(1000), buyersHost)
	}
	return o
}

// postAgain posts what was refused for want of stock some more times, under its key: somebody may give something back, or more be stocked.
func (s *shops) postAgain(c *chaos, o *chaosOrder, to []*client.Client, rng *rand.Rand) {
	for n := 0; n < 3 && o.waits() && time.Now().Before(c.end) && s.ctx.Err() == nil; n++ {
		time.Sleep(upTo(rng, 500*time.Millisecond))
		s.post(o, to, 0)
	}
}

func (o *chaosOrder) accepted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.id != ""
}

// lacks notes that there is not enough for the order, which is no answer to it: its key is as good as new.
func (o *chaosOrder) lacks() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.short++
}

// waits tells whether the order was refused, each time so far.
func (o *chaosOrder) waits() bool { return !o.accepted() && o.short > 0 }

// post posts the order to all of these at once, each until it has an answer.
func (s *shops) post(o *chaosOrder, to []*client.Client, wait time.Duration) {
	var posting sync.WaitGroup
	for _, caller := range to {
		posting.Go(func() {
			params := o.params
			params.Wait = wait
			for s.ctx.Err() == nil {
				accepted := o.accepted()
				charge, err := caller.Create(s.ctx, params)
				if short(err) && !accepted {
					o.lacks()
					return
				}
				if o.take(charge, err, wait > 0) {
					return
				}
			}
		})
	}
	posting.Wait()
}

// take notes an answer; false: there was none.
func (o *chaosOrder) take(charge *client.Charge, err error, live bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.As(err, new(*client.UnsettledError)):
		return false
	case err != nil:
		o.bad = err
	case o.id != "" && o.id != charge.ID:
		o.bad = fmt.Errorf("two charges, %s and %s", o.id, charge.ID)
	case !live && o.told != nil && !bytes.Equal(o.told, charge.Raw):
		o.bad = fmt.Errorf("two answers, %s and %s", o.told, charge.Raw)
	case live:
		o.id = charge.ID
	default:
		o.id, o.told = charge.ID, charge.Raw
	}
	return true
}

// authenticate plays the buyer: as soon as the shop's page has a payment, and not beyond the chaos.
func (s *shops) authenticate(c *chaos, o *chaosOrder, caller *client.Client, patient time.Duration) {
	for time.Now().Before(c.end) && s.ctx.Err() == nil {
		time.Sleep(patient + 300*time.Millisecond)
		use, err := caller.Key(s.ctx, o.params.IdempotencyKey)
		if err != nil || use.Charge.PaymentIntent == "" {
			continue
		}
		// Refused where the payment was canceled meanwhile, or never was in want of its buyer.
		if _, err := call(http.MethodPost, c.box.url+"/_sandbox/payment_intents/"+use.Charge.PaymentIntent+"/authenticate",
			`{"outcome":"`+o.card.buyer+`"}`, nil, nil); err == nil {
			return
		}
	}
}

// upTo is a time of less than most.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}
