package outbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// WriteRow writes one row, by a statement that can write many: it takes each of args as an array of its type, $2 and so on, of which the
// elements at one place belong to one row; $1 holds the places, as integers, and it returns those of the rows that it has written.
// In a transaction that is shared ([InTxEach]) the rows that members write at the same time by the same statement go into one of it, which costs
// PostgreSQL a third of what it costs to run it for each.
func WriteRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) (written bool, err error) {
	c := &call{sql: sql, args: args, wants: wantWritten}
	if m, ok := tx.(*memberTx); ok {
		a := m.ask(c)
		return a.written, a.err
	}
	places, err := readPlaces(tx.Query(ctx, sql, columns([]*call{c})...))
	return places[0], err
}

// WriteLast writes one row as [WriteRow] does, by a statement that returns nothing. In a transaction that is shared that is put off until all
// members have told their stories, and done once for all of them: so others wait for the rows that it locks no longer than for the commit.
func WriteLast(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	c := &call{sql: sql, args: args, wants: wantWritten}
	if m, ok := tx.(*memberTx); ok {
		m.last(c)
		return nil
	}
	_, err := tx.Exec(ctx, sql, columns([]*call{c})...)
	return err
}

// ReadRows reads the rows that belong to one member, by a statement that can read for many: it takes its arguments as [WriteRow]'s does, and
// returns the place of whom a row belongs to in the first column. each is called for each row, whose other columns are in dest then.
func ReadRows(ctx context.Context, tx pgx.Tx, sql string, args, dest []any, each func() error) error {
	all := append([]any{nil}, dest...)
	c := &call{sql: sql, args: args, wants: wantRead, read: func(rows pgx.Rows) error {
		if err := rows.Scan(all...); err != nil {
			return err
		}
		return each()
	}}
	if m, ok := tx.(*memberTx); ok {
		return m.ask(c).err
	}
	rows, err := tx.Query(ctx, sql, columns([]*call{c})...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := c.read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ReadRow is [ReadRows] for a statement that finds one row at most. The error is Scan's, [pgx.ErrNoRows] where there is none.
func ReadRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) pgx.Row {
	return oneRow(func(dest []any) error {
		found := false
		err := ReadRows(ctx, tx, sql, args, dest, func() error { found = true; return nil })
		if err == nil && !found {
			err = pgx.ErrNoRows
		}
		return err
	})
}

// Once does something that is the same for all members of a transaction, for the first that asks, and tells the others what came of it.
func Once[V any](ctx context.Context, tx pgx.Tx, name string, fn func(ctx context.Context, tx pgx.Tx) (V, error)) (value V, first bool, err error) {
	m, ok := tx.(*memberTx)
	if !ok {
		value, err = fn(ctx, tx)
		return value, true, err
	}
	a := m.ask(&call{sql: name, wants: wantOnce, once: func() (any, error) { return fn(ctx, m.Tx) }})
	value, _ = a.value.(V)
	return value, a.first, a.err
}

type oneRow func(dest []any) error

func (r oneRow) Scan(dest ...any) error { return r(dest) }

// columns are the arguments of calls of one statement, as arrays.
func columns(calls []*call) []any {
	places := make([]int32, len(calls))
	all := make([]any, 1+len(calls[0].args))
	for i := range calls {
		places[i] = int32(i)
	}
	all[0] = places
	for i := range calls[0].args {
		column := make([]any, len(calls))
		for j, c := range calls {
			column[j] = c.args[i]
			if id, ok := c.args[i].(uuid.UUID); ok { // in binary, and not by way of its text
				column[j] = pgtype.UUID{Bytes: id, Valid: true}
			}
		}
		all[1+i] = column
	}
	return all
}

func readPlaces(rows pgx.Rows, err error) (map[int]bool, error) {
	if err != nil {
		return nil, err
	}
	places := map[int]bool{}
	var place int
	_, err = pgx.ForEachRow(rows, []any{&place}, func() error {
		places[place] = true
		return nil
	})
	return places, err
}

// byStatement puts calls together that can be one, each group where its first call is.
func byStatement(calls []*call) (groups [][]*call) {
	place := map[string]int{}
	for _, c := range calls {
		i, known := place[c.sql]
		switch {
		case !c.wants.merges():
			groups = append(groups, []*call{c})
		case known:
			groups[i] = append(groups[i], c)
		default:
			place[c.sql] = len(groups)
			groups = append(groups, []*call{c})
		}
	}
	return groups
}
