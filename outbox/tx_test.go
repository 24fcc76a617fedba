package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

func scratch(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE scratch (n int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	return pool
}

func rowsIn(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), `SELECT count(*) FROM scratch`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInTxCommitsOrNot(t *testing.T) {
	t.Parallel()
	pool := scratch(t)
	insert := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO scratch VALUES (1)`)
		return err
	}
	sentinel := errors.New("no")
	if err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error { return errors.Join(insert(tx), sentinel) }); !errors.Is(err, sentinel) {
		t.Errorf("error %v, want fn's own", err)
	}
	if n := rowsIn(t, pool); n != 0 {
		t.Errorf("%d rows after an error", n)
	}
	if err := outbox.InTx(t.Context(), pool, "test", insert); err != nil {
		t.Error(err)
	}
	if n := rowsIn(t, pool); n != 1 {
		t.Errorf("%d rows after a commit", n)
	}
	// PostgreSQL's own refusal at COMMIT is no doubt.
	err := outbox.InTx(t.Context(), pool, "test", insert)
	if err == nil || errors.Is(err, outbox.ErrInDoubt) {
		t.Errorf("a constraint that fails at COMMIT: %v", err)
	}
}

func TestInTxRunsAgain(t *testing.T) {
	t.Parallel()
	pool := scratch(t)
	for _, code := range []string{"40001", "40P01"} {
		runs := 0
		err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
			runs++
			if runs == 3 {
				return nil
			}
			_, err := tx.Exec(t.Context(), `DO $$ BEGIN RAISE 'for the sake of others' USING ERRCODE = '`+code+`'; END $$`)
			return err
		})
		if err != nil || runs != 3 {
			t.Errorf("%s: %d runs, %v", code, runs, err)
		}
	}
	runs := 0
	err := outbox.InTx(t.Context(), pool, "test", func(pgx.Tx) error {
		runs++
		return &pgconn.PgError{Code: "40001"}
	})
	if err == nil || runs != 5 {
		t.Errorf("without end: %d runs, %v", runs, err)
	}
}

func TestInTxInDoubt(t *testing.T) {
	t.Parallel()
	pool := scratch(t)
	err := outbox.InTx(t.Context(), pool, "test", func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO scratch VALUES (1)`)
		// The connection is lost between the last statement and the answer to COMMIT.
		return errors.Join(err, tx.Conn().PgConn().Conn().Close())
	})
	if err == nil {
		t.Fatal("a commit on a lost connection succeeded")
	}
	if n := rowsIn(t, pool); n != 0 {
		t.Errorf("%d rows", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = outbox.InTx(ctx, pool, "test", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO scratch VALUES (2)`)
		cancel()
		return err
	})
	if err == nil || rowsIn(t, pool) != 0 {
		t.Errorf("a cancelled context: %v, %d rows", err, rowsIn(t, pool))
	}
}
