package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is what a transaction can be begun on: a pool or a connection.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// ErrInDoubt says that COMMIT was sent and its answer was lost: the transaction may have committed or not.
// Only reading the data again tells.
var ErrInDoubt = errors.New("commit in doubt")

const (
	txTries       = 5
	rollbackBound = 2 * time.Second
)

// Moment is a side of a commit.
type Moment string

// The moments: everything was written and COMMIT not yet sent; COMMIT was answered.
const (
	BeforeCommit Moment = "before"
	AfterCommit  Moment = "after"
)

// OnCommit, unless nil, is told of every commit by the name of its transaction. It is for tests, which end the process there; it is set
// before anything runs, and by nothing else.
var OnCommit func(name string, when Moment)

func onCommit(name string, when Moment) {
	if OnCommit != nil {
		OnCommit(name, when)
	}
}

// InTx runs fn in one READ COMMITTED transaction and commits it. Everything that this program writes is
// committed here, under a name ("charge.accept") that errors carry. PostgreSQL ends a statement after 15 s, a wait for a lock after 5 s,
// and a transaction that is left alone after 15 s, whatever the session says.
//
// A transaction that PostgreSQL ends with a serialization failure or a deadlock is run again from its
// beginning, at most five times, so fn must have no effect outside its transaction. So is, once, one whose connection breaks before
// COMMIT was sent: a server that was restarted or switched costs no error. An error of fn rolls
// back and is returned as it is. A commit whose answer was lost returns [ErrInDoubt].
func InTx(ctx context.Context, db DB, name string, fn func(tx pgx.Tx) error) error {
	again := false // because of a lost connection
	for try := 1; ; try++ {
		lost, err := inTxOnce(ctx, db, name, fn)
		switch {
		case err == nil || try == txTries || ctx.Err() != nil:
			return err
		case lost && !again:
			again = true
			ctx = suspicious(ctx) // its like may be as dead
			continue
		case !runAgain(err):
			return err
		}
		pause := time.Duration(rand.Int64N(int64(10*time.Millisecond) << try))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// begin takes a connection and begins a transaction on it, both within ctx's patience. lost tells that a connection broke.
func begin(ctx context.Context, db DB) (tx pgx.Tx, release func(), lost bool, err error) {
	bounded, _, cancel := impatient(ctx)
	defer cancel()
	release = func() {}
	if pool, ok := db.(*pgxpool.Pool); ok {
		conn, err := pool.Acquire(bounded)
		if err != nil {
			return nil, nil, false, named(bounded, err)
		}
		db, release = conn, conn.Release
	}
	if tx, err = db.BeginTx(bounded, pgx.TxOptions{BeginQuery: beginFor(ctx)}); err != nil {
		release()
		return nil, nil, bounded.Err() == nil, named(bounded, err) // BEGIN has no other reason to fail
	}
	return tx, release, false, nil
}

// inTxOnce is one run. lost tells that the connection broke before COMMIT was sent.
func inTxOnce(ctx context.Context, db DB, name string, fn func(tx pgx.Tx) error) (lost bool, err error) {
	tx, release, lost, err := begin(ctx, db)
	if err != nil {
		return lost, fmt.Errorf("begin %s: %w", name, err)
	}
	defer release()
	// pgx leaves the transaction open when the context ends, so the rollback has a bound of its own.
	defer func() {
		if tx.Conn().IsClosed() {
			return // PostgreSQL rolls back what has lost its client
		}
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackBound)
		defer cancel()
		if e := tx.Rollback(rollback); e != nil && !errors.Is(e, pgx.ErrTxClosed) && err != nil {
			err = errors.Join(err, fmt.Errorf("roll back %s: %w", name, e))
		}
	}()

	if err := fn(tx); err != nil {
		return tx.Conn().IsClosed(), err
	}
	onCommit(name, BeforeCommit)
	if err := tx.Commit(ctx); err != nil {
		// An error that PostgreSQL itself reports is its word that nothing was committed. "conn closed" claims to be safe to
		// retry and is not: pgx says so, too, of a connection that broke while COMMIT's answer was awaited.
		notSent := pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
		if refusedByServer(err) || errors.Is(err, pgx.ErrTxCommitRollback) || notSent {
			return false, fmt.Errorf("commit %s: %w", name, err)
		}
		return false, fmt.Errorf("commit %s: %w: %w", name, ErrInDoubt, err)
	}
	onCommit(name, AfterCommit)
	return false, nil
}

// refusedByServer tells whether PostgreSQL reported the error. A pooler in between reports as one of class 08 that it lost
// the server, and a server that is shut down may have committed before.
func refusedByServer(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && !strings.HasPrefix(pgErr.Code, "08") && !strings.HasPrefix(pgErr.Code, "57P")
}

// runAgain tells whether PostgreSQL ended the transaction for the sake of others, having kept nothing of it.
func runAgain(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01")
}
