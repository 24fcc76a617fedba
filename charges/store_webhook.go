package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Rows are inserted in the order of their ids, so that two batches with the same events never wait for each other in a circle.
const insertEventsSQL = `
INSERT INTO webhook_event (provider, event_id, type, raw, occurred_at, status, note)
SELECT provider, event_id, type, raw, occurred_at, status, nullif(note, '')
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::text[], $7::text[])
       AS new (provider, event_id, type, raw, occurred_at, status, note)
 ORDER BY provider, event_id
    ON CONFLICT ON CONSTRAINT webhook_event_once DO NOTHING
RETURNING event_id`

// insertEvents stores the events that are new, and tells which ones those are by their event ids.
func insertEvents(ctx context.Context, tx pgx.Tx, events []ProviderEvent) (fresh map[string]bool, err error) {
	n := len(events)
	providers, ids, types, raws := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	occurred, statuses, notes := make([]*time.Time, n), make([]string, n), make([]string, n)
	for i, e := range events {
		providers[i], ids[i], types[i], raws[i] = string(e.Provider), e.EventID, e.Type, e.Raw
		occurred[i], statuses[i], notes[i] = orNull(e.OccurredAt), string(e.Status), string(e.Note)
	}
	rows, err := tx.Query(ctx, insertEventsSQL, providers, ids, types, raws, occurred, statuses, notes)
	if err != nil {
		return nil, fmt.Errorf("insert webhook events: %w", err)
	}
	inserted, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("insert webhook events: %w", err)
	}
	fresh = make(map[string]bool, len(inserted))
	for _, id := range inserted {
		fresh[id] = true
	}
	return fresh, nil
}

const lockWaitingSQL = `
SELECT id, event_id, received_at, tries
  FROM webhook_event
 WHERE provider = $1 AND event_id = ANY ($2) AND status = 'pending'
 ORDER BY event_id
   FOR UPDATE`

// lockWaiting locks those of the events, all of one provider, that wait to be applied, by their event ids.
func lockWaiting(ctx context.Context, tx pgx.Tx, events []ProviderEvent) (map[string]ProviderEvent, error) {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.EventID
	}
	rows, err := tx.Query(ctx, lockWaitingSQL, events[0].Provider, ids)
	if err != nil {
		return nil, fmt.Errorf("lock webhook events: %w", err)
	}
	waiting := map[string]ProviderEvent{}
	var e ProviderEvent
	_, err = pgx.ForEachRow(rows, []any{&e.ID, &e.EventID, &e.ReceivedAt, &e.Tries}, func() error {
		waiting[e.EventID] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock webhook events: %w", err)
	}
	return waiting, nil
}

// A pending event is due again after 1, 2, 4, ... seconds, and from then on each ten minutes.
const settleEventSQL = `
UPDATE webhook_event
   SET status = $2, note = nullif($3, ''), charge_id = $4, tries = tries + 1, updated_at = clock_timestamp(),
       due_at = clock_timestamp() + least(600, power(2, least(tries, 10))) * interval '1 second'
 WHERE id = $1`

func settleEvent(ctx context.Context, tx pgx.Tx, id int64, v verdict) error {
	var charge *uuid.UUID
	if v.charge != uuid.Nil {
		charge = &v.charge
	}
	if _, err := tx.Exec(ctx, settleEventSQL, id, v.status, v.note, charge); err != nil {
		return fmt.Errorf("settle webhook event %d: %w", id, err)
	}
	return nil
}

// Each column is the charge that one of a payment's names leads to. A payment that is on record belongs to its charge for good.
const findByPaymentSQL = `
SELECT coalesce((SELECT charge_id FROM payment WHERE id = $1), (SELECT id FROM charge WHERE payment_intent = $1)),
       (SELECT id FROM charge WHERE idempotency_key = $2),
       (SELECT id FROM charge WHERE id = $3)`

func findByPayment(ctx context.Context, tx pgx.Tx, payment string, key, id uuid.UUID) (byPayment, byKey, byID uuid.UUID, err error) {
	var found [3]uuid.NullUUID
	err = tx.QueryRow(ctx, findByPaymentSQL, payment, key, id).Scan(&found[0], &found[1], &found[2])
	return found[0].UUID, found[1].UUID, found[2].UUID, err
}

func dueEvents(ctx context.Context, db querier, limit int) ([]int64, error) {
	rows, err := db.Query(ctx, `SELECT id FROM webhook_event WHERE status = 'pending' AND due_at <= now() ORDER BY due_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list due webhook events: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("list due webhook events: %w", err)
	}
	return ids, nil
}

const selectEventLine = `
SELECT id, provider, event_id, type, coalesce(occurred_at, '0001-01-01T00:00:00Z'), status, coalesce(note, ''),
       coalesce(charge_id, '00000000-0000-0000-0000-000000000000'), tries, received_at, updated_at`

const selectEvent = selectEventLine + `, raw FROM webhook_event`

func scanEvent(row pgx.Row) (e ProviderEvent, err error) {
	err = row.Scan(&e.ID, &e.Provider, &e.EventID, &e.Type, &e.OccurredAt, &e.Status, &e.Note, &e.ChargeID, &e.Tries,
		&e.ReceivedAt, &e.UpdatedAt, &e.Raw)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return e, err
}

// lockDue locks an event that is due, unless somebody else has it: then it is [ErrNotFound].
func lockDue(ctx context.Context, tx pgx.Tx, id int64) (ProviderEvent, error) {
	e, err := scanEvent(tx.QueryRow(ctx, selectEvent+`
 WHERE id = $1 AND status = 'pending' AND due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED`, id))
	if err != nil {
		return e, fmt.Errorf("lock webhook event %d: %w", id, err)
	}
	return e, nil
}
