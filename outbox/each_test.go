package outbox_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// teller is a member that is known by a number, and so is its key.
type teller int

func (n teller) LockKey() uuid.UUID {
	var key uuid.UUID
	binary.BigEndian.PutUint64(key[8:], uint64(n))
	return key
}

// tellers are n members in an order that is not that of their keys.
func tellers(n int) []teller {
	all := make([]teller, n)
	for i := range all {
		all[i] = teller((i * 7) % n)
	}
	return all
}

type named string

const (
	writeTale = `INSERT INTO tale (teller, step, word, at) SELECT t, s, w, at FROM unnest($2::int[], $3::int[], $4::text[], $5::timestamptz[]) AS n (t, s, w, at)`
	writeOne  = `WITH made AS (` + writeTale + ` ON CONFLICT DO NOTHING RETURNING teller)
SELECT place FROM made JOIN unnest($1::int[], $2::int[]) AS n (place, teller) USING (teller)`
	readTale = `SELECT asked.place, step, coalesce(word, 'nothing') FROM unnest($1::int[], $2::int[]) AS asked (place, teller) JOIN tale USING (teller) ORDER BY step DESC`
	execTale = `INSERT INTO tale (teller, step) VALUES ($1, $2)`
)

func talesIn(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	_, err := pool.Exec(t.Context(), `CREATE TABLE tale (teller int, step int, word text, at timestamptz, PRIMARY KEY (teller, step))`)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func tales(t *testing.T) *pgxpool.Pool { return talesIn(t, pgtest.New(t)) }

// tell is a story of as many statements as come of its teller's number, of every kind. It fails unless each answer is its own.
func (n teller) tell(ctx context.Context, tx pgx.Tx) error {
	var word *string
	if n%2 == 0 {
		word = new(string)
		*word = fmt.Sprint("word ", n)
	}
	if written, err := outbox.WriteRow(ctx, tx, writeOne, n, 0, word, time.Now()); err != nil || !written {
		return fmt.Errorf("%d: written %t, %w", n, written, err)
	}
	if written, err := outbox.WriteRow(ctx, tx, writeOne, n, 0, named("again"), (*time.Time)(nil)); err != nil || written {
		return fmt.Errorf("%d: written again %t, %w", n, written, err)
	}
	for i := range int(n % 5) { // from here on each is somewhere else
		if tag, err := tx.Exec(ctx, execTale, n, 1+i); err != nil || tag.RowsAffected() != 1 {
			return fmt.Errorf("%d: %s, %w", n, tag, err)
		}
	}
	rows, err := tx.Query(ctx, `SELECT $1::int + g FROM generate_series(0, 99) g`, n)
	if err != nil {
		return err
	}
	var got int
	for i := 0; i < 3 && rows.Next(); i++ { // and no more
		if err := rows.Scan(&got); err != nil || got != int(n)+i {
			return fmt.Errorf("%d: row %d is %d, %w", n, i, got, err)
		}
	}
	rows.Close()
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM tale WHERE teller = $1`, n).Scan(&got); err != nil || got != 1+int(n%5) {
		return fmt.Errorf("%d: %d steps, %w", n, got, err)
	}
	if err := tx.QueryRow(ctx, `SELECT 1 FROM tale WHERE teller = $1 AND step = 77`, n).Scan(&got); !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%d: no row is %w", n, err)
	}
	if err := outbox.ReadRow(ctx, tx, readTale+" OFFSET 1000000", n).Scan(&got, nil); !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%d: no row of one's own is %w", n, err)
	}
	var step int
	var said string
	var steps []int
	err = outbox.ReadRows(ctx, tx, readTale, []any{n}, []any{&step, &said}, func() error {
		steps = append(steps, step)
		return nil
	})
	want := "nothing"
	if word != nil {
		want = *word
	}
	if err != nil || len(steps) != 1+int(n%5) || steps[0] != int(n%5) || said != want {
		return fmt.Errorf("%d: steps %v, %q, %w", n, steps, said, err)
	}
	once, _, err := outbox.Once(ctx, tx, "who was first", func(context.Context, pgx.Tx) (teller, error) { return n + 1000, nil })
	if err != nil || once < 1000 {
		return fmt.Errorf("%d: first was %d, %w", n, once, err)
	}
	return nil
}

// Hundreds tell different stories at once, and each gets its own answers, with a session of our own and through a pooler's descriptions.
func TestEachGetsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]outbox.Pooler{"statements kept": outbox.Direct, "only described": outbox.TransactionPooler} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := outbox.Open(t.Context(), pgtest.URL(t), "each", 2, pooler)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			talesIn(t, pool)
			all := tellers(300)
			var first atomic.Int32
			err = outbox.InTxEach(t.Context(), pool, "test", all, func(ctx context.Context, tx pgx.Tx, n teller) error {
				if _, mine, err := outbox.Once(ctx, tx, "first", func(ctx context.Context, tx pgx.Tx) (one int, err error) {
					return one, tx.QueryRow(ctx, `SELECT 1`).Scan(&one)
				}); err != nil {
					return err
				} else if mine {
					first.Add(1)
				}
				return n.tell(ctx, tx)
			})
			if err != nil || first.Load() != 1 {
				t.Errorf("%v; %d were first", err, first.Load())
			}
			var n int
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tale`).Scan(&n); err != nil || n != 300+60*(1+2+3+4) {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
}

func TestEachSameKey(t *testing.T) {
	t.Parallel()
	pool := tales(t)
	err := outbox.InTxEach(t.Context(), pool, "test", []teller{1, 2, 1}, func(ctx context.Context, tx pgx.Tx, n teller) error {
		t.Errorf("%d was begun", n)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "same key") {
		t.Errorf("two of one key: %v", err)
	}
}

// Transactions of the same members, given in any order, never wait for each other in a circle: PostgreSQL never has to end one, which would
// be run again.
func TestEachLocksInOrder(t *testing.T) {
	t.Parallel()
	pool := tales(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO tale (teller, step) SELECT g, 0 FROM generate_series(0, 39) g`); err != nil {
		t.Fatal(err)
	}
	const rounds = 40
	var begun atomic.Int32
	ended := make(chan error)
	for side := range 2 {
		go func() {
			var err error
			for range rounds {
				all := tellers(40)
				if side == 1 {
					for i := range all {
						all[i] = 39 - all[i]
					}
				}
				err = errors.Join(err, outbox.InTxEach(t.Context(), pool, "test", all, func(ctx context.Context, tx pgx.Tx, n teller) error {
					begun.Add(1)
					for range rand.IntN(20) { // they come in any order
						runtime.Gosched()
					}
					_, err := tx.Exec(ctx, `UPDATE tale SET at = clock_timestamp() WHERE teller = $1`, n)
					return err
				}))
			}
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := begun.Load(); n != 2*rounds*40 {
		t.Errorf("%d stories begun, want %d: some were run again", n, 2*rounds*40)
	}
}

// Members' jobs are written with those of the others, or not at all.
func TestEachEnqueues(t *testing.T) {
	t.Parallel()
	pool := tales(t)
	box, err := outbox.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	sentinel := errors.New("no")
	for _, fails := range []bool{true, false} {
		err := outbox.InTxEach(t.Context(), pool, "test", tellers(50), func(ctx context.Context, tx pgx.Tx, n teller) error {
			if err := n.more(ctx, tx); err != nil {
				return err
			}
			if n%2 == 0 {
				if err := box.Enqueue(ctx, tx, []outbox.Entry{{Kind: outbox.KindReceipt, ChargeID: n.LockKey()}}); err != nil {
					return err
				}
			}
			if n%5 == 0 {
				if err := box.Hurry(ctx, tx, outbox.Entry{Kind: outbox.KindFollow, ChargeID: n.LockKey()}); err != nil {
					return err
				}
			}
			if n == 7 && fails {
				return sentinel
			}
			return nil
		})
		if fails != errors.Is(err, sentinel) || !fails && err != nil {
			t.Error(err)
		}
		for kind, want := range map[string]int{"receipt_send": 25, "payment_follow": 10} {
			if fails {
				want = 0
			}
			var n int
			if err := pool.QueryRow(t.Context(), `SELECT count(DISTINCT args ->> 'charge_id') FROM river_job WHERE kind = $1`, kind).Scan(&n); err != nil || n != want {
				t.Errorf("failed %t: %d jobs %s, want %d, %v", fails, n, kind, want, err)
			}
		}
	}
}
