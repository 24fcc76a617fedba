package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What PostgreSQL itself enforces on whatever we ask, so that neither a lost client nor a lock can hold others up.
const (
	statementTimeout = "15s"
	lockTimeout      = "5s" // a key in flight for longer is answered "in use"
	idleTimeout      = "15s"
)

// beginSQL puts the bounds on one transaction, whatever session it gets, in the round trip that begins it.
const beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL statement_timeout = '` + statementTimeout + `';
SET LOCAL lock_timeout = '` + lockTimeout + `';
SET LOCAL idle_in_transaction_session_timeout = '` + idleTimeout + `'`

// hurriedLocks is how long a transaction waits for a lock while others wait for it. A commit that has been begun takes some milliseconds; what is
// held for longer is waited for apart from the others.
const hurriedLocks = "100ms"

// beginHurriedSQL is beginSQL for such a transaction. What is not to be had shortly is PostgreSQL's 55P03.
var beginHurriedSQL = strings.Replace(beginSQL, "lock_timeout = '"+lockTimeout+"'", "lock_timeout = '"+hurriedLocks+"'", 1)

type hurry struct{}

func withHurry(ctx context.Context) context.Context { return context.WithValue(ctx, hurry{}, true) }

// beginFor is what begins a transaction under ctx.
func beginFor(ctx context.Context) string {
	if ctx.Value(hurry{}) != nil {
		return beginHurriedSQL
	}
	return beginSQL
}

// heldUp tells whether err is that of a lock which was not to be had in time.
func heldUp(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && pgErr.Code == "55P03"
}

// boundReadSQL bounds the statement after it in the same implicit transaction.
const boundReadSQL = `SELECT set_config('statement_timeout', '` + statementTimeout + `', true)`

// sessionBoundsSQL puts the bounds on a session, if its process id is $1 or it need not be.
const sessionBoundsSQL = `
SELECT mine, CASE WHEN mine THEN
       set_config('statement_timeout', '` + statementTimeout + `', false)
    || set_config('lock_timeout', '` + lockTimeout + `', false)
    || set_config('idle_in_transaction_session_timeout', '` + idleTimeout + `', false) END
  FROM (SELECT pg_backend_pid() = $1::bigint OR $2::boolean AS mine) AS session`

// ErrNoConnection says that no connection became free within the caller's patience: the database is overloaded, or too slow.
var ErrNoConnection = errors.New("no database connection became free in time")

type patience struct{}

// WithPatience bounds how long whatever is done under ctx waits each time for a connection to the database, the one behind a pooler
// included. Without it only ctx does.
func WithPatience(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, patience{}, limit)
}

// impatient returns a context that ends with [ErrNoConnection] as its cause when ctx's patience is over, unless calmed before.
func impatient(ctx context.Context) (bounded context.Context, calm, cancel func()) {
	limit, ok := ctx.Value(patience{}).(time.Duration)
	if !ok {
		bounded, cancel = context.WithCancel(ctx)
		return bounded, func() {}, cancel
	}
	bounded, cancelCause := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancelCause(fmt.Errorf("%w (%s)", ErrNoConnection, limit)) })
	return bounded, func() { timer.Stop() }, func() {
		timer.Stop()
		cancelCause(nil)
	}
}

// named puts the end of patience in the place of the context's error that it caused.
func named(bounded context.Context, err error) error {
	if cause := context.Cause(bounded); err != nil && errors.Is(cause, ErrNoConnection) {
		return cause
	}
	return err
}

// suspicion makes a pool ask a connection whether it is alive before it is used, even if it was in use a moment ago.
type suspicion struct{}

func suspicious(ctx context.Context) context.Context {
	return context.WithValue(ctx, suspicion{}, true)
}

// acquire takes a connection of the pool within ctx's patience.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	bounded, _, cancel := impatient(ctx)
	defer cancel()
	conn, err := pool.Acquire(bounded)
	return conn, named(bounded, err)
}
