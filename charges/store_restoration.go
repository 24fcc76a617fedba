package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// identity is which data directory a server runs on, which branch of its history, and which database and table there. A base backup that is
// recovered begins a new timeline, and so does a replica that is promoted; a dump that is read into another cluster has that one's system identifier,
// and one that is read back into the same server makes the database or its tables anew.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES
type identity struct {
	system   int64
	timeline string // eight hex digits
	database int64
	charge   int64 // the table
}

// whereabouts is where the data was seen last, and where it is now.
type whereabouts struct {
	known, server identity      // known is zero: it was never seen
	seen          time.Time     // when it was seen last
	since         time.Duration // then
	started       time.Time     // when the server was
	restored      bool          // there is a restoration on record
}

// restartBound is how long a server may be away, and be started again, without the suspicion that its files were replaced by an older copy meanwhile,
// which leaves its identity as it was. Workers note where the data is every second.
const restartBound = 5 * time.Second

// suspect tells whether the server was started long after the data was seen last.
func (w whereabouts) suspect() bool {
	return w.known != (identity{}) && w.started.Sub(w.seen) > restartBound
}

// The name of the file that is being written begins with the timeline; pg_control_checkpoint tells it only some time after a promotion.
const whereaboutsSQL = `
SELECT coalesce(i.system_identifier, 0), coalesce(i.timeline, ''), coalesce(i.database_oid, 0), coalesce(i.charge_oid, 0), coalesce(i.seen_at, now()), coalesce(clock_timestamp() - i.seen_at, '0'),
       s.system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), d.oid::bigint, 'charge'::regclass::oid::bigint,
       pg_postmaster_start_time(), EXISTS (SELECT FROM restoration)
  FROM pg_control_system() s JOIN pg_database d ON d.datname = current_database() LEFT JOIN database_identity i ON true`

func readWhereabouts(ctx context.Context, db querier) (w whereabouts, err error) {
	err = db.QueryRow(ctx, whereaboutsSQL).Scan(&w.known.system, &w.known.timeline, &w.known.database, &w.known.charge, &w.seen, &w.since,
		&w.server.system, &w.server.timeline, &w.server.database, &w.server.charge, &w.started, &w.restored)
	if err != nil {
		return w, fmt.Errorf("read the database's identity: %w", err)
	}
	return w, nil
}

// lockIdentity returns where the data was seen last, and when, and holds the row until tx ends; zero: nowhere.
func lockIdentity(ctx context.Context, tx pgx.Tx) (known identity, seen time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT system_identifier, timeline, database_oid, charge_oid, seen_at FROM database_identity FOR UPDATE`).
		Scan(&known.system, &known.timeline, &known.database, &known.charge, &seen)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return known, seen, fmt.Errorf("lock the database's identity: %w", err)
	}
	return known, seen, nil
}

const writeIdentitySQL = `
INSERT INTO database_identity (system_identifier, timeline, database_oid, charge_oid, seen_at) VALUES ($1, $2, $3, $4, clock_timestamp())
    ON CONFLICT (one) DO UPDATE
   SET system_identifier = excluded.system_identifier, timeline = excluded.timeline, database_oid = excluded.database_oid,
       charge_oid = excluded.charge_oid, seen_at = excluded.seen_at`

func writeIdentity(ctx context.Context, tx pgx.Tx, i identity) error {
	if _, err := tx.Exec(ctx, writeIdentitySQL, i.system, i.timeline, i.database, i.charge); err != nil {
		return fmt.Errorf("write the database's identity: %w", err)
	}
	return nil
}

const listRestorationsSQL = `
SELECT id, detected_at, lost_from, coalesce(lost_from_stripe, '0001-01-01T00:00:00Z'), actor, reason, suspected,
       readings, coalesce(read_at, '0001-01-01T00:00:00Z')
  FROM restoration ORDER BY id`

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
	err = row.Scan(&r.ID, &r.DetectedAt, &r.LostFrom, &r.LostFromStripe, &r.Actor, &r.Reason, &r.Suspected, &r.Readings, &r.ReadAt)
	for _, at := range []*time.Time{&r.LostFromStripe, &r.ReadAt} {
		if at.Year() <= 1 {
			*at = time.Time{}
		}
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
INSERT INTO restoration (detected_at, lost_from, lost_from_stripe, actor, reason, from_system_identifier, from_timeline, to_system_identifier, to_timeline, suspected)
SELECT detected_at, lost_from, (SELECT stripe_sent_at + (lost_from - sent_at) FROM attempt ORDER BY id DESC LIMIT 1), $3, $4,
       nullif($5::bigint, 0), nullif($6, ''), nullif($7::bigint, 0), nullif($8, ''), $9
  FROM lost
RETURNING id, detected_at, lost_from, coalesce(lost_from_stripe, '0001-01-01T00:00:00Z'), actor, reason, suspected,
       NULL::bigint[], '0001-01-01T00:00:00Z'::timestamptz`

func insertRestoration(ctx context.Context, tx pgx.Tx, r Restoration, from, to identity) (Restoration, error) {
	rows, err := tx.Query(ctx, insertRestorationSQL, orNull(r.DetectedAt), r.LostFrom, r.Actor, r.Reason, from.system, from.timeline, to.system, to.timeline, r.Suspected)
	if err != nil {
		return r, fmt.Errorf("insert restoration: %w", err)
	}
	if r, err = pgx.CollectExactlyOneRow(rows, scanRestoration); err != nil {
		return r, fmt.Errorf("insert restoration: %w", err)
	}
	return r, nil
}
