package outbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// writeLast counts the rows that there are, and so shows when it was run, and how often.
const writeLast = `
INSERT INTO tale (teller, step, word)
SELECT t, 1000 + w, (SELECT count(*) FROM tale)::text FROM unnest($1::int[], $2::int[], $3::int[]) AS n (place, t, w)`

// What is put off is written when every story has been told, by one statement for all members, and in a transaction that is not shared at once.
func TestLastComesLast(t *testing.T) {
	t.Parallel()
	pool := tales(t)
	const n = 20
	err := outbox.InTxEach(t.Context(), pool, "test", tellers(n), func(ctx context.Context, tx pgx.Tx, m teller) error {
		for i := range 2 {
			if err := outbox.WriteLast(ctx, tx, writeLast, m, i); err != nil {
				return err
			}
		}
		for i := range 1 + int(m)%5 {
			if _, err := tx.Exec(ctx, execTale, m, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for i := range n {
		told += 1 + i%5
	}
	var written, late int
	if err := pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE word = $1::text) FROM tale WHERE step >= 1000`, fmt.Sprint(told)).Scan(&written, &late); err != nil {
		t.Fatal(err)
	}
	if written != 2*n || late != written {
		t.Errorf("%d rows were written last, %d of them by one statement after all others; want %d", written, late, 2*n)
	}

	err = outbox.InTxEach(t.Context(), pool, "test", []teller{99}, func(ctx context.Context, tx pgx.Tx, m teller) error {
		return outbox.WriteLast(ctx, tx, writeLast, m, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = outbox.InTxEach(t.Context(), pool, "test", tellers(n), func(ctx context.Context, tx pgx.Tx, m teller) error {
		who := 100 + m
		if m == 7 {
			who = 99 // whose row is there already
		}
		return outbox.WriteLast(ctx, tx, writeLast, who, 0)
	})
	var left int
	if e := pool.QueryRow(t.Context(), `SELECT count(*) FROM tale WHERE teller >= 99`).Scan(&left); e != nil {
		t.Fatal(e)
	}
	if err == nil || left != 1 {
		t.Errorf("an error of what comes last: %v, and %d rows", err, left)
	}
}
