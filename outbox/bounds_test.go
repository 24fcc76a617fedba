package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// open makes a pool as the processes have it.
func open(t *testing.T, url string, conns int32, pooler outbox.Pooler) *pgxpool.Pool {
	t.Helper()
	pool, err := outbox.Open(context.Background(), url, "test", conns, pooler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// bothWays runs a test on a direct pool, and on one through PgBouncer, which has six sessions.
func bothWays(t *testing.T, conns int32, test func(t *testing.T, pool *pgxpool.Pool, direct string)) {
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, open(t, url, conns, outbox.Direct), url)
	})
	t.Run("PgBouncer", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, open(t, pgtest.PgBouncer(t, url, "default_pool_size = 6").URL, conns, outbox.TransactionPooler), url)
	})
}

func wantState(t *testing.T, what string, err error, code string) {
	t.Helper()
	if pgErr := (*pgconn.PgError)(nil); !errors.As(err, &pgErr) || pgErr.Code != code {
		t.Errorf("%s: %v, want SQLSTATE %s", what, err, code)
	}
}

func TestBoundsHoldBothWays(t *testing.T) {
	t.Parallel()
	bothWays(t, 10, func(t *testing.T, pool *pgxpool.Pool, direct string) {
		const show = `SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'))`
		var got string
		if err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), show).Scan(&got) }); err != nil {
			t.Fatal(err)
		}
		if got != "15s 5s 15s" {
			t.Errorf("in a transaction: %s", got)
		}
		if err := outbox.NewReads(pool).QueryRow(t.Context(), `SELECT current_setting('statement_timeout')`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != "15s" {
			t.Errorf("outside of one: %s", got)
		}

		t.Run("statement", func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SELECT pg_sleep(120)`)
				return err
			})
			wantState(t, "a long statement", err, "57014")
			if took := time.Since(began); took > 45*time.Second {
				t.Errorf("ended after %s", took)
			}
		})
		t.Run("read", func(t *testing.T) {
			t.Parallel()
			_, err := outbox.NewReads(pool).Query(t.Context(), `SELECT pg_sleep(120)`)
			wantState(t, "a long read", err, "57014")
		})
		t.Run("lock and idleness", func(t *testing.T) {
			t.Parallel()
			locked, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				first := true
				ended <- outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
					if !first {
						return nil // run again, as its connection was lost
					}
					first = false
					_, err := tx.Exec(t.Context(), `LOCK TABLE charge`)
					close(locked)
					if err != nil {
						return err
					}
					// Idle, until PostgreSQL has had enough of it.
					idle, cancel := context.WithTimeout(t.Context(), 45*time.Second)
					defer cancel()
					_, err = tx.Conn().WaitForNotification(idle)
					return err
				})
			}()
			<-locked
			err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `LOCK TABLE charge`)
				return err
			})
			wantState(t, "a long wait for a lock", err, "55P03")
			if err := <-ended; err != nil {
				t.Errorf("the idle transaction, run again: %v", err)
			}
		})
	})
}

// What is set for a transaction stays out of the sessions that PgBouncer gives to others.
func TestNothingIsLeftBehindPgBouncer(t *testing.T) {
	t.Parallel()
	bouncer := pgtest.PgBouncer(t, pgtest.URL(t), "default_pool_size = 1")
	pool := open(t, bouncer.URL, 4, outbox.TransactionPooler)
	var n int
	if err := outbox.NewReads(pool).QueryRow(t.Context(), `SELECT count(*) FROM charge WHERE caller = $1`, "shop").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT count(*) FROM charge WHERE caller = $1`, "shop").Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	// A direct pool meets the pooler, and leaves as it came.
	err := outbox.InTx(t.Context(), open(t, bouncer.URL, 1, outbox.Direct), "test", func(pgx.Tx) error { return nil })
	if !errors.Is(err, outbox.ErrPooler) || !outbox.Unavailable(err) {
		t.Errorf("a pooler that was not named: %v", err)
	}
	other, err := pgx.Connect(t.Context(), bouncer.URL+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	var left string
	if err := other.QueryRow(t.Context(), `SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
		current_setting('idle_in_transaction_session_timeout'), (SELECT count(*) FROM pg_prepared_statements WHERE name <> ''))`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != "0 0 0 0" {
		t.Errorf("left in the session: %s", left)
	}
}

func TestReadsEndTheirConnectionsUse(t *testing.T) {
	t.Parallel()
	bothWays(t, 1, func(t *testing.T, pool *pgxpool.Pool, _ string) {
		reads := outbox.NewReads(pool)
		for range 3 { // on the one connection
			var n int
			if err := reads.QueryRow(t.Context(), `SELECT 1 WHERE $1`, false).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
				t.Errorf("no row: %v", err)
			}
			if err := reads.QueryRow(t.Context(), `SELECT g FROM generate_series(1, 3) AS g`).Scan(&n); err != nil || n != 1 {
				t.Errorf("first of three: %d, %v", n, err)
			}
			wantState(t, "division", reads.QueryRow(t.Context(), `SELECT 1 / $1::int`, 0).Scan(&n), "22012")
			wantState(t, "syntax", reads.QueryRow(t.Context(), `SELEC`).Scan(&n), "42601")
			rows, err := reads.Query(t.Context(), `SELECT g FROM generate_series(1, $1::int) AS g`, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if all, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || len(all) != 1000 || all[0] != 1 || all[999] != 1000 {
				t.Errorf("%d rows, %v", len(all), err)
			}
			rows, err = reads.Query(t.Context(), `SELECT g FROM generate_series(1, 1000) AS g`)
			if err != nil {
				t.Fatal(err)
			}
			rows.Close()
			rows, err = reads.Query(t.Context(), `SELECT 1 / (3 - g) FROM generate_series(1, 5) AS g`)
			if err == nil {
				_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			}
			wantState(t, "an error after two rows", err, "22012")
		}
		if n := pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections are still in use", n)
		}
	})
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for name, conns := range map[string]int32{"the pool is exhausted": 1, "PgBouncer is": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bouncer := pgtest.PgBouncer(t, pgtest.URL(t), "default_pool_size = 1")
			pool := open(t, bouncer.URL, conns, outbox.TransactionPooler)
			if err := outbox.NewReads(pool).QueryRow(t.Context(), `SELECT 1`).Scan(nil); err != nil {
				t.Fatal(err)
			}
			held, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx := outbox.WithPatience(t.Context(), time.Second)
			began := time.Now()
			err = outbox.InTx(ctx, pool, "test", func(pgx.Tx) error { return nil })
			if !errors.Is(err, outbox.ErrNoConnection) || !outbox.Unavailable(err) {
				t.Errorf("a transaction: %v", err)
			}
			err = outbox.NewReads(pool).QueryRow(ctx, `SELECT 1`).Scan(nil)
			if !errors.Is(err, outbox.ErrNoConnection) {
				t.Errorf("a read: %v", err)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("both gave up after %s", took)
			}
			if err := held.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := outbox.InTx(ctx, pool, "test", func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `SELECT pg_sleep(1.5)`) // patience is for the wait, not for the work
				return err
			}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
