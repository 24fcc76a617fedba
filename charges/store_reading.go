package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A reading that began in the future was begun before the clock was set back, and is worth nothing; neither is one that is about to be
// removed, payment by payment.
const listReadingsSQL = `
SELECT id, stripe_account, livemode, from_at, to_at, begun_at, stripe_begun_at, coalesce(after, ''), seen, complete,
       coalesce(held_until > clock_timestamp(), false)
  FROM reading
 WHERE stripe_account = $1 AND livemode = $2 AND from_at < $4 AND to_at > $3 AND begun_at <= clock_timestamp()
   AND keep_until > clock_timestamp() + interval '1 hour' AND (complete OR begun_at > clock_timestamp() - $5::interval)
 ORDER BY begun_at DESC
 LIMIT 1000`

// listReadings returns the readings at an account that touch any of the windows, those aside that are too old to be gone on with.
func listReadings(ctx context.Context, db querier, here Account, windows []Window) ([]Reading, error) {
	from, to := windows[0].From, windows[0].To
	for _, w := range windows {
		from, to = earlier(from, w.From), later(to, w.To)
	}
	// A window that follows from the clocks at a reading's beginning may lie a little off.
	rows, err := db.Query(ctx, listReadingsSQL, here.ID, here.Livemode, from.Add(-grain), to.Add(grain), oldestReading)
	if err != nil {
		return nil, fmt.Errorf("list readings: %w", err)
	}
	readings, err := pgx.CollectRows(rows, scanReading)
	if err != nil {
		return nil, fmt.Errorf("list readings: %w", err)
	}
	return readings, nil
}

func scanReading(row pgx.CollectableRow) (r Reading, err error) {
	r.Begun.Fresh = true // no reading is begun otherwise
	return r, row.Scan(&r.ID, &r.Account.ID, &r.Account.Livemode, &r.From, &r.To, &r.Begun.Database, &r.Begun.Stripe, &r.After, &r.Seen,
		&r.Complete, &r.Held)
}

// findInReadings returns the payments in the readings that name the key, each once.
func findInReadings(ctx context.Context, db querier, readings []int64, key uuid.UUID) ([]string, error) {
	rows, err := db.Query(ctx, `SELECT DISTINCT payment FROM reading_payment WHERE key = $2 AND reading_id = ANY ($1) ORDER BY payment`, readings, key)
	if err != nil {
		return nil, fmt.Errorf("find payments in readings: %w", err)
	}
	payments, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find payments in readings: %w", err)
	}
	return payments, nil
}

// lockReadings lets one worker at a time decide who reads what at an account. It is false if another one is just deciding.
func lockReadings(ctx context.Context, tx pgx.Tx, here Account) (locked bool, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))`,
		fmt.Sprintf("oncepay.reading:%s:%t", here.ID, here.Livemode)).Scan(&locked)
	if err != nil {
		return false, fmt.Errorf("lock readings: %w", err)
	}
	return locked, nil
}

const insertReadingSQL = `
INSERT INTO reading (stripe_account, livemode, from_at, to_at, begun_at, stripe_begun_at, holder, held_until, keep_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::interval, clock_timestamp() + $9::interval)
RETURNING id, stripe_account, livemode, from_at, to_at, begun_at, stripe_begun_at, '', seen, complete, false`

func insertReading(ctx context.Context, tx pgx.Tx, here Account, w Window, begun Clocks, holder uuid.UUID, keep time.Duration) (Reading, error) {
	rows, err := tx.Query(ctx, insertReadingSQL, here.ID, here.Livemode, w.From, w.To, begun.Database, begun.Stripe, holder, lease, keep)
	if err != nil {
		return Reading{}, fmt.Errorf("insert reading: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReading)
	if err != nil {
		return Reading{}, fmt.Errorf("insert reading: %w", err)
	}
	return r, nil
}

const takeReadingSQL = `
UPDATE reading
   SET holder = $2, held_until = clock_timestamp() + $3::interval
 WHERE id = $1 AND NOT complete AND (held_until IS NULL OR held_until <= clock_timestamp())
RETURNING id, stripe_account, livemode, from_at, to_at, begun_at, stripe_begun_at, coalesce(after, ''), seen, complete, false`

// takeReading makes a reading that nobody is on the holder's; false: somebody is.
func takeReading(ctx context.Context, tx pgx.Tx, id int64, holder uuid.UUID) (Reading, bool, error) {
	rows, err := tx.Query(ctx, takeReadingSQL, id, holder, lease)
	if err != nil {
		return Reading{}, false, fmt.Errorf("take reading %d: %w", id, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReading)
	if errors.Is(err, pgx.ErrNoRows) {
		return Reading{}, false, nil
	}
	if err != nil {
		return Reading{}, false, fmt.Errorf("take reading %d: %w", id, err)
	}
	return r, true, nil
}

const saveReadingSQL = `
UPDATE reading
   SET after = nullif($3, ''), seen = $4, complete = $5, error = nullif($6, ''), updated_at = clock_timestamp(),
       holder = CASE WHEN $7 THEN NULL ELSE holder END,
       held_until = CASE WHEN $7 THEN NULL ELSE clock_timestamp() + $8::interval END
 WHERE id = $1 AND holder = $2 AND NOT complete`

// saveReading writes down how far its holder has come. It is false if the reading is not the holder's any more.
func saveReading(ctx context.Context, tx pgx.Tx, r Reading, holder uuid.UUID, why string, leave bool) (bool, error) {
	tag, err := tx.Exec(ctx, saveReadingSQL, r.ID, holder, r.After, r.Seen, r.Complete, why, leave, lease)
	if err != nil {
		return false, fmt.Errorf("save reading %d: %w", r.ID, err)
	}
	return tag.RowsAffected() == 1, nil
}

const insertReadPaymentsSQL = `
INSERT INTO reading_payment (reading_id, payment, key, status, amount, currency)
SELECT $1, payment, key, status, amount, currency
  FROM unnest($2::text[], $3::uuid[], $4::text[], $5::bigint[], $6::text[]) AS new (payment, key, status, amount, currency)
    ON CONFLICT DO NOTHING`

// insertReadPayments stores those of the payments that name a key such as ours.
func insertReadPayments(ctx context.Context, tx pgx.Tx, reading int64, page []News) error {
	var payments, statuses, currencies []string
	var amounts []int64
	var keys []uuid.UUID
	for _, n := range page {
		if key, err := uuid.Parse(n.Key); err == nil {
			payments, keys = append(payments, n.ID), append(keys, key)
			statuses, amounts, currencies = append(statuses, n.Status), append(amounts, n.Amount), append(currencies, n.Currency)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, insertReadPaymentsSQL, reading, payments, keys, statuses, amounts, currencies); err != nil {
		return fmt.Errorf("insert payments of reading %d: %w", reading, err)
	}
	return nil
}

// Ids are of version 7, and so in the order of their time: the first of them that waits is the oldest, to a difference between clocks.
const oldestWaitingSQL = `
SELECT created_at
  FROM charge
 WHERE status NOT IN ('succeeded', 'failed', 'canceled') AND status IN ('pending', 'processing')
   AND payment_intent IS NULL AND created_at > $1 AND id > $2
 ORDER BY id
 LIMIT 1`

// oldestWaiting is when the oldest charge was accepted, after a time, that waits and has no payment; nil: none was.
func oldestWaiting(ctx context.Context, db querier, after time.Time) (*time.Time, error) {
	var oldest time.Time
	err := db.QueryRow(ctx, oldestWaitingSQL, after, firstID(after.Add(-time.Hour))).Scan(&oldest)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the oldest charge that waits: %w", err)
	}
	return &oldest, nil
}

// firstID is below the id of every charge that was made from then on.
func firstID(t time.Time) (id uuid.UUID) {
	ms := uint64(max(0, t.UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
