package charges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// lockCharge holds a charge's row until tx ends, and reads PostgreSQL's clock.
func lockCharge(ctx context.Context, tx pgx.Tx, id uuid.UUID) (c Charge, now time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT clock_timestamp() FROM charge WHERE id = $1 FOR NO KEY UPDATE`, id).Scan(&now)
	if errors.Is(err, pgx.ErrNoRows) {
		return Charge{}, now, fmt.Errorf("lock charge %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Charge{}, now, fmt.Errorf("lock charge %s: %w", id, err)
	}
	// A second statement, because the first one's snapshot may be older than the lock.
	c, err = findCharge(ctx, tx, id)
	return c, now, err
}

const listAttemptsSQL = `
SELECT id, charge_id, number, provider_key, stripe_account, livemode, request, sent_at, stripe_sent_at,
       coalesce(ended_at, '0001-01-01T00:00:00Z'), coalesce(outcome, ''), coalesce(code, ''),
       coalesce(http_status, 0), coalesce(request_id, '')
  FROM attempt
 WHERE charge_id = ANY ($1) AND operation = 'charge'
 ORDER BY charge_id, number`

// listAttempts returns the attempts of each charge, in the order of their numbers.
func listAttempts(ctx context.Context, db querier, ids []uuid.UUID) (map[uuid.UUID][]Attempt, error) {
	rows, err := db.Query(ctx, listAttemptsSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	attempts := map[uuid.UUID][]Attempt{}
	var a Attempt
	_, err = pgx.ForEachRow(rows, []any{&a.ID, &a.ChargeID, &a.Number, &a.ProviderKey, &a.Account.ID, &a.Account.Livemode,
		&a.Request, &a.SentAt, &a.StripeSentAt, &a.EndedAt, &a.Outcome, &a.Code, &a.HTTPStatus, &a.RequestID}, func() error {
		attempts[a.ChargeID] = append(attempts[a.ChargeID], a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	return attempts, nil
}

const listLooksSQL = `
SELECT charge_id, id, looked_at, coalesce(begun_at, looked_at), complete, seen, coalesce(string_to_array(found, ' '), '{}'), coalesce(error, ''), rest,
       coalesce(readings, '{}'), coalesce(restoration, 0)
  FROM look
 WHERE charge_id = ANY ($1) AND operation = 'charge'
 ORDER BY charge_id, id`

// listLooks returns the looks for each charge, in the order of their time.
func listLooks(ctx context.Context, db querier, ids []uuid.UUID) (map[uuid.UUID][]Look, error) {
	rows, err := db.Query(ctx, listLooksSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("list looks: %w", err)
	}
	defer rows.Close()
	looks := map[uuid.UUID][]Look{}
	for rows.Next() {
		var id uuid.UUID
		var l Look
		if err := rows.Scan(&id, &l.ID, &l.At, &l.Begun, &l.Complete, &l.Seen, &l.Found, &l.Error, &l.Rest,
			&l.Readings, &l.Restoration); err != nil {
			return nil, fmt.Errorf("list looks: %w", err)
		}
		looks[id] = append(looks[id], l)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list looks: %w", err)
	}
	return looks, nil
}

const insertAttemptSQL = `
INSERT INTO attempt (id, charge_id, operation, number, provider_key, stripe_account, livemode, request, stripe_sent_at)
VALUES ($1, $2, 'charge', $3, $4, $5, $6, $7, $8)`

func insertAttempt(ctx context.Context, tx pgx.Tx, a Attempt) error {
	_, err := tx.Exec(ctx, insertAttemptSQL, a.ID, a.ChargeID, a.Number, a.ProviderKey, a.Account.ID, a.Account.Livemode,
		a.Request, a.StripeSentAt)
	if err != nil {
		return fmt.Errorf("insert attempt %d of charge %s: %w", a.Number, a.ChargeID, err)
	}
	return nil
}

// An attempt ends once; one that a look has settled stays as the look left it, unless Stripe's own answer comes after all.
const endAttemptSQL = `
UPDATE attempt
   SET ended_at = clock_timestamp(), outcome = $2, code = nullif($3, ''), http_status = nullif($4, 0), request_id = nullif($5, '')
 WHERE id = $1 AND (outcome IS NULL OR $2 = 'answered')`

func endAttempt(ctx context.Context, tx pgx.Tx, id uuid.UUID, r Result) error {
	if _, err := tx.Exec(ctx, endAttemptSQL, id, r.Outcome, r.Code, r.HTTPStatus, r.RequestID); err != nil {
		return fmt.Errorf("end attempt %s: %w", id, err)
	}
	return nil
}

const closeAttemptsSQL = `
UPDATE attempt
   SET ended_at = coalesce(ended_at, clock_timestamp()), outcome = $2
 WHERE id = ANY ($1) AND (outcome IS NULL OR outcome IN ('unknown', 'stored_failure'))`

// closeAttempts writes down what a look has proved of open attempts.
func closeAttempts(ctx context.Context, tx pgx.Tx, open []Attempt, outcome Outcome) error {
	ids := make([]uuid.UUID, len(open))
	for i, a := range open {
		ids[i] = a.ID
	}
	if _, err := tx.Exec(ctx, closeAttemptsSQL, ids, outcome); err != nil {
		return fmt.Errorf("close attempts: %w", err)
	}
	return nil
}

const answerAttemptsSQL = `
UPDATE attempt
   SET ended_at = coalesce(ended_at, clock_timestamp()), outcome = 'answered'
 WHERE charge_id = $1 AND operation = 'charge' AND (outcome IS NULL OR outcome IN ('unknown', 'stored_failure'))`

// answerAttempts closes all open attempts of a charge: its payment is known.
func answerAttempts(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	if _, err := tx.Exec(ctx, answerAttemptsSQL, charge); err != nil {
		return fmt.Errorf("answer attempts of charge %s: %w", charge, err)
	}
	return nil
}

const insertLookSQL = `
INSERT INTO look (charge_id, operation, complete, seen, found, error, rest, begun_at, readings, restoration)
VALUES ($1, 'charge', $2, $3, nullif(array_to_string($4::text[], ' '), ''), nullif($5, ''), $6, $7, nullif($8::bigint[], '{}'), nullif($9::bigint, 0))`

const continueLookSQL = `
UPDATE look
   SET looked_at = clock_timestamp(), complete = $2, seen = $3, found = nullif(array_to_string($4::text[], ' '), ''),
       error = nullif($5, ''), rest = $6, begun_at = $7, readings = nullif($8::bigint[], '{}'), restoration = nullif($9::bigint, 0)
 WHERE id = $10 AND charge_id = $1 AND NOT complete`

// storeLook writes down a look, in the row of the one that it goes on with.
func storeLook(ctx context.Context, tx pgx.Tx, charge uuid.UUID, l Look) error {
	var rest *[]Window
	if len(l.Rest) > 0 {
		rest = &l.Rest
	}
	readings := l.Readings
	if readings == nil {
		readings = []int64{}
	}
	args := []any{charge, l.Complete, l.Seen, l.Found, l.Error, rest, orNull(l.Begun), readings, l.Restoration}
	sql := insertLookSQL
	if l.ID != 0 {
		sql, args = continueLookSQL, append(args, l.ID)
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("store look for charge %s: %w", charge, err)
	}
	return nil
}

// moveSQL is the compare-and-set of every change of status, and its audit event, in one statement: there is no way to
// write one without the other.
const moveSQL = `
WITH before AS (
    SELECT id, status FROM charge WHERE id = $1 AND status = ANY ($2)
), moved AS (
    UPDATE charge c
       SET status = $3::text, payment_intent = coalesce(c.payment_intent, nullif($4, '')),
           failure_code = $5, decline_code = $6, failure_message = $7, advice = $8,
           review_reason = nullif($9, ''), updated_at = clock_timestamp(),
           reference_freed = c.reference_freed OR $3 IN ('failed', 'canceled')
      FROM before b
     WHERE c.id = b.id AND c.status = b.status
    RETURNING c.id, b.status AS was
)
INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data)
SELECT id, 'charge.' || $3::text, was, $3::text, $10, $11 FROM moved`

// moveCharge makes one step along the transition table. It reports false if the charge's present status does not lead to
// change.To.
func moveCharge(ctx context.Context, tx pgx.Tx, id uuid.UUID, change Change, actor string, data map[string]any) (bool, error) {
	var code, decline, message, advice *string
	if f := change.Failure; f != nil {
		text := string(f.Advice)
		code, decline, message, advice = &f.Code, f.DeclineCode, f.Message, &text
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return false, fmt.Errorf("encode event: %w", err)
	}
	tag, err := tx.Exec(ctx, moveSQL, id, from(change.To), change.To, change.Payment, code, decline, message, advice,
		change.Reason, actor, encoded)
	if err != nil {
		return false, fmt.Errorf("move charge %s to %s: %w", id, change.To, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ignoreSQL leaves a trace of what Stripe said and the charge did not follow.
const ignoreSQL = `
INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data)
VALUES ($1, 'payment.ignored', $2, $2, $3, $4)`

func recordIgnored(ctx context.Context, tx pgx.Tx, c Charge, actor string, data map[string]any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if _, err := tx.Exec(ctx, ignoreSQL, c.ID, c.Status, actor, encoded); err != nil {
		return fmt.Errorf("record what charge %s did not follow: %w", c.ID, err)
	}
	return nil
}

// recordPayment notes the PaymentIntent of a charge whose status it does not change.
func recordPayment(ctx context.Context, tx pgx.Tx, id uuid.UUID, payment string) error {
	if _, err := tx.Exec(ctx, `UPDATE charge SET payment_intent = $2 WHERE id = $1 AND payment_intent IS NULL`, id, payment); err != nil {
		return fmt.Errorf("record payment of charge %s: %w", id, err)
	}
	return nil
}
