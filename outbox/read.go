package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readBound is for whoever reads without a bound of its own. PostgreSQL gives up before.
const readBound = 20 * time.Second

// Reads runs single queries outside of transactions, each within the bounds that a transaction has. It is safe for concurrent use.
type Reads struct {
	pool  *pgxpool.Pool
	local bool // the bounds go with each query, because no session keeps them
}

// NewReads returns what reads through a pool that [Open] made. With nil it is of no use, and no harm until it is used.
func NewReads(pool *pgxpool.Pool) Reads {
	if pool == nil {
		return Reads{}
	}
	return Reads{pool: pool, local: pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe}
}

// Query is pgx's: the rows have to be closed, or read to their end. It returns when the first of them is there, or an error. A
// connection that turns out to be dead is replaced, once.
func (r Reads) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, lost, err := r.query(ctx, sql, args)
	if lost && ctx.Err() == nil {
		rows, _, err = r.query(suspicious(ctx), sql, args)
	}
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (r Reads) query(ctx context.Context, sql string, args []any) (rows *readRows, lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readBound)
	conn, err := acquire(ctx, r.pool)
	if err != nil {
		cancel()
		return nil, false, err
	}
	done := func() {
		conn.Release()
		cancel()
	}
	if r.local {
		rows, err = queryBounded(ctx, conn, done, sql, args)
	} else {
		rows, err = queryPlain(ctx, conn, done, sql, args)
	}
	if err != nil {
		lost = conn.Conn().IsClosed()
		done()
	}
	return rows, lost, err
}

func queryPlain(ctx context.Context, conn *pgxpool.Conn, done func(), sql string, args []any) (*readRows, error) {
	found, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return firstOf(found, done)
}

// queryBounded sends the bound and the query together. The first answer tells that a pooler has found a session for them.
func queryBounded(ctx context.Context, conn *pgxpool.Conn, done func(), sql string, args []any) (*readRows, error) {
	bounded, calm, cancel := impatient(ctx)
	batch := &pgx.Batch{}
	batch.Queue(boundReadSQL)
	batch.Queue(sql, args...)
	results := conn.SendBatch(bounded, batch)
	end := func() {
		_ = results.Close() // an error of the query has been returned, and one of this breaks the connection, which the pool sees
		cancel()
	}
	if _, err := results.Exec(); err != nil {
		end()
		return nil, named(bounded, err)
	}
	calm()
	found, err := results.Query()
	if err == nil {
		var rows *readRows
		if rows, err = firstOf(found, func() { end(); done() }); err == nil {
			return rows, nil
		}
	}
	end()
	return nil, err
}

// firstOf waits for the first row.
func firstOf(found pgx.Rows, done func()) (*readRows, error) {
	rows := &readRows{Rows: found, done: sync.OnceFunc(done)}
	rows.first = found.Next()
	if err := found.Err(); err != nil && !rows.first {
		return nil, err
	}
	return rows, nil
}

// QueryRow is pgx's: the error is Scan's, [pgx.ErrNoRows] where there is no row.
func (r Reads) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := r.Query(ctx, sql, args...)
	return readRow{rows, err}
}

// readRows gives its connection back when it is read or closed.
type readRows struct {
	pgx.Rows
	done  func()
	first bool // the first row is there, and Next has not yet said so
}

func (r *readRows) Next() bool {
	if r.first || r.Rows.Next() {
		r.first = false
		return true
	}
	r.Close()
	return false
}

func (r *readRows) Close() {
	r.Rows.Close()
	r.done()
}

// readRow is the first row.
type readRow struct {
	rows pgx.Rows
	err  error
}

func (r readRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
