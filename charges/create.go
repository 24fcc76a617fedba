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
// Err is a *[KeyReusedError], a *[ReferenceInUseError], an *[InvalidError], [ErrKeyInUse], or the database's.
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
func (s *Service) Create(ctx context.Context, create CreateCharge) Answer {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	c := newClaim(create)
	first, leave := s.inFlight.enter(c.Key)
	if first != nil {
		if err := first.wait(ctx); errors.Is(err, ErrKeyInUse) {
			return Answer{Err: err}
		}
	} else {
		defer func() { leave(c.answer.Err) }()
	}
	if c.late {
		if err := s.awaitTwin(ctx, c); err != nil {
			c.answer = Answer{Err: asKeyInUse(err)}
			return c.answer
		}
	}
	for range createRounds {
		if err := s.creates.Do(ctx, c); err != nil {
			c.answer = Answer{Err: asKeyInUse(err)}
			return c.answer
		}
		if !c.again {
			return c.answer
		}
	}
	c.answer = Answer{Err: ErrKeyInUse}
	return c.answer
}

// createTogether accepts what is new, answers what is known, and marks what must be tried again.
func (s *Service) createTogether(ctx context.Context, claims []*claim) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	var fresh, taken []*claim
	for _, c := range claims {
		c.again, c.answer = false, Answer{}
		if c.err == nil {
			fresh = append(fresh, c)
		} else {
			taken = append(taken, c)
		}
	}
	others, err := s.accept(ctx, fresh)
	if errors.Is(err, outbox.ErrInDoubt) { // asking by key tells
		others, err = fresh, nil
	}
	if err != nil {
		return err
	}
	s.answerTaken(ctx, append(taken, others...))
	return nil
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

// accept commits charge, key with its answer, event and job of every claim whose key and reference are free, and returns the others.
func (s *Service) accept(ctx context.Context, claims []*claim) (taken []*claim, err error) {
	if len(claims) == 0 {
		return nil, nil
	}
	err = outbox.InTx(ctx, s.pool, "charge.accept", func(tx pgx.Tx) error {
		var accepted []*claim
		accepted, taken, err = insertCharges(ctx, tx, claims)
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
		return s.outbox.Enqueue(ctx, tx, jobs)
	})
	return taken, err
}

// answerTaken answers claims whose key, or whose reference, already belongs to a charge. What it cannot find is to be tried again.
func (s *Service) answerTaken(ctx context.Context, claims []*claim) {
	if len(claims) == 0 {
		return
	}
	known, err := findKeys(ctx, s.reads, claims)
	for _, c := range claims {
		earlier, found := known[c.Key]
		switch {
		case err != nil:
			c.answer = Answer{Err: err}
		case found:
			c.answer = s.answerKnown(ctx, c, earlier)
		case c.err != nil:
			c.answer = Answer{Err: c.err}
		case c.Request.Reference == "":
			c.again = true
		default:
			other, err := findReference(ctx, s.reads, c.Caller, c.Request.Reference)
			switch {
			case errors.Is(err, ErrNotFound):
				c.again = true
			case err != nil:
				c.answer = Answer{Err: err}
			default:
				c.answer = Answer{Err: &ReferenceInUseError{ChargeID: other.ID, Charge: other}}
			}
		}
	}
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
	err         error // why it may not become a new charge; a key that was used before is answered all the same
	late        bool  // err is that its time is over
	again       bool  // what it has met was gone before it could be read
	answer      Answer
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
	return k
}

// asKeyInUse names the wait for another transaction's key that took too long.
func asKeyInUse(err error) error {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		return fmt.Errorf("%w (%w)", ErrKeyInUse, err)
	}
	return err
}
