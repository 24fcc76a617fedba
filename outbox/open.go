package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pooler says what stands between us and PostgreSQL.
type Pooler string

// The poolers. Direct is none: a session is ours as long as we want, and is relied on for prepared statements and notifications. A
// pooler that gives each client a session of its own leaves that as it is; one that gives it another session for each transaction,
// as PgBouncer does with pool_mode=transaction, keeps nothing of a session: see [Open].
const (
	Direct            Pooler = "none"
	SessionPooler     Pooler = "session"
	TransactionPooler Pooler = "transaction"
)

// ErrPooler says that a connection that should have been direct leads through a pooler.
var ErrPooler = errors.New("a connection pooler stands before PostgreSQL: say so with --database-pooler=transaction, or session, as it is set up")

const (
	connectTimeout = 5 * time.Second
	pingTimeout    = 2 * time.Second // of a connection that was idle for a second or longer, or is under suspicion
	resetPause     = time.Second     // between two resets of a pool that meets a server which does not write
)

// Open returns a pool on the database at url, a PostgreSQL connection URL or keyword string. name is shown in
// pg_stat_activity; conns bounds the pool. It connects lazily: a database that is away is an error of the first query.
//
// With Direct, a connection through a pooler is refused with [ErrPooler]: what was kept in its session would be lost without a word.
// With TransactionPooler nothing is kept there: statements have no names, and what bounds them goes with each transaction.
//
// The pool heals by itself. A connection whose peer is gone is noticed within 25 s, and one to a server that does not write (a
// primary that has become a standby) as soon as it says so; then all connections are made anew.
func Open(ctx context.Context, url, name string, conns int32, pooler Pooler) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = conns
	config.MaxConnLifetime = 30 * time.Minute
	config.MaxConnIdleTime = 5 * time.Minute
	config.HealthCheckPeriod = 15 * time.Second
	config.PingTimeout = pingTimeout
	config.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > time.Second || ctx.Value(suspicion{}) != nil
	}
	config.ConnConfig.ConnectTimeout = connectTimeout
	config.ConnConfig.DialFunc = dial
	config.ConnConfig.RuntimeParams["application_name"] = name
	switch pooler {
	case TransactionPooler:
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	default:
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			return boundSession(ctx, conn, pooler == SessionPooler)
		}
	}

	var heal healer
	usual := config.ConnConfig.OnPgError
	config.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == readOnly {
			heal.reset()
			return false // closes it
		}
		return usual(conn, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database pool: %w", err)
	}
	heal.pool.Store(pool)
	return pool, nil
}

// boundSession puts the bounds on a session of our own, for what runs outside of [InTx]. A pooler shows by a process id that is
// not the server's; its sessions are left as they are.
func boundSession(ctx context.Context, conn *pgx.Conn, pooled bool) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var ours bool
	err := conn.QueryRow(ctx, sessionBoundsSQL, pgx.QueryExecModeSimpleProtocol, int64(conn.PgConn().PID()), pooled).Scan(&ours, nil)
	switch {
	case err != nil:
		return fmt.Errorf("begin session: %w", err)
	case !ours:
		return ErrPooler
	}
	return nil
}

// healer makes a pool's connections anew, once in a while.
type healer struct {
	pool atomic.Pointer[pgxpool.Pool]
	last atomic.Int64
}

func (h *healer) reset() {
	now, last := time.Now().UnixNano(), h.last.Load()
	if pool := h.pool.Load(); pool != nil && now-last > int64(resetPause) && h.last.CompareAndSwap(last, now) {
		pool.Reset()
	}
}
