package charges

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// RefundNews is what Stripe said of one refund at one moment, in an event or a list. Whoever made the refund, over Stripe's
// dashboard or its API, the news of it are the same.
type RefundNews struct {
	ID            string // "re_...", or "pyr_..." of some payment methods
	Payment       string // "pi_...", the payment that it gives back
	Amount        int64  // in the currency's minor unit, at Stripe's scale
	Currency      string
	Status        string    // Stripe's own word
	Reason        string    // empty: none was given
	FailureReason string    // empty unless it has failed
	AsOf          time.Time // by Stripe's clock, to the second
}

// refundRank orders Stripe's statuses of one refund for news of one second: the further on, the later. The last two are the
// ends that give the money back to the shop: https://docs.stripe.com/api/refunds/object#refund_object-status
var refundRank = map[string]int{
	"requires_action": 1,
	"pending":         2,
	"succeeded":       3,
	"canceled":        4,
	"failed":          5,
}

// undone tells whether the refund has not come about, and never will: Stripe makes a new one instead. A succeeded one may
// still fail days later, when the buyer's bank sends the money back: https://docs.stripe.com/refunds#failed-refunds
func (n RefundNews) undone() bool { return n.Status == "failed" || n.Status == "canceled" }

// compare says which of two pieces of news about one refund is true later: 1 if n is, -1 if m is, 0 if they are the same. It is
// a total order, so that merging any number of news ends in the same state, whatever their order.
func (n RefundNews) compare(m RefundNews) int {
	if n.undone() != m.undone() {
		if n.undone() {
			return 1
		}
		return -1
	}
	return cmp.Or(
		n.AsOf.Compare(m.AsOf),
		cmp.Compare(refundRank[n.Status], refundRank[m.Status]),
		cmp.Compare(n.Status, m.Status), // two that we do not know
		cmp.Compare(n.Amount, m.Amount),
		cmp.Compare(n.Reason, m.Reason),
		cmp.Compare(n.FailureReason, m.FailureReason),
	)
}

// merge adds news to what is known; the zero value knows nothing.
func (n RefundNews) merge(m RefundNews) RefundNews {
	if n.ID == "" || m.compare(n) > 0 {
		return m
	}
	return n
}

// saysAs tells whether two pieces of news differ in nothing but their time.
func (n RefundNews) saysAs(m RefundNews) bool {
	n.AsOf, m.AsOf = time.Time{}, time.Time{}
	return n == m
}

// takeRefund merges news of a refund into what is known of it, and leaves an event with each change. The payment is on
// record as the locked charge's. A refund that names another payment than before, or another currency than the charge's, changes
// nothing; refunds of more than the charge are taken as they are, since Stripe's word is what has happened.
func takeRefund(ctx context.Context, tx pgx.Tx, c Charge, n RefundNews, actor string, data map[string]any) (EventNote, error) {
	known, err := findRefund(ctx, tx, n.ID)
	if err != nil {
		return "", err
	}
	if n.Currency != c.Currency || known.ID != "" && known.Payment != n.Payment {
		return EventNote(PaymentDiffers), nil
	}
	state := known.merge(n)
	if state == known {
		return "", nil
	}
	if err := upsertRefund(ctx, tx, c.ID, state); err != nil {
		return "", err
	}
	if state.saysAs(known) {
		return "", nil
	}
	refunded, err := sumRefunds(ctx, tx, n.Payment)
	if err != nil {
		return "", err
	}
	said := map[string]any{"refund": n.ID, "payment_intent": n.Payment, "amount": state.Amount, "currency": state.Currency, "amount_refunded": refunded}
	addText(said, "reason", state.Reason)
	addText(said, "failure_reason", state.FailureReason)
	if err := recordSaid(ctx, tx, c, "refund."+state.Status, actor, said, data); err != nil {
		return "", err
	}
	if refunded > c.Amount {
		return EventRefundsExceed, nil
	}
	return "", nil
}

func addText(to map[string]any, name, text string) {
	if text != "" {
		to[name] = text
	}
}

// readRefunds sees to it that a worker lists a charge's refunds and disputes at Stripe, whatever becomes of its job.
func (s *Service) readRefunds(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	if err := wantReading(ctx, tx, charge); err != nil {
		return err
	}
	return s.outbox.Hurry(ctx, tx, outbox.Entry{Kind: outbox.KindRefunds, ChargeID: charge})
}

// HearRefunds takes the refunds and disputes of one of a charge's payments, as Stripe listed them when it was asked, and
// returns what is odd about them. One that is known and not on the list stays: Stripe never takes one back.
func (s *Service) HearRefunds(ctx context.Context, id uuid.UUID, refunds []RefundNews, disputes []DisputeNews) (notes []EventNote, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "refund.hear", func(tx pgx.Tx) error {
		notes = nil
		c, _, err := lockCharge(ctx, tx, id)
		if err != nil {
			return err
		}
		for _, n := range refunds {
			note, err := takeRefund(ctx, tx, c, n, worker, nil)
			if err != nil {
				return err
			}
			notes = append(notes, note)
		}
		for _, n := range disputes {
			note, err := takeDispute(ctx, tx, c, n, worker, nil)
			if err != nil {
				return err
			}
			notes = append(notes, note)
		}
		return nil
	})
	return slices.DeleteFunc(notes, func(n EventNote) bool { return n == "" }), err
}
