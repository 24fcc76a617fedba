package outbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
)

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

// last has the row written with those of all members.
func (m *memberTx) last(c *call) {
	c.member = m.member
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.shared.last = append(m.shared.last, c)
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
