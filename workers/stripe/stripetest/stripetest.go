// Package stripetest is a Stripe to test against: it keeps payments, remembers idempotency keys and declines cards.
//
// It speaks API version 2023-10-16 for PaymentIntents (create, confirm, capture, cancel, read, list), the
// account and its balance, and refuses every other path and every unknown parameter. What makes it worth
// having is what it does not forgive: a key is remembered for 24 hours of the movable clock and then charges
// again, a stored 500 is replayed, the same key with other parameters is an idempotency_error, a key in
// flight is a 409, and lists come in pages of 10.
//
// A secret key names its account: sk_test_shop and sk_test_shop_rolled both belong to acct_shop.
//
// A request goes authenticate (account.go) -> write: claim or replay its key (keys.go) -> one operation
// (create.go, confirm.go) on the account's book (book.go) -> one journal line holding payment and stored answer.
package stripetest

import (
	"net/http"
	"strings"
	"sync"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// Stripe is the simulator; it is a frame.Provider and a frame.Keeper.
type Stripe struct {
	clock   *frame.Clock
	journal *frame.Journal

	mu       sync.Mutex
	books    map[partition]*book
	inFlight map[claim]bool
}

// New makes a Stripe without payments. Its time is the clock's, and what it must not forget is in the journal.
func New(clock *frame.Clock, journal *frame.Journal) *Stripe {
	return &Stripe{clock: clock, journal: journal, books: map[partition]*book{}, inFlight: map[claim]bool{}}
}

const intentsPath = "/v1/payment_intents"

// Identify implements frame.Provider. Only writes carry a key; Stripe ignores the header on reads.
func (s *Stripe) Identify(r *frame.Request) frame.Traits {
	who, err := authenticate(r.Header)
	t := frame.Traits{Account: who.Account, List: r.Method == http.MethodGet && r.Path == intentsPath}
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
	object, apiErr := s.read(r, who)
	return respond(r, requestID, object, apiErr), nil
}

// read answers a GET with an object that JSON can hold.
func (s *Stripe) read(r *frame.Request, who partition) (any, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	b := s.book(who)
	b.settle(now)
	query := newParams(r.Query)
	switch id, isIntent := strings.CutPrefix(r.Path, intentsPath+"/"); {
	case r.Path == intentsPath:
		return b.list(query, now.Add(-r.Fault.Lag()))
	case isIntent && !strings.Contains(id, "/"):
		query.text("client_secret", 500)
		if err := query.finish(); err != nil {
			return nil, err
		}
		pi, err := b.find(id)
		if err != nil {
			return nil, err
		}
		return pi.view(), nil
	case r.Path == "/v1/account":
		return account(who), query.finish()
	case r.Path == "/v1/balance":
		return b.balance(who), query.finish()
	}
	return nil, noSuchRoute(r)
}

// writeAt finds the operation that a POST to path asks for, or nil.
func writeAt(path string) operation {
	if path == intentsPath {
		return create
	}
	rest, ok := strings.CutPrefix(path, intentsPath+"/")
	id, verb, hasVerb := strings.Cut(rest, "/")
	if !ok || !hasVerb {
		return nil
	}
	change, ok := map[string]func(*intent, *params, environment) *apiError{
		"confirm": confirm, "capture": capture, "cancel": cancel,
	}[verb]
	if !ok {
		return nil
	}
	return func(b *book, p *params, env environment) (*intent, *apiError) {
		pi, err := b.find(id)
		if err != nil {
			return nil, err
		}
		pi = pi.clone()
		return pi, change(pi, p, env)
	}
}
