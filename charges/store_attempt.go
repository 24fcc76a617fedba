package charges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Rows are locked in the order of their ids, so that two transactions that lock many never wait for each other in a circle.
const lockChargeSQL = `
SELECT asked.place, clock_timestamp()
  FROM unnest($1::integer[], $2::uuid[]) AS asked (place, id)
  JOIN charge c ON c.id = asked.id
 ORDER BY c.id
   FOR NO KEY UPDATE OF c`

// lockCharge holds a charge's row until tx ends, and reads PostgreSQL's clock.
func lockCharge(ctx context.Context, tx pgx.Tx, id uuid.UUID) (c Charge, now time.Time, err error) {
	err = outbox.ReadRow(ctx, tx, lockChargeSQL, id).Scan(&now)
	if errors.Is(err, pgx.ErrNoRows) {
		return Charge{}, now, fmt.Errorf("lock charge %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Charge{}, now, fmt.Errorf("lock charge %s: %w", id, err)
	}
	// A second statement, because the first one's snapshot may be older than the lock.
	c, err = readCharge(ctx, tx, id)
	return c, now, err
}

const attemptColumns = `id, charge_id, number, provider_key, stripe_account, livemode, request, sent_at, stripe_sent_at,
       coalesce(ended_at, '0001-01-01T00:00:00Z'), coalesce(outcome, ''), coalesce(code, ''),
       coalesce(http_status, 0), coalesce(request_id, '')`

func (a *Attempt) columns() []any {
	return []any{&a.ID, &a.ChargeID, &a.Number, &a.ProviderKey, &a.Account.ID, &a.Account.Livemode,
		&a.Request, &a.SentAt, &a.StripeSentAt, &a.EndedAt, &a.Outcome, &a.Code, &a.HTTPStatus, &a.RequestID}
}

// Each charge's attempts are looked up by themselves, lest a plan that was made while there were few reads them all when there are many.
const readAttemptsSQL = `
SELECT asked.place, ` + attemptColumns + `
  FROM unnest($1::integer[], $2::uuid[]) AS asked (place, charge)
 CROSS JOIN LATERAL (SELECT * FROM attempt WHERE charge_id = asked.charge AND operation = 'charge' ORDER BY number OFFSET 0) a
 ORDER BY asked.place, number`

// readAttempts is listAttempts of one charge, in a transaction that may be shared.
func readAttempts(ctx context.Context, tx pgx.Tx, charge uuid.UUID) (attempts []Attempt, err error) {
	var a Attempt
	err = outbox.ReadRows(ctx, tx, readAttemptsSQL, []any{charge}, a.columns(), func() error {
		attempts = append(attempts, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts of charge %s: %w", charge, err)
	}
	return attempts, nil
}

const listAttemptsSQL = `
SELECT ` + attemptColumns + `
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
	_, err = pgx.ForEachRow(rows, a.columns(), func() error {
		attempts[a.ChargeID] = append(attempts[a.ChargeID], a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	return attempts, nil
}

const lookColumns = `charge_id, id, looked_at, coalesce(begun_at, looked_at), complete, seen, coalesce(string_to_array(found, ' '), '{}'), coalesce(error, ''), rest,
       coalesce(readings, '{}'), coalesce(restoration, 0)`

// lookRow is one row of them.
type lookRow struct {
	charge uuid.UUID
	Look
}

func (l *lookRow) columns() []any {
	return []any{&l.charge, &l.ID, &l.At, &l.Look.Begun, &l.Complete, &l.Seen, &l.Found, &l.Error, &l.Rest, &l.Readings, &l.Restoration}
}

const readLooksSQL = `
SELECT asked.place, ` + lookColumns + `
  FROM unnest($1::integer[], $2::uuid[]) AS asked (place, charge)
 CROSS JOIN LATERAL (SELECT * FROM look WHERE charge_id = asked.charge AND operation = 'charge' ORDER BY id OFFSET 0) l
 ORDER BY asked.place, id`

// readLooks is listLooks of one charge, in a transaction that may be shared.
func readLooks(ctx context.Context, tx pgx.Tx, charge uuid.UUID) (looks []Look, err error) {
	var l lookRow
	err = outbox.ReadRows(ctx, tx, readLooksSQL, []any{charge}, l.columns(), func() error {
		looks, l = append(looks, l.Look), lookRow{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read looks for charge %s: %w", charge, err)
	}
	return looks, nil
}

const listLooksSQL = `
SELECT ` + lookColumns + `
  FROM look
 WHERE charge_id = ANY ($1) AND operation = 'charge'
 ORDER BY charge_id, id`

// listLooks returns the looks for each charge, in the order of their time.
func listLooks(ctx context.Context, db querier, ids []uuid.UUID) (map[uuid.UUID][]Look, error) {
	rows, err := db.Query(ctx, listLooksSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("list looks: %w", err)
	}
	looks := map[uuid.UUID][]Look{}
	var l lookRow
	_, err = pgx.ForEachRow(rows, l.columns(), func() error {
		looks[l.charge], l = append(looks[l.charge], l.Look), lookRow{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list looks: %w", err)
	}
	return looks, nil
}

const insertAttemptSQL = `
WITH made AS (
    INSERT INTO attempt (id, charge_id, operation, number, provider_key, stripe_account, livemode, request, stripe_sent_at)
    SELECT id, charge_id, 'charge', number, provider_key, stripe_account, livemode, request, stripe_sent_at
      FROM unnest($2::uuid[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::boolean[], $8::text[], $9::timestamptz[])
           AS new (id, charge_id, number, provider_key, stripe_account, livemode, request, stripe_sent_at)
    RETURNING id
)
SELECT place FROM made JOIN unnest($1::integer[], $2::uuid[]) AS new (place, id) USING (id)`

func insertAttempt(ctx context.Context, tx pgx.Tx, a Attempt) error {
	_, err := outbox.WriteRow(ctx, tx, insertAttemptSQL, a.ID, a.ChargeID, a.Number, a.ProviderKey, a.Account.ID, a.Account.Livemode,
		a.Request, a.StripeSentAt)
	if err != nil {
		return fmt.Errorf("insert attempt %d of charge %s: %w", a.Number, a.ChargeID, err)
	}
	return nil
}

// An attempt ends once; one that a look has settled stays as the look left it, unless Stripe's own answer comes after all.
const endAttemptSQL = `
UPDATE attempt
   SET ended_at = clock_timestamp(), outcome = ends.outcome, code = nullif(ends.code, ''), http_status = nullif(ends.http_status, 0),
       request_id = nullif(ends.request_id, '')
  FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::text[]) AS ends (place, id, outcome, code, http_status, request_id)
 WHERE attempt.id = ends.id AND (attempt.outcome IS NULL OR ends.outcome = 'answered')
RETURNING ends.place`

func endAttempt(ctx context.Context, tx pgx.Tx, id uuid.UUID, r Result) error {
	if _, err := outbox.WriteRow(ctx, tx, endAttemptSQL, id, r.Outcome, r.Code, r.HTTPStatus, r.RequestID); err != nil {
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
  FROM unnest($1::integer[], $2::uuid[]) AS answered (place, charge_id)
 WHERE attempt.charge_id = answered.charge_id AND operation = 'charge' AND (outcome IS NULL OR outcome IN ('unknown', 'stored_failure'))
RETURNING answered.place`

// answerAttempts closes all open attempts of a charge: its payment is known.
func answerAttempts(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	if _, err := outbox.WriteRow(ctx, tx, answerAttemptsSQL, charge); err != nil {
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

// moveSQL is the compare-and-set of every change of status, with what becomes of the charge's items, and its audit event, in one statement: there
// is no way to write one without the others.
const moveSQL = `
WITH change AS (
    SELECT n.*, c.status AS was
      FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::jsonb[], $13::text[])
           AS n (place, id, froms, status, payment_intent, failure_code, decline_code, failure_message, advice, review_reason, actor, data, stock)
      JOIN charge c ON c.id = n.id AND c.status = ANY (string_to_array(n.froms, ' '))
), moved AS (
    UPDATE charge c
       SET status = n.status, payment_intent = coalesce(c.payment_intent, nullif(n.payment_intent, '')),
           failure_code = n.failure_code, decline_code = n.decline_code, failure_message = n.failure_message, advice = n.advice,
           review_reason = nullif(n.review_reason, ''), updated_at = clock_timestamp(),
           reference_freed = c.reference_freed OR n.status IN ('failed', 'canceled'), stock = coalesce(nullif(n.stock, ''), c.stock)
      FROM change n
     WHERE c.id = n.id AND c.status = n.was
    RETURNING n.place, c.id, n.was, n.status, n.actor, n.data, nullif(n.stock, '') AS stock
), items AS (
    UPDATE charge_item i SET stock = moved.stock FROM moved WHERE i.charge_id = moved.id AND i.stock <> moved.stock
), told AS (
    INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data)
    SELECT id, 'charge.' || status, was, status, actor, data FROM moved
)
SELECT place FROM moved`

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
	moved, err := outbox.WriteRow(ctx, tx, moveSQL, id, strings.Join(from(change.To), " "), change.To, change.Payment, code, decline, message, advice,
		change.Reason, actor, encoded, change.stock)
	if err != nil {
		return false, fmt.Errorf("move charge %s to %s: %w", id, change.To, err)
	}
	return moved, nil
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
