package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

const paymentColumns = `payment.id, status, as_of, received, failure_code, decline_code, failure_message, advice,
       coalesce(failed_as_of, '0001-01-01T00:00:00Z'), coalesce(client_secret, ''), coalesce(redirect_url, '')`

func scanPayment(row pgx.Row) (paymentState, error) {
	var s paymentState
	var code, decline, message, advice *string
	err := row.Scan(&s.ID, &s.Status, &s.AsOf, &s.Received, &code, &decline, &message, &advice, &s.FailedAsOf, &s.ClientSecret, &s.RedirectURL)
	if err == nil && code != nil {
		s.Failure = &Failure{Code: *code, DeclineCode: decline, Message: message, Advice: Advice(text(advice))}
	}
	return s, err
}

const readPaymentSQL = `
SELECT asked.place, ` + paymentColumns + `
  FROM unnest($1::integer[], $2::text[]) AS asked (place, id)
 CROSS JOIN LATERAL (SELECT * FROM payment WHERE id = asked.id OFFSET 0) payment`

// readPayment returns what is known of a payment; nothing yet is the zero state. Whoever changes it holds its charge's lock.
func readPayment(ctx context.Context, tx pgx.Tx, id string) (paymentState, error) {
	state, err := scanPayment(outbox.ReadRow(ctx, tx, readPaymentSQL, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return paymentState{}, nil
	}
	if err != nil {
		return paymentState{}, fmt.Errorf("read payment %s: %w", id, err)
	}
	return state, nil
}

// listPayments returns all payments that Stripe has made for a charge. There should be one.
func listPayments(ctx context.Context, db querier, charge uuid.UUID) ([]paymentState, error) {
	rows, err := db.Query(ctx, `SELECT `+paymentColumns+` FROM payment WHERE charge_id = $1 ORDER BY id`, charge)
	if err != nil {
		return nil, fmt.Errorf("list payments of charge %s: %w", charge, err)
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (paymentState, error) { return scanPayment(row) })
	if err != nil {
		return nil, fmt.Errorf("list payments of charge %s: %w", charge, err)
	}
	return states, nil
}

// A payment belongs to one charge for good.
const upsertPaymentSQL = `
WITH stored AS (
    INSERT INTO payment (id, charge_id, status, as_of, failure_code, decline_code, failure_message, advice, failed_as_of, client_secret, redirect_url, followed, received)
    SELECT id, charge_id, status, as_of, failure_code, decline_code, failure_message, advice, failed_as_of, nullif(client_secret, ''), nullif(redirect_url, ''), followed, received
      FROM unnest($2::text[], $3::uuid[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[],
                  $11::text[], $12::text[], $13::boolean[], $14::bigint[])
           AS new (id, charge_id, status, as_of, failure_code, decline_code, failure_message, advice, failed_as_of, client_secret, redirect_url, followed, received)
        ON CONFLICT (id) DO UPDATE
       SET status = excluded.status, as_of = excluded.as_of, failure_code = excluded.failure_code, decline_code = excluded.decline_code,
           failure_message = excluded.failure_message, advice = excluded.advice, failed_as_of = excluded.failed_as_of,
           client_secret = excluded.client_secret, redirect_url = excluded.redirect_url, followed = excluded.followed, received = excluded.received, updated_at = clock_timestamp()
     WHERE payment.charge_id = excluded.charge_id
    RETURNING id
)
SELECT place FROM stored JOIN unnest($1::integer[], $2::text[]) AS new (place, id) USING (id)`

func upsertPayment(ctx context.Context, tx pgx.Tx, charge uuid.UUID, s paymentState) error {
	var code, decline, message, advice *string
	var failedAsOf *time.Time
	if f := s.Failure; f != nil {
		said := string(f.Advice)
		code, decline, message, advice, failedAsOf = &f.Code, f.DeclineCode, f.Message, &said, &s.FailedAsOf
	}
	stored, err := outbox.WriteRow(ctx, tx, upsertPaymentSQL, s.ID, charge, s.Status, s.AsOf, code, decline, message, advice, failedAsOf, s.ClientSecret, s.RedirectURL, s.followed(), s.Received)
	if err != nil {
		return fmt.Errorf("store payment %s: %w", s.ID, err)
	}
	if !stored {
		return fmt.Errorf("store payment %s: it belongs to another charge than %s", s.ID, charge)
	}
	return nil
}

const countCancelsSQL = `
SELECT count(*), count(*) FILTER (WHERE refused), count(*) FILTER (WHERE refused AND ended_at > ruled_at)
  FROM (SELECT ended_at, payment = $2 AND outcome IN ('stored_failure', 'invalid', 'answered') AS refused
          FROM attempt WHERE charge_id = $1 AND operation = 'cancel') a,
       (SELECT coalesce(max(at), '-infinity') AS ruled_at FROM charge_event
         WHERE charge_id = $1 AND from_status = 'needs_review' AND to_status <> 'needs_review' AND actor LIKE 'operator:%') e`

// countCancels counts the attempts to cancel a charge's payments, those at this payment whose answer Stripe may have stored, and of those the
// ones that ended after a person last settled the charge.
func countCancels(ctx context.Context, tx pgx.Tx, charge uuid.UUID, payment string) (all, answered, unsettled int, err error) {
	err = tx.QueryRow(ctx, countCancelsSQL, charge, payment).Scan(&all, &answered, &unsettled)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("count cancels of charge %s: %w", charge, err)
	}
	return all, answered, unsettled, nil
}

const insertCancelSQL = `
INSERT INTO attempt (id, charge_id, operation, number, provider_key, stripe_account, livemode, request, stripe_sent_at, payment)
VALUES ($1, $2, 'cancel', $3, $4, $5, $6, $7, $8, $9)`

func insertCancel(ctx context.Context, tx pgx.Tx, a Attempt) error {
	_, err := tx.Exec(ctx, insertCancelSQL, a.ID, a.ChargeID, a.Number, a.ProviderKey, a.Account.ID, a.Account.Livemode, a.Request, a.StripeSentAt, a.Payment)
	if err != nil {
		return fmt.Errorf("insert cancel %d of charge %s: %w", a.Number, a.ChargeID, err)
	}
	return nil
}
