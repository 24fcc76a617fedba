package outbox_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// What goes wrong with one leaves nothing of any, and holds up nobody.
func TestEachKeepsNothingAfterAnError(t *testing.T) {
	t.Parallel()
	query := func(tx pgx.Tx) (pgx.Rows, error) {
		return tx.Query(context.Background(), `SELECT g FROM generate_series(0, 9) g`)
	}
	for what, tc := range map[string]struct {
		story func(tx pgx.Tx) error
		want  string
	}{
		"an error of its own": {func(pgx.Tx) error { return errors.New("no") }, "no"},
		"a panic":             {func(pgx.Tx) error { panic("seven") }, "seven"},
		"a story cut short":   {func(pgx.Tx) error { runtime.Goexit(); return nil }, "before its end"},
		"PostgreSQL's error": {func(tx pgx.Tx) error {
			_, err := tx.Exec(context.Background(), `SELECT 1 / 0`)
			return err
		}, "22012"},
		"PostgreSQL's error, passed over": {func(tx pgx.Tx) error {
			_, _ = tx.Exec(context.Background(), `SELECT 1 / 0`)
			return nil
		}, "22012"},
		"a statement that cannot be prepared": {func(tx pgx.Tx) error {
			_, err := tx.Exec(context.Background(), `SELECT nothing`)
			return err
		}, "42703"},
		"an argument that cannot be sent": {func(tx pgx.Tx) error {
			_, err := tx.Exec(context.Background(), execTale, struct{}{}, 1)
			return err
		}, "struct"},
		"an error within its rows": {func(tx pgx.Tx) error {
			rows, err := tx.Query(context.Background(), `SELECT 1 / (5 - g) FROM generate_series(0, 9) g`)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			return err
		}, "22012"},
		"rows that do not fit": {func(tx pgx.Tx) error {
			rows, err := query(tx)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
			return err
		}, "scan"},
		"a panic over open rows": {func(tx pgx.Tx) error {
			if rows, err := query(tx); err != nil || !rows.Next() {
				return errors.New("no rows")
			}
			panic("seven")
		}, "seven"},
		"a question over open rows": {func(tx pgx.Tx) error {
			if rows, err := query(tx); err != nil || !rows.Next() {
				return errors.New("no rows")
			}
			_, err := outbox.WriteRow(context.Background(), tx, writeOne, 1, 1, nil, nil)
			return err
		}, "must be read or closed"},
		"a panic while rows are handed out": {func(tx pgx.Tx) error {
			var step int
			return outbox.ReadRows(context.Background(), tx, readTale, []any{7}, []any{&step, nil}, func() error { panic("seven") })
		}, "seven"},
		"an error while rows are handed out": {func(tx pgx.Tx) error {
			var step int
			return outbox.ReadRows(context.Background(), tx, readTale, []any{7}, []any{&step, nil}, func() error { return errors.New("no") })
		}, "no"},
		"a panic in what is done once": {func(tx pgx.Tx) error {
			_, _, err := outbox.Once(context.Background(), tx, "once", func(context.Context, pgx.Tx) (int, error) { panic("seven") })
			return err
		}, "seven"},
		"an end of its own": {func(tx pgx.Tx) error { return tx.Commit(context.Background()) }, "not for a member"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pool := tales(t)
			err := within(t, func() error {
				return outbox.InTxEach(t.Context(), pool, "test", tellers(20), func(ctx context.Context, tx pgx.Tx, n teller) error {
					if _, err := outbox.WriteRow(ctx, tx, writeOne, n, 0, nil, nil); err != nil {
						return err
					}
					if n == 7 {
						return tc.story(tx)
					}
					return n.more(ctx, tx)
				})
			})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			var n int
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tale`).Scan(&n); err != nil || n != 0 {
				t.Errorf("%d rows are left, %v", n, err)
			}
		})
	}
}

// more is what the others do meanwhile.
func (n teller) more(ctx context.Context, tx pgx.Tx) error {
	for i := range 3 {
		if _, err := tx.Exec(ctx, execTale, n, i+1); err != nil {
			return err
		}
	}
	return nil
}

// within fails the test if something takes longer than anything does.
func within(t *testing.T, fn func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

// A member that leaves without having read its rows holds up nobody.
func TestEachRowsLeftOpen(t *testing.T) {
	t.Parallel()
	pool := tales(t)
	err := within(t, func() error {
		return outbox.InTxEach(t.Context(), pool, "test", tellers(20), func(ctx context.Context, tx pgx.Tx, n teller) error {
			if n%3 == 0 {
				rows, err := tx.Query(ctx, `SELECT g FROM generate_series(0, 99999) g`)
				rows.Next()
				return err
			}
			return n.more(ctx, tx)
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// Where one's patience ends, or the connection, all end, and a second run begins anew.
func TestEachWhenTheConnectionEnds(t *testing.T) {
	t.Parallel()
	pool := tales(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := within(t, func() error {
		return outbox.InTxEach(ctx, pool, "test", tellers(20), func(ctx context.Context, tx pgx.Tx, n teller) error {
			if n == 7 {
				time.AfterFunc(50*time.Millisecond, cancel) // while PostgreSQL sleeps
				_, err := tx.Exec(ctx, `SELECT pg_sleep(20)`)
				return err
			}
			return n.more(ctx, tx)
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's end", err)
	}
	var broken atomic.Bool
	err = within(t, func() error {
		return outbox.InTxEach(t.Context(), pool, "test", tellers(20), func(ctx context.Context, tx pgx.Tx, n teller) error {
			if n == 7 && !broken.Swap(true) {
				if _, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`); err == nil {
					t.Error("the session goes on")
				} else {
					return err
				}
			}
			return n.more(ctx, tx)
		})
	})
	var n int
	if e := pool.QueryRow(t.Context(), `SELECT count(*) FROM tale`).Scan(&n); err != nil || e != nil || n != 60 {
		t.Errorf("%v, %d rows, %v", err, n, e)
	}
}
