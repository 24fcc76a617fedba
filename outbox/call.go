package outbox

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// call is a statement that a member waits for.
type call struct {
	member int
	sql    string
	args   []any
	wants  wants
	read   func(pgx.Rows) error // wantRead: takes one row
	once   func() (any, error)  // wantOnce: whose name stands in the statement's place
	answer chan answer
}

// wants is what a member wants to know of a statement.
type wants int

const (
	wantTag wants = iota
	wantRows
	wantWritten // whether the row that it asked [WriteRow] for was written
	wantRead    // the rows that it asked [ReadRows] for
	wantOnce    // what it asked [Once] for
)

// merges tells whether calls of one statement can be one.
func (w wants) merges() bool { return w == wantWritten || w == wantRead }

type answer struct {
	rows    *sharedRows
	tag     pgconn.CommandTag
	written bool
	value   any
	first   bool // it was asked for that value first
	err     error
}

// readEach hands each row to the call whose place is in its first column.
func readEach(results pgx.BatchResults, group []*call) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	skip := make([]any, len(rows.FieldDescriptions()))
	var place int
	skip[0] = &place
	for rows.Next() {
		if err := rows.Scan(skip...); err != nil {
			return err
		}
		if err := safely(func() error { return group[place].read(rows) }); err != nil {
			return err
		}
	}
	return rows.Err()
}

// send has all calls answered in one round trip. The first that fails fails the others after it, too.
func (s *shared) send(ctx context.Context, calls []*call) {
	if len(calls) == 0 {
		return
	}
	slices.SortStableFunc(calls, func(a, b *call) int { return a.member - b.member })
	batch := &pgx.Batch{}
	groups := byStatement(calls)
	for _, group := range groups {
		if first := group[0]; first.wants.merges() {
			batch.Queue(first.sql, columns(group)...)
		} else {
			batch.Queue(first.sql, first.args...)
		}
	}
	results := s.tx.SendBatch(ctx, batch)
	for _, group := range groups {
		switch first := group[0]; first.wants {
		case wantTag:
			tag, err := results.Exec()
			s.failed(err)
			s.give(first, answer{tag: tag, err: err})
		case wantRead:
			err := readEach(results, group)
			s.failed(err)
			for _, c := range group {
				s.give(c, answer{err: err})
			}
		case wantWritten:
			written, err := readPlaces(results.Query())
			s.failed(err)
			for place, c := range group {
				s.give(c, answer{written: written[place], err: err})
			}
		case wantRows:
			rows, err := results.Query()
			shared := &sharedRows{Rows: rows, read: make(chan struct{})}
			s.give(first, answer{rows: shared, err: err})
			if err == nil {
				<-shared.read
				err = rows.Err()
			}
			s.failed(err)
		}
	}
	s.failed(results.Close())
}

func (s *shared) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// give answers a call, after which its member computes.
func (s *shared) give(c *call, a answer) {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
	c.answer <- a
}

// ask waits for PostgreSQL's answer.
func (s *shared) ask(c *call) answer {
	c.answer = make(chan answer, 1)
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.rest()
	s.mu.Unlock()
	return <-c.answer
}
