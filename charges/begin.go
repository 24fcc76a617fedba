package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Here is what a worker knows of Stripe when it asks what it may do.
type Here struct {
	Account Account                      // that its secret key belongs to
	Clock   time.Time                    // Stripe's, now
	Fresh   bool                         // Clock was read for this very decision
	Encode  func(Charge) (string, error) // makes the request's exact bytes; a pure function
}

// Begun is what a worker may do now.
type Begun struct {
	Permit
	Charge  Charge
	Attempt Attempt       // Send: committed, and to be sent exactly so
	Wait    time.Duration // WaitFor: from now
	Here    Account       // for which this was decided
	Clocks  Clocks        // on which this was decided
	Resume  Look          // LookFirst: the look that was cut short and is to be gone on with; zero: begin a new one
}

// worker is the actor in the audit trail for all that happens without a person.
const worker = "worker"

// Begin asks, under the charge's row lock, what may be done next, and commits the attempt if that is to send: once
// Begin has returned [Send], the attempt is on record, whatever becomes of the call. A charge that nobody wants sent any more
// is canceled, one that only a person can decide is parked. [Nothing] says that the charge waits for no worker.
//
// It is [ErrNotFound] for an unknown charge.
func (s *Service) Begin(ctx context.Context, id uuid.UUID, here Here) (begun Begun, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "attempt.begin", func(tx pgx.Tx) error {
		begun, err = s.begin(ctx, tx, id, here)
		return err
	})
	return begun, err
}

func (s *Service) begin(ctx context.Context, tx pgx.Tx, id uuid.UUID, here Here) (Begun, error) {
	c, now, err := lockCharge(ctx, tx, id)
	if err != nil {
		return Begun{}, err
	}
	begun := Begun{Charge: c, Permit: Permit{Action: Nothing}}
	if !c.Status.Waiting() || c.PaymentIntent != nil { // a charge that has its payment is never sent again
		return begun, nil
	}
	attempts, looks, err := history(ctx, tx, id)
	if err != nil {
		return Begun{}, err
	}
	clocks := Clocks{Database: now, Stripe: here.Clock, Fresh: here.Fresh}
	begun.Here, begun.Clocks = here.Account, clocks
	begun.Permit = Allow(c.CreatedAt, attempts, looks, clocks, here.Account, s.policy)

	switch begun.Action {
	case Send:
		if expired(c, now) && !anyOpen(attempts) {
			begun.Action = Nothing
			return begun, s.move(ctx, tx, c, Change{To: Canceled}, worker, map[string]any{"reason": "send_before"})
		}
		begun.Attempt, err = nextAttempt(c, begun.Permit, attempts, here)
		if err != nil {
			return Begun{}, err
		}
		if err := insertAttempt(ctx, tx, begun.Attempt); err != nil {
			return Begun{}, err
		}
		if c.Status == Pending {
			return begun, s.move(ctx, tx, c, Change{To: Processing}, worker, map[string]any{"attempt": begun.Attempt.Number})
		}
	case LookFirst:
		begun.Resume = cutShort(attempts, looks)
	case WaitFor:
		begun.Wait = begun.Until.Sub(now)
	case Park:
		begun.Action = Nothing
		return begun, s.move(ctx, tx, c, Change{To: NeedsReview, Reason: begun.Reason}, worker, nil)
	case UseResult:
		begun.Action = Nothing
		// An answer was written down together with its change; only a refusal may have had to wait for older attempts to be settled.
		if last := begun.Last; last.Outcome == Invalid {
			failure := &Failure{Code: last.Code, Advice: DoNotRetry}
			return begun, s.move(ctx, tx, c, Change{To: Failed, Failure: failure}, worker, map[string]any{"request_id": last.RequestID})
		}
	}
	return begun, nil
}

// history reads what has been tried and seen for one charge.
func history(ctx context.Context, db querier, id uuid.UUID) ([]Attempt, []Look, error) {
	attempts, err := listAttempts(ctx, db, []uuid.UUID{id})
	if err != nil {
		return nil, nil, err
	}
	looks, err := listLooks(ctx, db, []uuid.UUID{id})
	return attempts[id], looks[id], err
}

// nextAttempt is the attempt that a permit to send allows: the earlier bytes under the earlier key, unless it is the first.
func nextAttempt(c Charge, p Permit, earlier []Attempt, here Here) (Attempt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Attempt{}, fmt.Errorf("attempt id: %w", err)
	}
	a := Attempt{
		ID: id, ChargeID: c.ID, Number: len(earlier) + 1, ProviderKey: p.Key,
		Account: here.Account, Request: p.Request, StripeSentAt: here.Clock,
	}
	switch {
	case p.NewKey:
		a.ProviderKey = fmt.Sprintf("charge:%s:%d", c.ID, a.Number) // no caller's key can equal it
	case a.ProviderKey == "":
		a.ProviderKey = c.IdempotencyKey.String()
	}
	if a.Request == "" {
		// A member that this release does not know would be left out of what is sent: that charge is for a newer worker.
		if c.Request, err = ParseCanonical([]byte(c.canonical)); err != nil {
			return Attempt{}, fmt.Errorf("stored request of charge %s: %w", c.ID, err)
		}
		if a.Request, err = here.Encode(c); err != nil {
			return Attempt{}, fmt.Errorf("encode charge %s: %w", c.ID, err)
		}
	}
	return a, nil
}

// cutShort is the look that was left unfinished, if nothing was sent since.
func cutShort(attempts []Attempt, looks []Look) Look {
	if len(looks) == 0 {
		return Look{}
	}
	last := looks[len(looks)-1]
	if last.Complete || len(last.Rest) == 0 || len(attempts) > 0 && attempts[len(attempts)-1].SentAt.After(last.At) {
		return Look{}
	}
	return last
}

func expired(c Charge, now time.Time) bool {
	return c.SendBefore != nil && !now.Before(*c.SendBefore)
}

func anyOpen(attempts []Attempt) bool {
	for _, a := range attempts {
		if a.Open() {
			return true
		}
	}
	return false
}
