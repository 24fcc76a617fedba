package charges

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// CreateCharge asks for one charge.
type CreateCharge struct {
	Caller  string
	Key     uuid.UUID
	Request Request // decoded
}

// Answer is the response to one [CreateCharge]; with Err set it says why there is none.
//
// Err is a *[KeyReusedError], a *[ReferenceInUseError], an *[InsufficientInventoryError], an *[InvalidError], [ErrKeyInUse], [ErrInventoryBusy], or the database's.
type Answer struct {
	Status   int    // 202; 200 where the stored answer has expired and the charge is shown as it is now
	Body     []byte // the charge as JSON; the same bytes as long as the answer is stored
	ChargeID uuid.UUID
	Expires  time.Time // until when the answer is stored; zero: it has expired
	Replayed bool      // the key had been used before
	Err      error
}

// createRounds bounds how often a create looks again when a conflicting charge vanished before it could be read.
const createRounds = 3

// Create accepts a charge, in one transaction with all that are asked for meanwhile, and answers it. A key that was used before gets its
// stored answer, or a *[KeyReusedError] if the request differs. The caller's context does not undo the commit.
func (s *Service) Create(asker context.Context, create CreateCharge) Answer {
	ctx, cancel := unhurried(asker)
	defer cancel()
	c := newClaim(create)
	for _, name := range c.names() {
		leave, err := s.inFlight.enter(asker, name)
		if err != nil {
			c.answer = Answer{Err: err}
			return c.answer
		}
		defer func() { leave(c.answer.Err) }()
	}
	if c.late {
		if err := s.awaitTwin(ctx, c); err != nil {
			c.answer = Answer{Err: asKeyInUse(err)}
			return c.answer
		}
	}
	for range createRounds {
		if c.answer, c.again = s.createRound(ctx, asker, c); !c.again {
			return c.answer
		}
	}
	c.answer = Answer{Err: ErrKeyInUse}
	return c.answer
}

// Queued is how many creates wait in this process: for a commit that they can share, or for another request under the same key or reference.
func (s *Service) Queued() int {
	return s.creates.Waiting() + s.sales.Waiting() + int(s.inFlight.waiting.Load())
}

// lane is what a claim shares its commit with. Those that sell something wait for their SKUs, and nobody else does.
func (s *Service) lane(c *claim) *outbox.Together[*claim] {
	if len(c.wants()) > 0 {
		return s.sales
	}
	return s.creates
}

// createRound accepts what is new and answers what is known. It says again where what the claim has met was gone before it could be read.
func (s *Service) createRound(ctx, asker context.Context, c *claim) (answer Answer, again bool) {
	if c.err == nil {
		err := s.lane(c).Do(asker, c)
		switch {
		case err == nil && !c.taken:
			return c.answer, false
		case errors.Is(err, outbox.ErrInDoubt): // asking by key tells
			c.doubt = true
		case err != nil && c.doubt:
			return Answer{Err: asKeyInUse(fmt.Errorf("%w: %w", outbox.ErrInDoubt, err))}, false
		case err != nil:
			return Answer{Err: asKeyInUse(err)}, false
		}
	}
	if err := s.uses.Do(ctx, c); err != nil {
		if c.doubt {
			err = fmt.Errorf("%w: %w", outbox.ErrInDoubt, err)
		}
		return Answer{Err: err}, false
	}
	return s.answerTaken(ctx, c)
}

// awaitTwin waits until nobody else is accepting a charge under the claim's key. A request that was in time may be in
// flight while its retry is late; "too late" would make the caller take another key for what is being accepted.
func (s *Service) awaitTwin(ctx context.Context, c *claim) error {
	undo := errors.New("nobody else has the key")
	err := outbox.InTx(ctx, s.pool, "charge.await_twin", func(tx pgx.Tx) error {
		if _, taken, err := insertCharges(ctx, tx, []*claim{c}); err != nil || len(taken) > 0 {
			return err
		}
		return undo
	})
	if errors.Is(err, undo) {
		return nil
	}
	return err
}

// findUses finds out for what the claims' keys were used, and for those that lack items whether that is all: once something is sold out, most do.
func (s *Service) findUses(ctx context.Context, claims []*claim) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	known, err := findKeys(ctx, s.reads, claims)
	if err != nil {
		return err
	}
	for _, c := range claims {
		c.use, c.used = known[c.Key]
	}
	if err := markReferences(ctx, s.reads, claims); err != nil {
		return err
	}
	return s.markLost(ctx, claims)
}

// answerTaken answers a claim whose key, or whose reference, already belongs to a charge. What it cannot find is to be tried again.
func (s *Service) answerTaken(ctx context.Context, c *claim) (answer Answer, again bool) {
	switch {
	case c.used:
		return s.answerKnown(ctx, c, c.use), false
	case c.lost && !c.adopts:
		c.adopt()
		return Answer{}, true
	case c.err != nil:
		if invalid := (*InvalidError)(nil); errors.As(c.err, &invalid) && !c.restored.IsZero() {
			return Answer{Err: &InvalidError{Fields: invalid.Fields, Restored: c.restored}}, false
		}
		return Answer{Err: c.err}, false
	case c.Request.Reference == "", len(c.short) > 0 && !c.named:
		return c.refusal()
	}
	other, err := findReference(ctx, s.reads, c.Caller, c.Request.Reference)
	switch {
	case errors.Is(err, ErrNotFound):
		return c.refusal()
	case err != nil:
		return Answer{Err: err}, false
	}
	return Answer{Err: &ReferenceInUseError{ChargeID: other.ID, Charge: other}}, false
}

// adopt has the claim accepted as a charge that was lost with its payment. It is late, or its items were sold to others meanwhile; but its buyer may have
// paid. A worker finds the payment and takes it over, and the items with it where there are any; nothing is ever sent for it; see [heedSeen].
func (c *claim) adopt() {
	c.adopts, c.err = true, nil
	if c.charge.Stock != nil {
		returned := StockReturned
		c.charge.Stock = &returned
	}
}

// refusal refuses a claim for want of its items, and for nothing else. One that lacks none has met what was gone before it could be read.
func (c *claim) refusal() (answer Answer, again bool) {
	switch {
	case c.stuck:
		return Answer{Err: ErrInventoryBusy}, false
	case len(c.short) > 0:
		return Answer{Err: &InsufficientInventoryError{Short: c.short, Restored: c.restored}}, false
	}
	return Answer{}, true
}

// answerKnown answers a claim whose key was used before.
func (s *Service) answerKnown(ctx context.Context, c *claim, earlier keyUse) Answer {
	if earlier.caller != c.Caller {
		return Answer{Err: &KeyReusedError{}}
	}
	if earlier.version != FingerprintVersion || !bytes.Equal(earlier.fingerprint, c.fingerprint[:]) {
		if fields := DifferingFields([]byte(earlier.request), c.canonical); len(fields) > 0 || earlier.version == FingerprintVersion {
			return Answer{Err: &KeyReusedError{Fields: fields}}
		}
	}
	answer := Answer{ChargeID: earlier.chargeID, Replayed: earlier.chargeID != c.charge.ID}
	if earlier.body != nil {
		answer.Status, answer.Body, answer.Expires = earlier.status, earlier.body, earlier.expires
		return answer
	}
	now, err := findCharge(ctx, s.reads, earlier.chargeID)
	if err != nil {
		return Answer{Err: err}
	}
	answer.Status = http.StatusOK
	if answer.Body, err = json.Marshal(now); err != nil {
		return Answer{Err: fmt.Errorf("encode charge %s: %w", now.ID, err)}
	}
	return answer
}

// claim is a create on its way through the rounds.
type claim struct {
	CreateCharge
	canonical   []byte
	fingerprint [32]byte
	charge      Charge
	err         error      // why it may not become a new charge; a key that was used before is answered all the same
	late        bool       // err is that its time is over
	lost        bool       // it is to be refused, its key is unknown here, and a payment under it was found at Stripe: a restored database has forgotten it
	adopts      bool       // it is accepted for that payment, without holding anything
	taken       bool       // its key or reference belonged to a charge already, or its items did
	short       []Shortage // what there was not enough of
	stuck       bool       // a SKU's row was not to be had
	restored    time.Time  // the database was restored then, and what was lost is not known yet: it may be lost; zero: there is no such doubt
	doubt       bool       // it may have been accepted: a commit's answer was lost
	again       bool       // what it has met was gone before it could be read
	use         keyUse
	used        bool // its key was, for that
	named       bool // it lacks items, and its reference belongs to another charge
	answer      Answer
}

// names are what no other request of this process may have in hand at the same time: the key, and the caller's reference.
func (c *claim) names() []string {
	names := []string{c.Key.String()}
	if c.Request.Reference != "" {
		names = append(names, c.Caller+" "+c.Request.Reference)
	}
	return names
}

func newClaim(c CreateCharge) *claim {
	k := &claim{CreateCharge: c, canonical: c.Request.Canonical()}
	k.fingerprint = Fingerprint(http.MethodPost, "/charge", k.canonical)
	k.charge = Charge{Object: "charge", Status: Pending, Request: c.Request, IdempotencyKey: c.Key, Caller: c.Caller}
	// The rules are for new charges: a key that was used before is answered as it was then, whatever has changed since.
	if k.charge.ID, k.err = uuid.NewV7(); k.err != nil {
		return k
	}
	if k.err = c.Request.Validate(); k.err == nil {
		now := time.Now()
		k.err = c.Request.ValidateTime(now)
		k.late = k.err != nil && !c.Request.SendBefore.After(now)
	}
	if len(k.charge.Items) > 0 {
		held := StockHeld
		k.charge.Items, k.charge.Stock = sortedItems(k.charge.Items), &held // as it is shown from its canonical form
	}
	return k
}

// asKeyInUse names the wait for another transaction's key that took too long. Whoever waits for a SKU has the key.
func asKeyInUse(err error) error {
	if errors.Is(err, ErrInventoryBusy) {
		return err
	}
	if lockRefused(err) {
		return fmt.Errorf("%w (%w)", ErrKeyInUse, err)
	}
	return err
}
