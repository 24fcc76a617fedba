package outbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// warm opens all connections of the pool.
func warm(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var held []*pgxpool.Conn
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
}

func insert(ctx context.Context, pool *pgxpool.Pool) error {
	return outbox.InTx(ctx, pool, "test", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO replay (id, actor, filter) VALUES (gen_random_uuid(), 'test', '{}')`)
		return err
	})
}

// eight does something eight times at once, and returns the errors.
func eight(do func() error) error {
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() { errs[i] = do() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// A pool full of connections to a server that was killed and is back costs nobody an error.
func TestI8PoolHealsAfterRestart(t *testing.T) {
	t.Parallel()
	server, url := pgtest.Own(t)
	pool := open(t, url, 8, outbox.Direct)
	reads := outbox.NewReads(pool)
	warm(t, pool)
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := insert(t.Context(), pool); !outbox.Unavailable(err) {
		t.Errorf("while it is away: %v", err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func() error{
		func() error { return insert(t.Context(), pool) },
		func() error { return reads.QueryRow(t.Context(), `SELECT count(*) FROM replay`).Scan(nil) },
	} {
		warm(t, pool)
		if err := server.Restart(t.Context()); err != nil { // with connections that nobody has found broken
			t.Fatal(err)
		}
		if err := eight(do); err != nil {
			t.Errorf("once it is back: %v", err)
		}
	}
}

// A transaction whose session is ended before COMMIT is run again, and leaves one row.
func TestI8TransactionSurvivesItsSession(t *testing.T) {
	t.Parallel()
	bothWays(t, 4, func(t *testing.T, pool *pgxpool.Pool, direct string) {
		runs := 0
		err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
			runs++
			_, err := tx.Exec(t.Context(), `INSERT INTO replay (id, actor, filter) VALUES (gen_random_uuid(), 'test', '{}')`)
			if err == nil && runs == 1 {
				_, err = tx.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
			}
			return err
		})
		if err != nil || runs != 2 {
			t.Errorf("%d runs, %v", runs, err)
		}
		var n int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM replay`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows, %v", n, err)
		}
		runs = 0
		err = outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
			runs++
			_, err := tx.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
			return err
		})
		if !outbox.Unavailable(err) || runs != 2 {
			t.Errorf("without end: %d runs, %v", runs, err)
		}
	})
}

// Sessions that began while the primary was read-only are dropped by the first that says so.
func TestI8PoolHealsAfterReadOnly(t *testing.T) {
	t.Parallel()
	server, url := pgtest.Own(t)
	pool := open(t, url, 8, outbox.Direct)
	alter := func(sql string) {
		t.Helper()
		admin, err := pgx.Connect(t.Context(), server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close(context.Background())
		if _, err := admin.Exec(t.Context(), `ALTER DATABASE oncepay `+sql); err != nil {
			t.Fatal(err)
		}
	}
	alter(`SET default_transaction_read_only = on`)
	warm(t, pool)
	err := insert(t.Context(), pool)
	wantState(t, "a write", err, "25006")
	if !outbox.Unavailable(err) {
		t.Errorf("available: %v", err)
	}
	if err := outbox.NewReads(pool).QueryRow(t.Context(), `SELECT count(*) FROM replay`).Scan(nil); err != nil {
		t.Errorf("a read: %v", err)
	}
	warm(t, pool)
	alter(`RESET default_transaction_read_only`)
	// The pool is made anew once a second at most, and it was just now. After that, one write heals it for all.
	<-time.After(1100 * time.Millisecond)
	if err := insert(t.Context(), pool); err != nil {
		t.Errorf("writable again: %v", err)
	}
	if err := eight(func() error { return insert(t.Context(), pool) }); err != nil {
		t.Errorf("the others: %v", err)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
}
