package charges

import (
	"context"
	"fmt"
	"maps"

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
func (s *Service) Settle(ctx context.Context, a Attempt, r Result) (held bool, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "attempt.settle", func(tx pgx.Tx) error {
		c, _, err := lockCharge(ctx, tx, a.ChargeID)
		if err != nil {
			return err
		}
		if err := endAttempt(ctx, tx, a.ID, r); err != nil {
			return err
		}
		attempts, err := listAttempts(ctx, tx, []uuid.UUID{c.ID})
		if err != nil {
			return err
		}
		if held = r.Outcome == Invalid && anyOpen(attempts[c.ID]); held {
			return nil
		}
		return s.move(ctx, tx, c, r.Change, map[string]any{"attempt": a.Number, "request_id": r.RequestID})
	})
	return held, err
}

// Looked writes down a look and what it proved of the permit's open attempts: with change set, a payment was found and is
// adopted (or its oddity parks the charge); without, and complete, and final, there is none and the attempts are closed.
func (s *Service) Looked(ctx context.Context, id uuid.UUID, p Permit, l Look, change Change) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "look.record", func(tx pgx.Tx) error {
		c, _, err := lockCharge(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := storeLook(ctx, tx, id, l); err != nil {
			return err
		}
		switch {
		case change.To != "" && change.To != NeedsReview:
			if err := closeAttempts(ctx, tx, p.Open, Answered); err != nil {
				return err
			}
		case change.To == "" && l.Complete && p.Final:
			if err := closeAttempts(ctx, tx, p.Open, Absent); err != nil {
				return err
			}
		}
		return s.move(ctx, tx, c, change, map[string]any{"found": l.Found, "seen": l.Seen})
	})
}

// duplicatePayment is the reason of a review that only a person ends: Stripe holds more than one payment for the charge.
const duplicatePayment = "duplicate_payment"

// move applies a change to a locked charge, and what comes with it. Everything that changes a status goes through here.
func (s *Service) move(ctx context.Context, tx pgx.Tx, c Charge, change Change, data map[string]any) error {
	if change.To == "" {
		return nil
	}
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	if change.Payment != "" && c.PaymentIntent != nil && *c.PaymentIntent != change.Payment {
		// The first payment stays on the charge; that there is a second one is for a person to see.
		data["payment_intent"] = change.Payment
		change = Change{To: NeedsReview, Reason: duplicatePayment}
	}
	switch {
	case c.Status == change.To && change.Payment != "" && c.PaymentIntent == nil:
		return recordPayment(ctx, tx, c.ID, change.Payment)
	case c.Status == change.To:
		return nil
	case !c.Status.MayBecome(change.To), c.Review != nil && c.Review.Reason == duplicatePayment:
		// Somebody else has settled it, or a person must, and their word stands. What was said is kept for whoever looks.
		data["status"], data["payment_intent"] = change.To, change.Payment
		return recordIgnored(ctx, tx, c, worker, data)
	}
	moved, err := moveCharge(ctx, tx, c.ID, change, worker, data)
	if err != nil {
		return err
	}
	if !moved {
		return fmt.Errorf("move charge %s from %s to %s: it changed under its own lock", c.ID, c.Status, change.To)
	}
	if change.To != Succeeded || c.ReceiptEmail == "" {
		return nil
	}
	created, err := insertReceipt(ctx, tx, c.ID, c.ReceiptEmail)
	if err != nil || !created {
		return err
	}
	return s.outbox.Enqueue(ctx, tx, []outbox.Entry{{Kind: outbox.KindReceipt, ChargeID: c.ID}})
}
