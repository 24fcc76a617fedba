package charges

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	Charge   Charge
	Attempt  Attempt       // Send: committed, and to be sent exactly so
	Wait     time.Duration // WaitFor: from now
	Here     Account       // for which this was decided
	Clocks   Clocks        // on which this was decided
	Resume   Look          // LookFirst: the look that was cut short and is to be gone on with; zero: begin a new one
	Read     *Look         // LookFirst: complete readings name payments of this charge, which are to be read again by id; nil: there is no answer yet
	Looks    []Look        // that Begin itself has made, in readings that were complete
	Detected *Restoration  // that the database was restored, as Begin has just found

	lookup lookup
}

// worker is the actor in the audit trail for all that happens without a person.
const worker = "worker"

// Begin asks, under the charge's row lock, what may be done next, and commits the attempt if that is to send: once
// Begin has returned [Send], the attempt is on record, whatever becomes of the call. A charge that nobody wants sent any more
// is canceled, one that only a person can decide is parked. [Nothing] says that the charge waits for no worker.
//
// The transaction is shared with other charges that ask meanwhile. It is [ErrNotFound] for an unknown charge, and after a commit
// in doubt an error for all of them: nothing may be sent before the rows were read again.
func (s *Service) Begin(ctx context.Context, id uuid.UUID, here Here) (Begun, error) {
	b := &beginning{id: id, here: here}
	if err := s.begins.Do(ctx, b); err != nil {
		return Begun{}, err
	}
	return b.begun, nil
}

// beginning is a charge that asks what may be done next, and the answer.
type beginning struct {
	id    uuid.UUID
	here  Here
	begun Begun
}

// LockKey is the charge.
func (b *beginning) LockKey() uuid.UUID { return b.id }

func (s *Service) beginTogether(ctx context.Context, all []*beginning) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	try := func() error {
		return outbox.InTxEach(ctx, s.pool, "attempt.begin", all, func(ctx context.Context, tx pgx.Tx, b *beginning) (err error) {
			b.begun, err = s.begin(ctx, tx, b.id, b.here)
			return err
		})
	}
	err := try()
	if errors.Is(err, errNoIdentity) {
		s.blind.Store(true)
		err = try()
	}
	return err
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
	clocks := Clocks{Database: now, Stripe: here.Clock, Fresh: here.Fresh}
	begun.Here, begun.Clocks = here.Account, clocks
	if err := s.decide(ctx, tx, &begun); err != nil {
		return Begun{}, err
	}
	attempts := begun.lookup.history.Attempts

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
		begun.Resume = cutShort(begun.lookup)
	case WaitFor:
		begun.Wait = begun.Until.Sub(now)
	case Park:
		var data map[string]any
		if len(begun.Seen) > 0 {
			data = map[string]any{"payments": begun.Seen}
		}
		begun.Action = Nothing
		return begun, s.move(ctx, tx, c, Change{To: NeedsReview, Reason: begun.Reason}, worker, data)
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

// decide asks Allow, and answers as far as the database can what it asks back: whether the database itself is to be trusted, and
// whether what is to be looked for is in readings that are complete.
func (s *Service) decide(ctx context.Context, tx pgx.Tx, b *Begun) error {
	for range decideMost {
		h, err := history(ctx, tx, b.Charge)
		if err != nil {
			return err
		}
		policy, err := s.policyFor(ctx, tx, b.Charge.ID, h.Attempts)
		if err != nil {
			return err
		}
		if b.Permit = Allow(h, b.Clocks, b.Here, policy); b.restsOnAbsence() {
			var detected *Restoration
			if h.Restorations, detected, err = s.recall(ctx, tx, b.Clocks.Database); err != nil {
				return err
			}
			b.Detected = cmp.Or(detected, b.Detected)
			b.Permit = Allow(h, b.Clocks, b.Here, policy)
			if b.restsOnAbsence() && len(h.Restorations) > 0 {
				if err := heedSeen(ctx, tx, b, h, policy); err != nil || b.Read != nil {
					return err
				}
			}
		}
		b.lookup = lookup{h, b.Permit, b.Clocks, b.Here, policy}
		if b.Action != LookFirst {
			return nil
		}
		if again, err := s.lookInReadings(ctx, tx, b); err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("charge %s: what is allowed is still not known after %d looks", b.Charge.ID, decideMost)
}

// decideMost bounds how often Begin asks Allow: each time something that was asked for has been written down, so that it ends long before.
const decideMost = 20

// lookInReadings is the look of a charge whose windows have all been read already. If none of the payments there is the charge's, that is
// written down, with what it proves, and Allow can be asked again. Else the worker has to read what was found, or the list. For that it must
// have read Stripe's clock just now.
func (s *Service) lookInReadings(ctx context.Context, tx pgx.Tx, b *Begun) (again bool, err error) {
	if !b.OwnList(b.Charge) {
		served, err := servedFor(ctx, tx, b.lookup)
		if err != nil {
			return false, err
		}
		if complete(served) {
			l := sharedLook(b.Permit, served)
			l.ID = cutShort(b.lookup).ID
			l.Found, err = findInReadings(ctx, tx, l.Readings, b.Charge.IdempotencyKey)
			if err != nil || len(l.Found) > 0 {
				b.Read = &l
				return false, err
			}
			b.Looks = append(b.Looks, l)
			return true, s.looked(ctx, tx, b.Charge, b.Permit, b.Here, l, nil)
		}
	}
	if !b.Clocks.Fresh {
		b.Action = ReadClock
	}
	return false, nil
}

// sharedLook is the look that complete readings amount to. It is as old as the oldest of them.
func sharedLook(p Permit, readings []Reading) Look {
	l := Look{Complete: true, Restoration: p.NewestRestoration()}
	for _, r := range readings {
		if l.Begun.IsZero() || r.Begun.Database.Before(l.Begun) {
			l.Begun = r.Begun.Database
		}
		if !slices.Contains(l.Readings, r.ID) {
			l.Readings = append(l.Readings, r.ID)
			l.Seen += r.Seen
		}
	}
	return l
}

// history reads all that is on record of one charge itself.
func history(ctx context.Context, tx pgx.Tx, c Charge) (History, error) {
	attempts, err := readAttempts(ctx, tx, c.ID)
	if err != nil {
		return History{}, err
	}
	looks, err := readLooks(ctx, tx, c.ID)
	if err != nil {
		return History{}, err
	}
	return History{Accepted: c.CreatedAt, Attempts: attempts, Looks: looks}, nil
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

// cutShort is the look that was left unfinished, if it is one for the same purpose and nothing was sent since. Its first pages are as old as
// its beginning: if that is too early to prove what is wanted now, only its row is gone on with.
func cutShort(q lookup) Look {
	looks, attempts := q.history.Looks, q.history.Attempts
	if len(looks) == 0 {
		return Look{}
	}
	last := looks[len(looks)-1]
	switch {
	case last.Complete || last.Restoration != q.permit.NewestRestoration():
		return Look{}
	case len(attempts) > 0 && attempts[len(attempts)-1].SentAt.After(last.begun()):
		return Look{}
	case q.permit.Final && last.begun().Before(q.now.provenAt(q.permit.Open)), last.begun().Before(q.permit.Since), len(last.Rest) == 0:
		return Look{ID: last.ID, Restoration: last.Restoration}
	}
	return last
}

// OwnList tells whether the look that the permit asks for reads the list of the charge's customer alone. What a restored database has lost
// may have been paid for another.
func (p Permit) OwnList(c Charge) bool { return c.Customer != "" && len(p.Restored) == 0 }

// NewestRestoration is what a look that the permit asks for covers; 0: it is about none.
func (p Permit) NewestRestoration() (id int64) {
	for _, r := range p.Restored {
		id = max(id, r.ID)
	}
	return id
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
