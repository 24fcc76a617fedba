package charges

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Settle writes down how an attempt ended and, by compare-and-set, what follows for the charge, with its event and the
// receipt and its job where the money has moved: all in one transaction. A charge that
// somebody else has settled meanwhile keeps its state, unless Stripe's word outranks it.
//
// A refusal of the request itself ([Invalid]) is final only if nothing of it can have worked before. While another attempt
// is open the charge is held where it is: Stripe must be looked at first.
//
// The transaction is shared with other attempts that have ended meanwhile: successes with successes alone, since all else may give items back and
// wait for the row of a SKU that somebody keeps. It tries again for some seconds while the database cannot be asked, its answer was lost, or a lock was
// not to be had: what is settled twice ends as if it was once, and a result that is not written down costs a minute and another call.
func (s *Service) Settle(ctx context.Context, a Attempt, r Result) (held bool, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	e := &ending{attempt: a, result: r}
	lane := s.giveBacks
	if r.succeeded() {
		lane = s.settles
	}
	err = untilAnswered(ctx, func() error { return lane.Do(ctx, e) })
	return e.held, err
}

// succeeded tells whether the payment has taken money: what the charge holds is taken then, where it lies, unless it was given back before.
func (r Result) succeeded() bool { return r.News != nil && r.News.Status == "succeeded" }

// ending is an attempt that has ended, and whether its charge is held where it is.
type ending struct {
	attempt Attempt
	result  Result
	held    bool
}

// LockKey is the charge.
func (e *ending) LockKey() uuid.UUID { return e.attempt.ChargeID }

func (s *Service) settleTogether(ctx context.Context, all []*ending) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTxEach(ctx, s.pool, "attempt.settle", all, func(ctx context.Context, tx pgx.Tx, e *ending) (err error) {
		e.held, err = s.settle(ctx, tx, e.attempt, e.result)
		return err
	})
}

func (s *Service) settle(ctx context.Context, tx pgx.Tx, a Attempt, r Result) (held bool, err error) {
	c, _, err := lockCharge(ctx, tx, a.ChargeID)
	if err != nil {
		return false, err
	}
	if err := endAttempt(ctx, tx, a.ID, r); err != nil {
		return false, err
	}
	data := map[string]any{"attempt": a.Number, "request_id": r.RequestID}
	switch {
	case r.News != nil:
		return false, s.adopt(ctx, tx, c, a.Account, *r.News, data)
	case c.PaymentIntent != nil && r.Change.To != "":
		// The charge has its payment, from another answer or an event: that tells how it goes on, not a refusal of this attempt.
		data["status"], data["code"] = r.Change.To, r.Code
		return false, recordIgnored(ctx, tx, c, worker, data)
	}
	attempts, err := readAttempts(ctx, tx, c.ID)
	if err != nil {
		return false, err
	}
	if r.Outcome == Invalid && anyOpen(attempts) {
		return true, nil
	}
	return false, s.move(ctx, tx, c, r.Change, worker, data)
}

// Looked writes down a look at an account and what it proved of the permit's open attempts. ours are the payments that name the charge,
// all of them: one is adopted, and more are for a person to see; none, in a complete and final look, closes the attempts.
func (s *Service) Looked(ctx context.Context, id uuid.UUID, p Permit, at Account, l Look, ours []News) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "look.record", func(tx pgx.Tx) error {
		c, _, err := lockCharge(ctx, tx, id)
		if err != nil {
			return err
		}
		return s.looked(ctx, tx, c, p, at, l, ours)
	})
}

// looked is Looked for a locked charge.
func (s *Service) looked(ctx context.Context, tx pgx.Tx, c Charge, p Permit, at Account, l Look, ours []News) error {
	if err := storeLook(ctx, tx, c.ID, l); err != nil {
		return err
	}
	data := map[string]any{"found": l.Found, "seen": l.Seen}
	switch {
	case !l.Complete:
		return nil // what was read so far proves nothing
	case len(ours) > 0 && len(p.Restored) > 0:
		// What was done about the payment since, nobody will tell again.
		if err := s.readRefunds(ctx, tx, c.ID); err != nil {
			return err
		}
	}
	switch {
	case len(ours) > 1:
		return s.adoptAll(ctx, tx, c, at, ours, data)
	case len(ours) == 1:
		return s.adopt(ctx, tx, c, at, ours[0], data)
	case p.Final && len(p.Open) > 0:
		return closeAttempts(ctx, tx, p.Open, Absent)
	}
	return nil
}

// adopt takes what an attempt has come to, and closes the attempts that it answers. What is odd about it is never taken for "none".
func (s *Service) adopt(ctx context.Context, tx pgx.Tx, c Charge, at Account, n News, data map[string]any) error {
	took, err := s.takeNews(ctx, tx, c, at, n, worker, data)
	switch {
	case err != nil || took.note == DuplicatePayment:
		return err
	case took.note == PaymentDiffers:
		return s.move(ctx, tx, c, Change{To: NeedsReview, Reason: string(took.note)}, worker, data)
	case took.before.ID != "":
		return nil // its events have told more than this answer
	}
	return s.parkIfMute(ctx, tx, c, took.after, data)
}

// adoptAll puts every payment that a look has found on record, the one that took money first, and asks a person.
func (s *Service) adoptAll(ctx context.Context, tx pgx.Tx, c Charge, at Account, ours []News, data map[string]any) error {
	slices.SortStableFunc(ours, func(a, b News) int { return newer(b, a) })
	for _, n := range ours {
		if _, err := s.takeNews(ctx, tx, c, at, n, worker, data); err != nil {
			return err
		}
		var err error
		if c, err = readCharge(ctx, tx, c.ID); err != nil {
			return err
		}
	}
	return s.move(ctx, tx, c, Change{To: NeedsReview, Reason: string(DuplicatePayment)}, worker, data)
}

// parkIfMute asks a person about a payment that has not been tried: a create that also confirms leaves none behind, and
// whatever made it, it must not be made again.
func (s *Service) parkIfMute(ctx context.Context, tx pgx.Tx, c Charge, state paymentState, data map[string]any) error {
	if change, _ := state.outcome(); change.To != "" {
		return nil
	}
	return s.move(ctx, tx, c, Change{To: NeedsReview, Payment: state.ID, Reason: "unknown_payment_status"}, worker, data)
}

// move applies a change to a locked charge, and what comes with it. Everything that changes a status goes through here.
func (s *Service) move(ctx context.Context, tx pgx.Tx, c Charge, change Change, actor string, data map[string]any) error {
	if change.To == "" {
		return nil
	}
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	switch {
	case c.isAt(change):
		return nil
	case !c.goesTo(change):
		// Somebody else has settled it, or a person must, and their word stands. What was said is kept for whoever looks.
		data["status"], data["payment_intent"] = change.To, change.Payment
		return recordIgnored(ctx, tx, c, actor, data)
	}
	change, short, err := withStock(ctx, tx, c, change)
	if err != nil {
		return err
	}
	change.tell(data, short)
	moved, err := moveCharge(ctx, tx, c.ID, change, actor, data)
	if err != nil {
		return err
	}
	if !moved {
		return fmt.Errorf("move charge %s from %s to %s: it changed under its own lock", c.ID, c.Status, change.To)
	}
	if change.To != Succeeded {
		return nil
	}
	return s.receiptDue(ctx, tx, c)
}

// isAt tells whether a change says nothing that is new of the charge.
func (c Charge) isAt(change Change) bool {
	return c.Status == change.To && (c.Review == nil || change.Reason != string(DuplicatePayment) || c.Review.Reason == change.Reason)
}

// goesTo tells whether a change is one that the charge makes.
func (c Charge) goesTo(change Change) bool {
	return change.To != "" && !c.isAt(change) && c.Status.MayBecome(change.To) && !c.awaitsRuling(change.To)
}

// awaitsRuling tells whether a person must have seen to it before the charge may go on to that status.
func (c Charge) awaitsRuling(to Status) bool {
	if c.Review == nil {
		return false
	}
	switch c.Review.Reason {
	case string(DuplicatePayment):
		return true
	case string(RulingContradicted):
		return to != Succeeded && to != NeedsReview
	case InsufficientInventory:
		return to != NeedsReview
	}
	return false
}

// receiptDue makes the receipt of a charge that has succeeded due, with its job, if it wants one and has none.
func (s *Service) receiptDue(ctx context.Context, tx pgx.Tx, c Charge) error {
	if c.ReceiptEmail == "" {
		return nil
	}
	created, err := insertReceipt(ctx, tx, c.ID, c.ReceiptEmail)
	if err != nil || !created {
		return err
	}
	return s.outbox.Enqueue(ctx, tx, []outbox.Entry{{Kind: outbox.KindReceipt, ChargeID: c.ID}})
}
