package charges

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Following is what a worker needs to ask Stripe about payments of a charge.
type Following struct {
	Charge   Charge
	Account  Account   // that they are at; zero: no attempt is on record, so the payments were found at the worker's own
	Payments []string  // their ids; empty: there is nothing to ask about
	Now      time.Time // by PostgreSQL's clock, before any of this was read

	known map[string]bool // payments that are on record
}

// Follow tells which payments of a charge may still change at Stripe.
func (s *Service) Follow(ctx context.Context, id uuid.UUID) (Following, error) {
	f, err := s.following(ctx, id, paymentState.followed)
	if own := f.Charge.PaymentIntent; err == nil && own != nil && !f.Charge.Status.Final() && !f.known[*own] {
		f.Payments = append(f.Payments, *own) // an older release has put it on the charge alone
	}
	return f, err
}

// Payments tells of all payments that Stripe has made for a charge. There should be one.
func (s *Service) Payments(ctx context.Context, id uuid.UUID) (Following, error) {
	f, err := s.following(ctx, id, func(paymentState) bool { return true })
	if own := f.Charge.PaymentIntent; err == nil && own != nil && !f.known[*own] {
		f.Payments = append(f.Payments, *own)
	}
	return f, err
}

func (s *Service) following(ctx context.Context, id uuid.UUID, wanted func(paymentState) bool) (Following, error) {
	var now time.Time
	if err := s.reads.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return Following{}, fmt.Errorf("read the clock: %w", err)
	}
	c, err := findCharge(ctx, s.reads, id)
	if err != nil {
		return Following{}, err
	}
	states, err := listPayments(ctx, s.reads, id)
	if err != nil {
		return Following{}, err
	}
	f := Following{Charge: c, Now: now, known: map[string]bool{}}
	for _, state := range states {
		f.known[state.ID] = true
		if wanted(state) {
			f.Payments = append(f.Payments, state.ID)
		}
	}
	attempts, err := listAttempts(ctx, s.reads, []uuid.UUID{id})
	if err != nil {
		return Following{}, err
	}
	for _, a := range attempts[id] {
		f.Account = a.Account
	}
	return f, nil
}

// Hear takes what Stripe says of a charge's payment when it is asked.
func (s *Service) Hear(ctx context.Context, id uuid.UUID, at Account, n News) (note Note, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "payment.hear", func(tx pgx.Tx) error {
		c, _, err := lockCharge(ctx, tx, id)
		if err != nil {
			return err
		}
		took, err := s.takeNews(ctx, tx, c, at, n, worker, nil)
		note = took.note
		return err
	})
	return note, err
}

// BeginCancel commits the attempt to cancel one of a charge's payments at Stripe, if that is due: the buyer's try has failed
// and whoever holds its client secret could try again, the buyer has not come back within actionTTL, or there is another payment:
// the first stays, unless another one has taken the money.
// It returns false if nothing is due. The attempt's request names no payment: that is in its path.
func (s *Service) BeginCancel(ctx context.Context, id uuid.UUID, here Here, actionTTL time.Duration) (a Attempt, due bool, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "cancel.begin", func(tx pgx.Tx) error {
		a, due = Attempt{}, false
		c, now, err := lockCharge(ctx, tx, id)
		if err != nil {
			return err
		}
		states, err := listPayments(ctx, tx, id)
		if err != nil {
			return err
		}
		paid := slices.ContainsFunc(states, func(state paymentState) bool { return state.Status == "succeeded" })
		for _, state := range states {
			if !cancelDue(c, state, paid, now, actionTTL) {
				continue
			}
			next, refused, unsettled, err := nextCancel(ctx, tx, c, state, here)
			switch {
			case err != nil:
				return err
			case refused < maxCancels:
				a, due = next, true
				return insertCancel(ctx, tx, a)
			case c.Status != NeedsReview && unsettled > 0: // whoever settled it since has known of the others
				return s.move(ctx, tx, c, Change{To: NeedsReview, Reason: cancelRefused}, worker, map[string]any{"payment_intent": state.ID, "refusals": refused})
			}
		}
		return nil
	})
	return a, due, err
}

// maxCancels is how often Stripe may answer an attempt to cancel one payment, over about half a day, before a person is asked. The payment is
// read from time to time all the same, so that what the person does at Stripe is noticed.
const maxCancels = 20

// cancelRefused is why a person is asked: a payment that should be over is not, and Stripe does not let us cancel it.
const cancelRefused = "cancel_refused"

func cancelDue(c Charge, state paymentState, paid bool, now time.Time, actionTTL time.Duration) bool {
	switch state.Status {
	case "requires_payment_method", "requires_confirmation", "requires_action":
	default:
		return false // over, or the money is on its way or held
	}
	if paid || c.PaymentIntent == nil || *c.PaymentIntent != state.ID {
		return true
	}
	if c.Status == Failed || c.Status == Canceled {
		return state.followed() // we have said that it is over
	}
	change, cancelFirst := state.outcome()
	waits := c.Status == RequiresAction || c.Status == Processing && change.To == "" // for the buyer, or for nobody
	return cancelFirst || waits && now.Sub(c.UpdatedAt) >= actionTTL
}

// nextCancel is the next attempt to cancel a payment, how many before it Stripe has answered without canceling it, and how many of those a
// person who has settled the charge could not know of.
func nextCancel(ctx context.Context, tx pgx.Tx, c Charge, state paymentState, here Here) (a Attempt, answered, unsettled int, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Attempt{}, 0, 0, fmt.Errorf("attempt id: %w", err)
	}
	n, answered, unsettled, err := countCancels(ctx, tx, c.ID, state.ID)
	if err != nil {
		return Attempt{}, 0, 0, err
	}
	// No caller's key can equal it. Canceling twice does no harm, so a key that Stripe has stored an answer under, which it would
	// repeat for a day whatever became of the payment, is followed by another.
	key := fmt.Sprintf("cancel:%s:%s", c.ID, state.ID)
	if answered > 0 {
		key = fmt.Sprintf("%s:%d", key, answered)
	}
	return Attempt{ID: id, ChargeID: c.ID, Number: n + 1, ProviderKey: key, Account: here.Account,
		Request: "cancellation_reason=abandoned", StripeSentAt: here.Clock, Payment: state.ID}, answered, unsettled, nil
}

// SettleCancel writes down how an attempt to cancel a payment ended, and takes what Stripe said of the payment.
func (s *Service) SettleCancel(ctx context.Context, a Attempt, r Result) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "cancel.settle", func(tx pgx.Tx) error {
		c, _, err := lockCharge(ctx, tx, a.ChargeID)
		if err != nil {
			return err
		}
		if err := endAttempt(ctx, tx, a.ID, r); err != nil || r.News == nil {
			return err
		}
		_, err = s.takeNews(ctx, tx, c, a.Account, *r.News, worker, map[string]any{"cancel": a.Number, "request_id": r.RequestID})
		return err
	})
}
