package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// fillAtOnce bounds a transaction of the filling.
const fillAtOnce = 500_000

// What is new of each charge that is put there. They lie 0.864 s apart, 100,000 a day, and end now, or where those that are there begin;
// the oldest comes first, as it did. Our ids are of their time, and so are every other caller's keys; the rest of them are random. A payment's
// id is the provider's: random letters, of which the first five decide where in the index it is.
var newRows = `
CREATE TEMP TABLE new AS
SELECT ` + version7("at") + ` AS id, ` + version7("at") + ` AS attempt, CASE n % 2 WHEN 0 THEN gen_random_uuid() ELSE ` + version7("at") + ` END AS key,
       'pi_' || substr(letters, 1 + (r & 31), 1) || substr(letters, 1 + (r >> 5 & 31), 1) || substr(letters, 1 + (r >> 10 & 31), 1)
             || substr(letters, 1 + (r >> 15 & 31), 1) || substr(letters, 1 + (r >> 20 & 31), 1)
             || translate(substr(replace(gen_random_uuid()::text, '-', ''), 1, 21), '0123456789abcdef', 'ABCDEFGHIJKLMNOP') AS payment, at
  FROM (SELECT n, now() - n * interval '864 milliseconds' AS at, floor(random() * (1 << 25))::integer AS r, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' AS letters
          FROM generate_series($1::bigint, $2::bigint, -1) AS n) AS each`

// filled are the tables that a settled charge has rows in.
var filled = []string{"charge", "idempotency_key", "charge_event", "attempt", "payment", "receipt"}

// leaveIndexes makes PostgreSQL write no entries into the tables' indexes until they are made anew.
const leaveIndexes = `
UPDATE pg_index SET indisready = false, indisvalid = false
 WHERE indrelid IN (SELECT t::regclass FROM unnest($1::text[]) AS tables (t))`

// keysFor are the charges whose answer is still stored, by their age.
const keysFor = "new.at > now() - interval '23 hours'"

// fill puts n charges there that look as those that this release has settled: every table has their rows, with values of the same sizes.
// Keys are stored with those of the last day.
func (g *growing) fill(ctx context.Context, n int64) error {
	inserts, err := g.settledTemplates(ctx)
	if err != nil {
		return err
	}
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, statement := range []string{
		`SET session_replication_role = replica`, // nothing refers to what is not there, so that it need not be checked
		`SET maintenance_work_mem = '512MB'`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	// Indexes that are made afterwards take a fraction of the time.
	if _, err := conn.Exec(ctx, leaveIndexes, filled); err != nil {
		return err
	}
	for oldest := g.existing + n; oldest > g.existing; oldest -= fillAtOnce {
		newest := max(oldest-fillAtOnce, g.existing) + 1
		// A table cannot be made with parameters.
		if _, err := conn.Exec(ctx, newRows, pgx.QueryExecModeSimpleProtocol, oldest, newest); err != nil {
			return err
		}
		for _, t := range inserts {
			source := "SELECT %s FROM new"
			if t.table == "idempotency_key" {
				source += " WHERE " + keysFor
			}
			if _, err := conn.Exec(ctx, t.insert(source)); err != nil {
				return fmt.Errorf("%s: %w", t.table, err)
			}
		}
		if _, err := conn.Exec(ctx, `DROP TABLE new`); err != nil {
			return err
		}
	}
	for _, table := range filled {
		if _, err := conn.Exec(ctx, `REINDEX TABLE `+table); err != nil {
			return err
		}
	}
	_, vacuum := conn.Exec(ctx, `VACUUM (ANALYZE)`)
	_, checkpoint := conn.Exec(ctx, `CHECKPOINT`)
	_, reset := conn.Exec(ctx, `RESET ALL`)
	return errors.Join(vacuum, checkpoint, reset)
}

// settledTemplates are the rows of one charge that was paid and whose receipt was mailed.
func (g *growing) settledTemplates(ctx context.Context) (inserts []template, err error) {
	const one = `SELECT c.id::text, c.idempotency_key::text, a.id::text, c.payment_intent, c.created_at
  FROM charge c JOIN attempt a ON a.charge_id = c.id JOIN idempotency_key k ON k.charge_id = c.id ORDER BY c.id DESC LIMIT 1`
	var id, key, attempt, payment string
	var at time.Time
	if err := g.pool.QueryRow(ctx, one).Scan(&id, &key, &attempt, &payment, &at); err != nil {
		return nil, err
	}
	s := substitutes{texts: map[string]string{id: "new.id", key: "new.key", attempt: "new.attempt", payment: "new.payment"}, from: at, now: "new.at"}
	for _, table := range filled {
		column := "charge_id"
		if table == "charge" {
			column = "id"
		}
		rows, err := g.templates(ctx, table, fmt.Sprintf("%s = '%s'", column, id), s)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("a settled charge has no %s", table)
		}
		inserts = append(inserts, rows...)
	}
	return inserts, nil
}
