package charges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// reviewedFailure is the failure of a charge that a person called failed. What the person wrote is not for the buyer.
var reviewedFailure = Failure{Code: "reviewed", Advice: RetryLater}

// Rule settles a charge in [NeedsReview] as a person decides, along the transition table, with its event and whatever follows: the receipt
// and its job where it has succeeded, a live job where it is sent again. It is [ErrNotFound] for an unknown charge, and a [*RulingError] for
// one that has moved meanwhile, or a ruling that contradicts what is known.
//
// It is the person's word, and Stripe's outranks it later as for any charge.
func (s *Service) Rule(ctx context.Context, id uuid.UUID, r Ruling) (c Charge, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	try := func() error {
		return outbox.InTx(ctx, s.pool, "review.settle", func(tx pgx.Tx) error {
			d, err := s.dossier(ctx, tx, id)
			if err != nil {
				return err
			}
			if err := r.check(d); err != nil {
				return err
			}
			if err := s.rule(ctx, tx, d, r); err != nil {
				return err
			}
			c, err = findCharge(ctx, tx, id)
			return err
		})
	}
	if err = try(); errors.Is(err, errNoIdentity) {
		s.blind.Store(true)
		err = try()
	}
	return c.shownTo(""), err
}

// dossier locks a charge and reads all that is known of it.
func (s *Service) dossier(ctx context.Context, tx pgx.Tx, id uuid.UUID) (d dossier, err error) {
	d.policy, d.refunded = s.policy, map[string]int64{}
	if d.charge, d.now, err = lockCharge(ctx, tx, id); err != nil {
		return d, err
	}
	if d.payments, err = listPayments(ctx, tx, id); err != nil {
		return d, err
	}
	for _, p := range d.payments {
		if d.refunded[p.ID], err = sumRefunds(ctx, tx, p.ID); err != nil {
			return d, err
		}
	}
	h, err := history(ctx, tx, d.charge)
	if err != nil {
		return d, err
	}
	d.attempts, d.looks = h.Attempts, h.Looks
	if d.restored, _, err = s.recall(ctx, tx, d.now); err != nil || len(d.restored) == 0 {
		return d, err
	}
	here, elsewhere, _, err := findSeen(ctx, tx, d.charge.IdempotencyKey, Account{})
	d.looks = append(d.looks, Look{Found: append(here, elsewhere...)}) // wherever it was seen
	return d, err
}

func (s *Service) rule(ctx context.Context, tx pgx.Tx, d dossier, r Ruling) error {
	c := d.charge
	change := Change{To: r.As}
	data := map[string]any{"review": c.Review.Reason, "because": cleanText(r.Because)}
	if r.Force {
		data["forced"] = true
	}
	switch r.As {
	case Succeeded:
		if err := s.adoptByHand(ctx, tx, d, r); err != nil {
			return err
		}
		change.Payment = r.payment(c)
		data["payment_intent"] = change.Payment
	case Failed:
		change.Failure = &reviewedFailure
	case Processing:
		data["new_key"] = r.NewKey
		if err := orderKey(ctx, tx, c.ID, r.NewKey); err != nil {
			return err
		}
		if err := s.outbox.Hurry(ctx, tx, outbox.Entry{Kind: outbox.KindCharge, ChargeID: c.ID}); err != nil {
			return err
		}
	}
	change, err := ruledStock(ctx, tx, c, change, r, data)
	if err != nil {
		return err
	}
	moved, err := moveCharge(ctx, tx, c.ID, change, r.Actor, data)
	if err != nil {
		return err
	}
	if !moved {
		return fmt.Errorf("settle charge %s as %s: it changed under its own lock", c.ID, r.As)
	}
	// What the record holds for open is asked about, and canceled, until Stripe says that it is over.
	if slices.ContainsFunc(d.payments, paymentState.followed) {
		if err := s.follow(ctx, tx, c.ID); err != nil {
			return err
		}
	}
	if r.As != Succeeded || r.refunded(d) { // nobody is sent a receipt for what they have back
		return nil
	}
	return s.receiptDue(ctx, tx, c)
}

// adoptByHand puts the payment on record that a person says has taken the money. Whatever Stripe says of it later outranks that, and what
// contradicts it is for a person again, see [RulingContradicted].
func (s *Service) adoptByHand(ctx context.Context, tx pgx.Tx, d dossier, r Ruling) error {
	c, id := d.charge, r.payment(d.charge)
	owner, err := paymentOwner(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case owner != uuid.Nil && owner != c.ID:
		return refuse("the payment %s belongs to another charge, %s", id, owner)
	}
	state, err := readPayment(ctx, tx, id)
	if err != nil {
		return err
	}
	if state.Status != "succeeded" {
		captured := r.Captured
		if captured == 0 {
			captured = c.Amount
		}
		state.ClientSecret, state.RedirectURL = "", ""
		state.News = News{AsOf: byHand, Payment: Payment{ID: id, Status: "succeeded", Amount: c.Amount, Currency: c.Currency, Received: captured, Failure: state.Failure}}
		if err := upsertPayment(ctx, tx, c.ID, state); err != nil {
			return err
		}
	}
	if err := answerAttempts(ctx, tx, c.ID); err != nil {
		return err
	}
	return setPayment(ctx, tx, c.ID, id)
}

// paymentOwner is the charge that a payment is on record for; the zero id: none.
func paymentOwner(ctx context.Context, tx pgx.Tx, payment string) (owner uuid.UUID, err error) {
	err = tx.QueryRow(ctx, `
SELECT charge_id FROM payment WHERE id = $1 UNION ALL SELECT id FROM charge WHERE payment_intent = $1 LIMIT 1`, payment).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("find the charge of payment %s: %w", payment, err)
	}
	return owner, nil
}

// setPayment makes a payment the charge's own, on a person's word alone: where Stripe has two, the person says which one counts.
func setPayment(ctx context.Context, tx pgx.Tx, charge uuid.UUID, payment string) error {
	if _, err := tx.Exec(ctx, `UPDATE charge SET payment_intent = $2 WHERE id = $1`, charge, payment); err != nil {
		return fmt.Errorf("set payment of charge %s: %w", charge, err)
	}
	return nil
}

// orderKey writes down that the next attempt may have a new key, or that it may not.
func orderKey(ctx context.Context, tx pgx.Tx, charge uuid.UUID, order bool) error {
	_, err := tx.Exec(ctx, `UPDATE charge SET rekey_ordered_at = CASE WHEN $2 THEN clock_timestamp() END WHERE id = $1`, charge, order)
	if err != nil {
		return fmt.Errorf("order a new key for charge %s: %w", charge, err)
	}
	return nil
}

// policyFor is the policy for a charge's next attempt: a person's order of a new key holds for one attempt under it.
func (s *Service) policyFor(ctx context.Context, tx pgx.Tx, charge uuid.UUID, attempts []Attempt) (Policy, error) {
	p := s.policy
	if p.Rekey || !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Outcome == StoredFailure }) {
		return p, nil
	}
	var ordered *time.Time
	if err := tx.QueryRow(ctx, `SELECT rekey_ordered_at FROM charge WHERE id = $1`, charge).Scan(&ordered); err != nil {
		return p, fmt.Errorf("read the order of a new key for charge %s: %w", charge, err)
	}
	p.Rekey = ordered != nil && ordered.After(attempts[len(attempts)-1].SentAt)
	return p, nil
}
