package charges

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
func (s *Service) Queued() int { return s.creates.Waiting() + int(s.inFlight.waiting.Load()) }

// createRound accepts what is new and answers what is known. It says again where what the claim has met was gone before it could be read.
func (s *Service) createRound(ctx, asker context.Context, c *claim) (answer Answer, again bool) {
	if c.err == nil {
		err := s.creates.Do(asker, c)
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

// accept commits charge, key with its answer, event, items and job of every claim whose key and reference are free and whose items are to be had, and
// marks the others as taken.
func (s *Service) accept(ctx context.Context, claims []*claim) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	for len(claims) > 0 {
		err := outbox.InTx(ctx, s.pool, "charge.accept", func(tx pgx.Tx) error { return s.acceptIn(ctx, tx, claims) })
		if !errors.Is(err, errSoldOut) {
			return err
		}
		claims = slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return len(c.short) > 0 })
	}
	return nil
}

// errSoldOut says that some of the claims have come too late, which are marked, and that nothing was kept of the others either.
var errSoldOut = errors.New("the items of some are gone")

// acceptIn writes what claims need. The rows of SKUs are locked last, for no longer than the commit takes, since everybody who buys the same queues
// for them: so whoever is too late has been written already, and the others are written once more without. That is once for each time that
// something sells out; from then on passOver knows.
func (s *Service) acceptIn(ctx context.Context, tx pgx.Tx, claims []*claim) error {
	inStock, err := passOver(ctx, tx, claims)
	if err != nil {
		return err
	}
	accepted, taken, err := insertCharges(ctx, tx, inStock)
	for _, c := range accepted {
		c.taken = false
	}
	for _, c := range taken {
		c.taken = true
	}
	if err != nil || len(accepted) == 0 {
		return err
	}
	if err := insertKeys(ctx, tx, accepted, s.keyTTL); err != nil {
		return err
	}
	jobs := make([]outbox.Entry, len(accepted))
	for i, c := range accepted {
		jobs[i] = outbox.Entry{Kind: outbox.KindCharge, ChargeID: c.charge.ID}
	}
	if err := s.outbox.Enqueue(ctx, tx, jobs); err != nil {
		return err
	}
	return hold(ctx, tx, accepted)
}

// passOver marks the claims for more than is available, before anything is written or locked for them: once something is sold out, most are such.
// What was available a moment ago is good enough to refuse them, and not to accept the others.
func passOver(ctx context.Context, tx pgx.Tx, claims []*claim) (inStock []*claim, err error) {
	skus := skusOf(itemsOf(claims))
	if len(skus) == 0 {
		return claims, nil
	}
	available, err := readAvailable(ctx, tx, skus)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if !c.lacks(shortOf(c.charge.Items, available)) {
			inStock = append(inStock, c)
		}
	}
	return inStock, nil
}

// hold allocates their items to the claims, in the order in which they have come.
func hold(ctx context.Context, tx pgx.Tx, accepted []*claim) error {
	selling := slices.DeleteFunc(slices.Clone(accepted), func(c *claim) bool { return len(c.charge.Items) == 0 })
	if len(selling) == 0 {
		return nil
	}
	short, err := allocate(ctx, tx, itemsOf(selling))
	if err != nil {
		return err
	}
	for i, c := range selling {
		if c.lacks(short[i]) {
			err = errSoldOut
		}
	}
	return err
}

func itemsOf(claims []*claim) [][]Item {
	items := make([][]Item, len(claims))
	for i, c := range claims {
		items[i] = c.charge.Items
	}
	return items
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
	return markReferences(ctx, s.reads, claims)
}

// answerTaken answers a claim whose key, or whose reference, already belongs to a charge. What it cannot find is to be tried again.
func (s *Service) answerTaken(ctx context.Context, c *claim) (answer Answer, again bool) {
	switch {
	case c.used:
		return s.answerKnown(ctx, c, c.use), false
	case c.err != nil:
		return Answer{Err: c.err}, false
	case c.Request.Reference == "", len(c.short) > 0 && !c.named:
		return c.lack()
	}
	other, err := findReference(ctx, s.reads, c.Caller, c.Request.Reference)
	switch {
	case errors.Is(err, ErrNotFound):
		return c.lack()
	case err != nil:
		return Answer{Err: err}, false
	}
	return Answer{Err: &ReferenceInUseError{ChargeID: other.ID, Charge: other}}, false
}

// lacks marks a claim that is too late for its items.
func (c *claim) lacks(short []Shortage) bool {
	if c.short = short; len(short) > 0 {
		c.taken = true
	}
	return len(short) > 0
}

// lack refuses a claim for want of its items, and for nothing else. One that lacks none has met what was gone before it could be read.
func (c *claim) lack() (answer Answer, again bool) {
	if len(c.short) > 0 {
		return Answer{Err: &InsufficientInventoryError{Short: c.short}}, false
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
	taken       bool       // its key or reference belonged to a charge already, or its items did
	short       []Shortage // what there was not enough of
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
		k.err = c.Request.ValidateTime(time.Now())
		k.late = k.err != nil
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
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		return fmt.Errorf("%w (%w)", ErrKeyInUse, err)
	}
	return err
}
