package migrations_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/migrations/pgtest"
)

// before is the schema as it was before one of our migrations.
func before(t *testing.T, name string) fs.FS {
	t.Helper()
	all, err := fs.Glob(migrations.Embedded, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	older := fstest.MapFS{}
	for _, file := range all {
		if file < name {
			text, err := fs.ReadFile(migrations.Embedded, file)
			if err != nil {
				t.Fatal(err)
			}
			older[file] = &fstest.MapFile{Data: text}
		}
	}
	return older
}

// What was under way in the previous release goes on: readings that only a job knew of, and receipts of which nobody knew. A job with odd
// arguments, and a receipt that would have to be read, keep nobody from migrating.
func TestReviewMigrationTakesOver(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	upFrom(t, url, before(t, "0011_review.sql"))
	conn := connect(t, url)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO charge (id, caller, idempotency_key, fingerprint, fingerprint_version, request, amount, currency, status)
		SELECT ('00000000-0000-7000-8000-00000000000' || n)::uuid, 'shop', gen_random_uuid(), decode(repeat('00', 32), 'hex'), 1, '{}', 1099, 'usd', 'pending'
		  FROM generate_series(1, 3) n`)
	exec(`INSERT INTO receipt (charge_id, recipient, status) SELECT id, 'buyer@example.com', CASE WHEN id::text LIKE '%1' THEN 'unknown' ELSE 'sent' END FROM charge`)
	exec(`INSERT INTO river_job (kind, args, max_attempts, state, finalized_at)
		SELECT kind, args::jsonb, 3, state::river_job_state, CASE state WHEN 'completed' THEN now() END FROM (VALUES
		('refunds_read', '{"charge_id": "00000000-0000-7000-8000-000000000001"}', 'available'),
		('refunds_read', '{"charge_id": "00000000-0000-7000-8000-000000000001"}', 'retryable'),
		('refunds_read', '{"charge_id": "00000000-0000-7000-8000-000000000002"}', 'completed'),
		('charge_send', '{"charge_id": "00000000-0000-7000-8000-000000000003"}', 'available'),
		('refunds_read', '{"charge_id": "no id"}', 'available'), ('refunds_read', '{}', 'available')) job (kind, args, state)`)

	upFrom(t, url, migrations.Embedded)
	for sql, want := range map[string]string{
		`SELECT string_agg(right(charge_id::text, 1), ' ') FROM refund_reading`:                                                           "1",
		`SELECT string_agg(doubts::text, ' ' ORDER BY charge_id) FROM receipt`:                                                            "1 0 0",
		`SELECT string_agg(conname, ' ') FROM pg_constraint WHERE conrelid = 'receipt'::regclass AND convalidated AND conname ~ 'doubts'`: "",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), `SELECT coalesce((`+sql+`), '')`).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", sql, got, err, want)
		}
	}
	if _, err := conn.Exec(t.Context(), `UPDATE receipt SET doubts = -1`); err == nil {
		t.Error("a receipt was doubted less than never")
	}
}
