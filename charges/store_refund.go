package charges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const selectRefundSQL = `
SELECT id, payment, amount, currency, status, coalesce(reason, ''), coalesce(failure_reason, ''), as_of
  FROM refund WHERE id = $1`

// findRefund returns what is known of a refund; nothing yet is the zero value. Whoever changes it holds its charge's lock.
func findRefund(ctx context.Context, tx pgx.Tx, id string) (n RefundNews, err error) {
	err = tx.QueryRow(ctx, selectRefundSQL, id).Scan(&n.ID, &n.Payment, &n.Amount, &n.Currency, &n.Status, &n.Reason, &n.FailureReason, &n.AsOf)
	if errors.Is(err, pgx.ErrNoRows) {
		return RefundNews{}, nil
	}
	if err != nil {
		return RefundNews{}, fmt.Errorf("find refund %s: %w", id, err)
	}
	n.AsOf = n.AsOf.UTC()
	return n, nil
}

// A refund belongs to one charge and one payment for good.
const upsertRefundSQL = `
INSERT INTO refund (id, charge_id, payment, amount, currency, status, reason, failure_reason, as_of)
VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), nullif($8, ''), $9)
    ON CONFLICT (id) DO UPDATE
   SET amount = excluded.amount, currency = excluded.currency, status = excluded.status, reason = excluded.reason,
       failure_reason = excluded.failure_reason, as_of = excluded.as_of, updated_at = clock_timestamp()
 WHERE refund.charge_id = excluded.charge_id AND refund.payment = excluded.payment`

func upsertRefund(ctx context.Context, tx pgx.Tx, charge uuid.UUID, n RefundNews) error {
	tag, err := tx.Exec(ctx, upsertRefundSQL, n.ID, charge, n.Payment, n.Amount, n.Currency, n.Status, n.Reason, n.FailureReason, n.AsOf)
	if err != nil {
		return fmt.Errorf("store refund %s: %w", n.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("store refund %s: it belongs to another charge than %s", n.ID, charge)
	}
	return nil
}

// countedRefunds are the statuses in which a refund has taken its amount off the payment's balance.
const countedRefunds = `('pending', 'requires_action', 'succeeded')`

const sumRefundsSQL = `SELECT coalesce(sum(amount), 0)::bigint FROM refund WHERE payment = $1 AND status IN ` + countedRefunds

// sumRefunds is how much of a payment has been given back, or is on its way.
func sumRefunds(ctx context.Context, tx pgx.Tx, payment string) (sum int64, err error) {
	err = tx.QueryRow(ctx, sumRefundsSQL, payment).Scan(&sum)
	if err != nil {
		return 0, fmt.Errorf("sum refunds of payment %s: %w", payment, err)
	}
	return sum, nil
}

const selectDisputeSQL = `
SELECT id, payment, amount, currency, status, reason, opened_at, coalesce(due_by, '0001-01-01T00:00:00Z'), as_of
  FROM dispute WHERE id = $1`

// findDispute returns what is known of a dispute; nothing yet is the zero value. Whoever changes it holds its charge's lock.
func findDispute(ctx context.Context, tx pgx.Tx, id string) (n DisputeNews, err error) {
	err = tx.QueryRow(ctx, selectDisputeSQL, id).Scan(&n.ID, &n.Payment, &n.Amount, &n.Currency, &n.Status, &n.Reason, &n.OpenedAt, &n.DueBy, &n.AsOf)
	if errors.Is(err, pgx.ErrNoRows) {
		return DisputeNews{}, nil
	}
	if err != nil {
		return DisputeNews{}, fmt.Errorf("find dispute %s: %w", id, err)
	}
	n.OpenedAt, n.DueBy, n.AsOf = n.OpenedAt.UTC(), n.DueBy.UTC(), n.AsOf.UTC()
	return n, nil
}

// A dispute belongs to one charge and one payment for good.
const upsertDisputeSQL = `
INSERT INTO dispute (id, charge_id, payment, amount, currency, status, reason, opened_at, due_by, as_of)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (id) DO UPDATE
   SET amount = excluded.amount, currency = excluded.currency, status = excluded.status, reason = excluded.reason,
       opened_at = excluded.opened_at, due_by = excluded.due_by, as_of = excluded.as_of, updated_at = clock_timestamp()
 WHERE dispute.charge_id = excluded.charge_id AND dispute.payment = excluded.payment`

func upsertDispute(ctx context.Context, tx pgx.Tx, charge uuid.UUID, n DisputeNews) error {
	var dueBy *time.Time
	if !n.DueBy.IsZero() {
		dueBy = &n.DueBy
	}
	tag, err := tx.Exec(ctx, upsertDisputeSQL, n.ID, charge, n.Payment, n.Amount, n.Currency, n.Status, n.Reason, n.OpenedAt, dueBy, n.AsOf)
	if err != nil {
		return fmt.Errorf("store dispute %s: %w", n.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("store dispute %s: it belongs to another charge than %s", n.ID, charge)
	}
	return nil
}

const recordSaidSQL = `
INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data)
VALUES ($1, $2, $3, $3, $4, $5)`

// recordSaid leaves a trace of what Stripe said that moves no status: of what it said, and where that came from.
func recordSaid(ctx context.Context, tx pgx.Tx, c Charge, kind, actor string, said, from map[string]any) error {
	maps.Copy(said, from)
	encoded, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if _, err := tx.Exec(ctx, recordSaidSQL, c.ID, kind, c.Status, actor, encoded); err != nil {
		return fmt.Errorf("record %s of charge %s: %w", kind, c.ID, err)
	}
	return nil
}

// findPaymentOf returns the payment of a refund or dispute that is on record; empty: it is not.
func findPaymentOf(ctx context.Context, tx pgx.Tx, id string) (payment string, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce((SELECT payment FROM refund WHERE id = $1), (SELECT payment FROM dispute WHERE id = $1), '')`, id).Scan(&payment)
	if err != nil {
		return "", fmt.Errorf("find the payment of %s: %w", id, err)
	}
	return payment, nil
}
