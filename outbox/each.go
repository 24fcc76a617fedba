package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
)

// Member is one of those that share a transaction. Its key is what it locks first, and it alone.
type Member interface{ LockKey() uuid.UUID }

var errSameKey = errors.New("two members of one transaction have the same key: its locks would not keep them apart")

// InTxEach runs each for every member, all of them at once and all in one transaction, as [InTx] does. Each tells its story as if it were alone;
// statements that they ask for at the same time go to PostgreSQL in one round trip, in the order of the members' keys, so that two
// such transactions never wait for each other in a circle. An error of one is an error of all: nothing is kept.
//
// Members that lock the same must not be in one transaction, which would let both through: that is an error.
func InTxEach[M Member](ctx context.Context, db DB, name string, members []M, each func(ctx context.Context, tx pgx.Tx, m M) error) error {
	if len(members) == 1 {
		return InTx(ctx, db, name, func(tx pgx.Tx) error { return each(ctx, tx, members[0]) })
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b M) int {
		x, y := a.LockKey(), b.LockKey()
		return bytes.Compare(x[:], y[:])
	})
	for i := 1; i < len(members); i++ {
		if members[i].LockKey() == members[i-1].LockKey() {
			return errSameKey
		}
	}
	return InTx(ctx, db, name, func(tx pgx.Tx) error {
		s := &shared{tx: tx, busy: len(members), known: map[string]done{}}
		s.turn.L = &s.mu
		for i, m := range members {
			go s.tell(i, func(tx pgx.Tx) error { return each(ctx, tx, m) })
		}
		return s.run(ctx)
	})
}

// shared is a transaction whose members run at once. They take turns: either some of them compute, or PostgreSQL does.
type shared struct {
	tx pgx.Tx

	mu    sync.Mutex
	turn  sync.Cond       // nobody computes any more
	busy  int             // members that compute
	calls []*call         // what the others wait for
	known map[string]done // by [Once]
	jobs  []river.InsertManyParams
	box   *Outbox // that the jobs go through
	err   error   // the first
}

// done is what came of what was done once.
type done struct {
	value any
	err   error
}

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

// errCutShort is of a member whose story did not return, as by [runtime.Goexit].
var errCutShort = errors.New("a member's story ended before its end")

// tell runs one member to its end.
func (s *shared) tell(member int, story func(tx pgx.Tx) error) {
	err := errCutShort
	tx := &memberTx{Tx: s.tx, shared: s, member: member}
	defer func() {
		tx.closeRows()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = err
		}
		s.rest()
	}()
	err = safely(func() error { return story(tx) })
}

// safely makes an error of a panic.
func safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// rest notes that a member computes no more. The caller holds mu.
func (s *shared) rest() {
	if s.busy--; s.busy == 0 {
		s.turn.Signal()
	}
}

// run serves the members until all have ended, and writes their jobs.
func (s *shared) run(ctx context.Context) error {
	for {
		s.mu.Lock()
		for s.busy > 0 {
			s.turn.Wait()
		}
		calls, err := s.calls, s.err
		s.calls = nil
		s.mu.Unlock()
		switch {
		case len(calls) == 0 && err == nil && len(s.jobs) > 0:
			return s.box.insert(ctx, s.tx, s.jobs)
		case len(calls) == 0:
			return err
		case err != nil: // the transaction is lost: each member is told, so that it ends
			for _, c := range calls {
				s.give(c, answer{err: err})
			}
		default:
			s.send(ctx, s.doOnce(calls))
		}
	}
}

// doOnce does what is done once for all, and returns the other calls.
func (s *shared) doOnce(calls []*call) (others []*call) {
	for _, c := range calls {
		if c.wants != wantOnce {
			others = append(others, c)
			continue
		}
		was, known := s.known[c.sql]
		if !known {
			was.err = safely(func() (err error) { was.value, err = c.once(); return err })
			s.known[c.sql] = was
			s.failed(was.err)
		}
		s.give(c, answer{value: was.value, first: !known, err: was.err})
	}
	return others
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

// memberTx is the transaction as one member sees it: its statements alone, and nothing that would end it.
type memberTx struct {
	pgx.Tx
	shared *shared
	member int
	rows   *sharedRows // the latest that it asked for
}

// errRowsOpen is what pgx calls a busy connection.
var errRowsOpen = errors.New("the rows of the member's last query must be read or closed first")

// ask waits for PostgreSQL's answer. What comes after rows that are still open would wait for itself.
func (m *memberTx) ask(c *call) answer {
	if m.rows != nil && !m.rows.ended {
		return answer{err: errRowsOpen}
	}
	c.member = m.member
	return m.shared.ask(c)
}

// closeRows lets the others go on where the member has left its rows open.
func (m *memberTx) closeRows() {
	if m.rows != nil {
		m.rows.Close()
	}
}

var errMember = errors.New("not for a member of a shared transaction")

func (m *memberTx) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	a := m.ask(&call{sql: sql, args: args})
	return a.tag, a.err
}

func (m *memberTx) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	a := m.ask(&call{sql: sql, args: args, wants: wantRows})
	if a.err != nil {
		return nil, a.err
	}
	m.rows = a.rows
	return a.rows, nil
}

func (m *memberTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := m.Query(ctx, sql, args...)
	return readRow{rows, err}
}

func (m *memberTx) Begin(context.Context) (pgx.Tx, error) { return nil, errMember }
func (m *memberTx) Commit(context.Context) error          { return errMember }
func (m *memberTx) Rollback(context.Context) error        { return errMember }

func (m *memberTx) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { panic(errMember) }

func (m *memberTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, errMember
}

// enqueue has the jobs written with those of all members.
func (m *memberTx) enqueue(o *Outbox, jobs []river.InsertManyParams) {
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.shared.box, m.shared.jobs = o, append(m.shared.jobs, jobs...)
}

// sharedRows tells when its member has read them: the next one's come after them on the same connection.
type sharedRows struct {
	pgx.Rows
	ended bool
	read  chan struct{} // closed then
}

func (r *sharedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.end()
	return false
}

func (r *sharedRows) Close() {
	r.Rows.Close()
	r.end()
}

func (r *sharedRows) end() {
	if !r.ended {
		r.ended = true
		close(r.read)
	}
}
