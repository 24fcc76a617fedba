package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// identity is which data directory a server runs on, and which branch of its history. A restored base backup begins a new timeline, and so does
// a replica that is promoted; a dump that is read into another cluster has that one's system identifier.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES
type identity struct {
	system   int64
	timeline string // eight hex digits
}

// The name of the file that is being written begins with the timeline; pg_control_checkpoint tells it only some time after a promotion.
const serverIdentitySQL = `
SELECT coalesce(i.system_identifier, 0), coalesce(i.timeline, ''), s.system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
       EXISTS (SELECT FROM restoration)
  FROM pg_control_system() s LEFT JOIN database_identity i ON true`

// readIdentity returns on which server the data was seen last (zero: on none), on which it is now, and whether it was ever restored.
func readIdentity(ctx context.Context, db querier) (known, server identity, restored bool, err error) {
	err = db.QueryRow(ctx, serverIdentitySQL).Scan(&known.system, &known.timeline, &server.system, &server.timeline, &restored)
	if err != nil {
		return known, server, restored, fmt.Errorf("read the database's identity: %w", err)
	}
	return known, server, restored, nil
}

// lockIdentity returns on which server the data was seen last, and when, and holds the row until tx ends; zero: on none.
func lockIdentity(ctx context.Context, tx pgx.Tx) (known identity, seen time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT system_identifier, timeline, seen_at FROM database_identity FOR UPDATE`).Scan(&known.system, &known.timeline, &seen)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return known, seen, fmt.Errorf("lock the database's identity: %w", err)
	}
	return known, seen, nil
}

const writeIdentitySQL = `
INSERT INTO database_identity (system_identifier, timeline, seen_at) VALUES ($1, $2, clock_timestamp())
    ON CONFLICT (one) DO UPDATE
   SET system_identifier = excluded.system_identifier, timeline = excluded.timeline, seen_at = excluded.seen_at`

func writeIdentity(ctx context.Context, tx pgx.Tx, i identity) error {
	if _, err := tx.Exec(ctx, writeIdentitySQL, i.system, i.timeline); err != nil {
		return fmt.Errorf("write the database's identity: %w", err)
	}
	return nil
}

const listRestorationsSQL = `
SELECT id, detected_at, lost_from, coalesce(lost_from_stripe, '0001-01-01T00:00:00Z'), actor, reason FROM restoration ORDER BY id`

// listRestorations returns all that there ever were, which is few.
func listRestorations(ctx context.Context, db querier) ([]Restoration, error) {
	rows, err := db.Query(ctx, listRestorationsSQL)
	if err != nil {
		return nil, fmt.Errorf("list restorations: %w", err)
	}
	restorations, err := pgx.CollectRows(rows, scanRestoration)
	if err != nil {
		return nil, fmt.Errorf("list restorations: %w", err)
	}
	return restorations, nil
}

func scanRestoration(row pgx.CollectableRow) (r Restoration, err error) {
	err = row.Scan(&r.ID, &r.DetectedAt, &r.LostFrom, &r.LostFromStripe, &r.Actor, &r.Reason)
	if r.LostFromStripe.Year() <= 1 {
		r.LostFromStripe = time.Time{}
	}
	return r, err
}

// The newest attempt that is left tells what Stripe's clock showed when this database's showed some time. Ids are of version 7, and so in the
// order of their time. A server whose clock is behind that of the one before cannot have lost the future.
const insertRestorationSQL = `
WITH found AS (
    SELECT coalesce($1, clock_timestamp()) AS detected_at
), lost AS (
    SELECT detected_at, least($2, detected_at) AS lost_from FROM found
)
INSERT INTO restoration (detected_at, lost_from, lost_from_stripe, actor, reason, from_system_identifier, from_timeline, to_system_identifier, to_timeline)
SELECT detected_at, lost_from, (SELECT stripe_sent_at + (lost_from - sent_at) FROM attempt ORDER BY id DESC LIMIT 1), $3, $4,
       nullif($5::bigint, 0), nullif($6, ''), nullif($7::bigint, 0), nullif($8, '')
  FROM lost
RETURNING id, detected_at, lost_from, coalesce(lost_from_stripe, '0001-01-01T00:00:00Z'), actor, reason`

func insertRestoration(ctx context.Context, tx pgx.Tx, r Restoration, from, to identity) (Restoration, error) {
	rows, err := tx.Query(ctx, insertRestorationSQL, orNull(r.DetectedAt), r.LostFrom, r.Actor, r.Reason, from.system, from.timeline, to.system, to.timeline)
	if err != nil {
		return r, fmt.Errorf("insert restoration: %w", err)
	}
	if r, err = pgx.CollectExactlyOneRow(rows, scanRestoration); err != nil {
		return r, fmt.Errorf("insert restoration: %w", err)
	}
	return r, nil
}
