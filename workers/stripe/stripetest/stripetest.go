// Package stripetest is a Stripe to test against: it keeps payments, remembers idempotency keys and declines cards.
//
// It speaks API version 2023-10-16 for PaymentIntents (create, confirm, capture, cancel, read, list), refunds (create,
// read, list), disputes (list), charges (read), the account and its balance, tells of every change by webhook, and refuses every other
// path and every unknown parameter. What makes it worth
// having is what it does not forgive: a key is remembered for 24 hours of the movable clock and then charges
// again, a stored 500 is replayed, the same key with other parameters is an idempotency_error, a key in
// flight is a 409, and lists come in pages of 10.
//
// A secret key names its account: sk_test_shop and sk_test_shop_rolled both belong to acct_shop.
//
// A request goes authenticate (account.go) -> write: claim or replay its key (keys.go) -> one operation
// (create.go, confirm.go, refund.go) on the account's book (book.go) -> one journal line holding payment, events and
// stored answer (change.go).
package stripetest

import (
	"cmp"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// Stripe is the simulator; it is a frame.Provider and a frame.Keeper.
type Stripe struct {
	clock    *frame.Clock
	journal  *frame.Journal
	webhooks *frame.Webhooks

	mu       sync.Mutex
	books    map[partition]*book
	inFlight map[claim]bool
}

// New makes a Stripe without payments. Its time is the clock's, what it must not forget is in the journal, and its
// events go to the webhooks, where Courier is registered as "stripe".
func New(clock *frame.Clock, journal *frame.Journal, webhooks *frame.Webhooks) *Stripe {
	return &Stripe{clock: clock, journal: journal, webhooks: webhooks, books: map[partition]*book{}, inFlight: map[claim]bool{}}
}

const intentsPath = "/v1/payment_intents"

// Identify implements frame.Provider. Only writes carry a key; Stripe ignores the header on reads.
func (s *Stripe) Identify(r *frame.Request) frame.Traits {
	who, err := authenticate(r.Header)
	t := frame.Traits{Account: who.Account, List: r.Method == http.MethodGet && (r.Path == intentsPath || r.Path == refundsPath || r.Path == disputesPath)}
	if r.Method == http.MethodPost {
		t.IdempotencyKey = r.Header.Get("Idempotency-Key")
	}
	t.Stores = err == nil && t.IdempotencyKey != ""
	return t
}

// Refuse implements frame.Provider.
func (s *Stripe) Refuse(r *frame.Request) frame.Answer {
	return respond(r, newID("req_"), nil, faultError(r.Fault))
}

// Answer implements frame.Provider.
func (s *Stripe) Answer(r *frame.Request) (frame.Answer, error) {
	who, authErr := authenticate(r.Header)
	if authErr == nil && r.Method == http.MethodPost {
		if do := writeAt(r.Path); do != nil {
			return s.write(r, who, do)
		}
	}
	if err := r.Hold(); err != nil {
		return frame.Answer{}, err
	}
	requestID := newID("req_")
	if authErr != nil {
		return respond(r, requestID, nil, authErr), nil
	}
	if r.Method != http.MethodGet {
		return respond(r, requestID, nil, noSuchRoute(r)), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	b := s.book(who)
	if err := s.settle(b, now); err != nil {
		return frame.Answer{}, err
	}
	object, apiErr := b.read(r, now)
	return respond(r, requestID, object, apiErr), nil
}

// read answers a GET with an object that JSON can hold.
func (b *book) read(r *frame.Request, now time.Time) (any, *apiError) {
	query := newParams(r.Query)
	switch r.Path {
	case intentsPath:
		return b.list(query, now.Add(-r.Fault.Lag()))
	case refundsPath:
		return b.listRefunds(query, now.Add(-r.Fault.Lag()))
	case disputesPath:
		return b.listDisputes(query, now.Add(-r.Fault.Lag()))
	case "/v1/account":
		return account(b.owner), query.finish()
	case "/v1/balance":
		return b.balance(b.owner), query.finish()
	}
	dir, id := path.Split(r.Path)
	switch dir {
	case intentsPath + "/":
		return b.readIntent(id, query)
	case refundsPath + "/":
		re, ok := b.refunds[id]
		if err := query.finish(); err != nil {
			return nil, err
		}
		if !ok {
			return nil, missing(404, "refund", id, "id")
		}
		return re.view(), nil
	case chargesPath + "/":
		pi, err := b.findCharge(id, 404, "id")
		if err := cmp.Or(query.finish(), err); err != nil {
			return nil, err
		}
		return pi.charge(), nil
	}
	return nil, noSuchRoute(r)
}

// readIntent is GET /v1/payment_intents/{id}, which can show the charge whole: expand[]=latest_charge.
func (b *book) readIntent(id string, query *params) (any, *apiError) {
	query.text("client_secret", 500)
	expand := query.list("expand")
	for _, name := range expand {
		if name != "latest_charge" {
			query.fail("", "expand", "The sandbox can expand latest_charge only.")
		}
	}
	if err := query.finish(); err != nil {
		return nil, err
	}
	pi, err := b.find(id)
	if err != nil {
		return nil, err
	}
	view := pi.view()
	if len(expand) > 0 && pi.LatestCharge != "" {
		view.LatestCharge = pi.charge()
	}
	return view, nil
}

// writeAt finds the operation that a POST to path asks for, or nil.
func writeAt(path string) operation {
	switch path {
	case intentsPath:
		return create
	case refundsPath:
		return createRefund
	}
	rest, ok := strings.CutPrefix(path, intentsPath+"/")
	id, verb, hasVerb := strings.Cut(rest, "/")
	if !ok || !hasVerb {
		return nil
	}
	act, ok := map[string]func(*intent, *params, environment) *apiError{
		"confirm": confirm, "capture": capture, "cancel": cancel,
	}[verb]
	if !ok {
		return nil
	}
	return func(b *book, p *params, env environment) (*change, *apiError) {
		pi, err := b.find(id)
		if err != nil {
			return nil, err
		}
		pi = pi.clone()
		return &change{intent: pi}, act(pi, p, env)
	}
}
