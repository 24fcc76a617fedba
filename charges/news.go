package charges

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Note says why news of a payment changed nothing, or what is odd about it.
type Note string

// The notes. All but Taken are alarms.
const (
	Taken            Note = ""                  // merged; the charge is where the payment is
	DuplicatePayment Note = "duplicate_payment" // there is another payment for this charge
	PaymentDiffers   Note = "payment_differs"   // it names the charge and has another amount, currency or mode
	PaidAfterEnd     Note = "paid_after_end"    // money moved for a charge that we had called failed or canceled

	// A person had said that it has taken the money, and it has not. The charge is back in needs_review for that reason.
	RulingContradicted Note = "ruling_contradicted"
)

// stripeSays is the actor in the audit trail for what Stripe told us unasked.
const stripeSays = "stripe"

// took is what news have come to.
type took struct {
	note          Note
	before, after paymentState // what was known of the payment, and what is
}

// takeNews merges news into what is known of a locked charge's payment, and moves the charge to where that leads: one state
// for every order of the same news. News that do not agree with the charge change nothing. A second payment never replaces the
// first: if it is open it is canceled, and if it has taken money a person must see to it.
func (s *Service) takeNews(ctx context.Context, tx pgx.Tx, c Charge, here Account, n News, actor string, data map[string]any) (t took, err error) {
	if n.Amount != c.Amount || n.Currency != c.Currency || n.Livemode != here.Livemode {
		return took{note: PaymentDiffers}, nil
	}
	if t.before, err = readPayment(ctx, tx, n.ID); err != nil {
		return t, err
	}
	t.after = t.before.merge(n)
	first, before, state := t.before.ID == "", t.before, t.after
	if err := upsertPayment(ctx, tx, c.ID, state); err != nil {
		return t, err
	}
	if c.PaymentIntent != nil && *c.PaymentIntent != n.ID {
		t.note = DuplicatePayment
		if !first && c.Status.Final() && over(before.Status) && before.Status == state.Status {
			return t, nil // nothing that whoever settled the charge could not know
		}
		return t, s.second(ctx, tx, c, state, actor, first)
	}
	// The payment is the operation's result, whatever became of the attempts' own answers.
	if err := answerAttempts(ctx, tx, c.ID); err != nil {
		return t, err
	}
	change, cancelFirst := state.outcome()
	if before.byHand() && state.Status != "succeeded" {
		t.note = RulingContradicted
		change = Change{To: NeedsReview, Payment: n.ID, Reason: string(t.note)}
	}
	told := before.Status == state.Status && c.awaitsRuling(change.To) && c.Review.Reason != string(DuplicatePayment) // nothing new to write down
	if c.PaymentIntent == nil {
		c.PaymentIntent = &n.ID
		if told || !c.goesTo(change) { // else the change brings it along
			if err := recordPayment(ctx, tx, c.ID, n.ID); err != nil {
				return t, err
			}
		}
	}
	if !told {
		if err := s.move(ctx, tx, c, change, actor, data); err != nil {
			return t, err
		}
	}
	if (c.Status == Failed || c.Status == Canceled) && change.To == Succeeded {
		t.note = PaidAfterEnd
	}
	// A worker that follows it already goes on by itself. A failure that the merge has passed over, since it is of the same second as
	// what followed or was followed by it, is for Stripe to say.
	passedOver := n.Failure != nil && n.Status != state.Status
	if state.followed() && (first || before.byHand() || (cancelFirst || passedOver) && actor == stripeSays) {
		return t, s.follow(ctx, tx, c.ID)
	}
	return t, nil
}

// second deals with a payment for a charge that has another one.
func (s *Service) second(ctx context.Context, tx pgx.Tx, c Charge, state paymentState, actor string, first bool) error {
	switch state.Status {
	case "canceled":
		return nil
	case "succeeded", "processing", "requires_capture":
		return s.move(ctx, tx, c, Change{To: NeedsReview, Reason: string(DuplicatePayment)}, actor, map[string]any{"payment_intent": state.ID})
	}
	if !first && actor != stripeSays {
		return nil // it is followed already
	}
	return s.follow(ctx, tx, c.ID)
}

// follow sees to it that a worker goes on with a payment that is not over: asks Stripe from time to time, and cancels it where that is due.
func (s *Service) follow(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	return s.outbox.Hurry(ctx, tx, outbox.Entry{Kind: outbox.KindFollow, ChargeID: charge})
}
