package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Errors that [Up] wraps when it refuses a database, before it has changed anything.
var (
	// ErrChecksum: an applied migration differs from the embedded file of the same version.
	ErrChecksum = errors.New("an applied migration differs from this release's")
	// ErrNewerDatabase: the database has a migration that this binary does not know.
	ErrNewerDatabase = errors.New("the database is newer than this release")
	// ErrPooler: the URL does not lead straight to PostgreSQL.
	ErrPooler = errors.New("a connection pooler stands before PostgreSQL, where a lock protects nothing: give migrate the server's own address (--database-url)")
	// ErrLockLost: the advisory lock is not held by the connection that took it.
	ErrLockLost = errors.New("the migration lock is not held by this connection: give migrate the server's own address (--database-url), not that of a connection pooler")
)

const (
	// lockKey is "oncepay" in ASCII; advisory locks are per database.
	lockKey = 0x6f6e6365706179

	// lockPoll is how often a waiting Up asks for the advisory lock.
	lockPoll = 100 * time.Millisecond

	// tableLockTimeout bounds how long one statement waits for a table lock. While ALTER TABLE waits
	// behind a long transaction, everything behind it waits too; better to fail and be run again.
	tableLockTimeout = 10 * time.Second

	// unlockTimeout bounds the goodbye to a server that may have gone away.
	unlockTimeout = 5 * time.Second
)

// Up brings the database at databaseURL to this binary's schema and returns the names of the
// migrations that it applied, in order: River's, then ours. It does nothing when there is nothing to
// do, and may be run by many processes at once; ctx bounds the wait for the others too. After an
// error the names are those of ours that were committed before it, and Up can be run again.
//
// Up holds a session advisory lock on one connection of its own, and River's migrator uses a second
// one. The URL must lead straight to PostgreSQL: behind PgBouncer in transaction mode a session lock
// protects nothing, two processes could even hold it both. So Up refuses any pooler ([ErrPooler]), and a lock
// that it finds lost all the same ([ErrLockLost]). It refuses a database with an altered migration ([ErrChecksum]) or one from a newer release ([ErrNewerDatabase]). A nil log
// discards.
func Up(ctx context.Context, databaseURL string, log *slog.Logger) ([]string, error) {
	return up(ctx, databaseURL, embedded, log)
}

func up(ctx context.Context, databaseURL string, fsys fs.FS, log *slog.Logger) (applied []string, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	migrations, err := load(fsys)
	if err != nil {
		return nil, err
	}
	config, err := connectionConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig.Copy())
	if errors.Is(err, ErrPooler) {
		return nil, fmt.Errorf("migrate: %w", ErrPooler) // without the words for a server that cannot be reached
	}
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()

	if err := lock(ctx, conn, log); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if err := refuse(ctx, conn, migrations); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	applied, err = upRiver(ctx, config, log)
	if err != nil {
		return nil, fmt.Errorf("migrate River's tables: %w", err)
	}
	ours, err := upOurs(ctx, conn, migrations, log)
	return append(applied, ours...), err
}

// connectionConfig parses the URL with pgxpool's parser, because the same URL may carry pool_ settings
// that a plain connection would send to the server.
func connectionConfig(databaseURL string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("migrate: database URL: %w", err)
	}
	// One is all that River's migrator needs, and it leaves the server's connections to those who serve.
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	// Limits that a role has for its everyday work would cut a long migration, or the lock's
	// connection while it waits for River's.
	config.ConnConfig.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := refusePooler(ctx, conn); err != nil {
			return err // before anything is set on a session that others get next
		}
		return conn.Exec(ctx, fmt.Sprintf(
			`SET statement_timeout = 0; SET idle_session_timeout = 0; SET lock_timeout = %d`,
			tableLockTimeout.Milliseconds())).Close()
	}
	return config, nil
}

// refusePooler tells a pooler by the process id of its session, which is not that of the one that PostgreSQL gives.
func refusePooler(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err != nil {
		return fmt.Errorf("ask for the session: %w", err)
	}
	if string(results[0].Rows[0][0]) != strconv.FormatUint(uint64(conn.PID()), 10) {
		return ErrPooler
	}
	return nil
}

// lock takes the advisory lock. It asks again and again instead of waiting inside one statement: a
// waiting statement holds a snapshot, and CREATE INDEX CONCURRENTLY in the process that has the lock
// would wait for that snapshot for ever.
func lock(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for waited := false; ; waited = true {
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockKey)).Scan(&got); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got {
			return nil
		}
		if !waited {
			log.InfoContext(ctx, "migrate: another process is migrating; waiting for it")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process that is migrating: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func closeConn(ctx context.Context, conn *pgx.Conn) error {
	// The caller's context may be over; the lock is given back all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	if !conn.IsClosed() {
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, int64(lockKey)); err != nil {
			conn.Close(ctx) // the session's end releases the lock; the first error says more
			return fmt.Errorf("release the migration lock: %w", err)
		}
	}
	if err := conn.Close(ctx); err != nil {
		return fmt.Errorf("close the migration connection: %w", err)
	}
	return nil
}

// refuse returns an error if the database does not descend from these migrations.
func refuse(ctx context.Context, conn *pgx.Conn, migrations []migration) error {
	applied, err := appliedOurs(ctx, conn)
	if err != nil {
		return err
	}
	for _, version := range slices.Sorted(maps.Keys(applied)) {
		r := applied[version]
		if version > len(migrations) {
			return fmt.Errorf("%w: it has migration %s and this release ends at version %04d; run migrate of the newer release", ErrNewerDatabase, r.name, len(migrations))
		}
		if m := migrations[version-1]; r.checksum != m.checksum {
			return fmt.Errorf("%w: %s was applied with checksum %.12s, and %s here has %.12s; restore the file and put the change in a new migration", ErrChecksum, r.name, r.checksum, m.name, m.checksum)
		}
	}
	river, err := riverMigrations()
	if err != nil {
		return err
	}
	riverApplied, err := appliedRiver(ctx, conn)
	if err != nil {
		return err
	}
	newest := river[len(river)-1].Version
	for _, version := range slices.Sorted(maps.Keys(riverApplied)) {
		if version > newest {
			return fmt.Errorf("%w: River's tables are at version %d and this release knows %d; run migrate of the newer release", ErrNewerDatabase, version, newest)
		}
	}
	return nil
}

func upRiver(ctx context.Context, config *pgxpool.Config, log *slog.Logger) ([]string, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	result, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(result.Versions))
	for _, v := range result.Versions {
		names = append(names, riverName(v.Version, v.Name))
		log.InfoContext(ctx, "migrate: applied", "migration", names[len(names)-1], "duration_ms", v.Duration.Milliseconds())
	}
	return names, nil
}

func upOurs(ctx context.Context, conn *pgx.Conn, migrations []migration, log *slog.Logger) ([]string, error) {
	applied, err := appliedOurs(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var names []string
	for _, m := range migrations {
		if _, ok := applied[m.version]; ok {
			continue
		}
		start := time.Now()
		if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return apply(ctx, tx, m) }); err != nil {
			return names, fmt.Errorf("migrate %s (rolled back): %w", m.name, err)
		}
		names = append(names, m.name)
		log.InfoContext(ctx, "migrate: applied", "migration", m.name, "duration_ms", time.Since(start).Milliseconds())
	}
	return names, nil
}

func apply(ctx context.Context, tx pgx.Tx, m migration) error {
	// The same session may take its lock once more; another session (a pooler gave us a second one)
	// may not. This is how a lock that protects nothing is noticed.
	var held bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(lockKey)).Scan(&held); err != nil {
		return fmt.Errorf("check the migration lock: %w", err)
	}
	if !held {
		return ErrLockLost
	}
	_, err := tx.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS oncepay_migration (
			version    int         PRIMARY KEY,
			name       text        NOT NULL,
			checksum   text        NOT NULL,
			applied_at timestamptz NOT NULL DEFAULT now()
		)`)
	if err != nil {
		return fmt.Errorf("create oncepay_migration: %w", err)
	}
	if _, err := tx.Exec(ctx, m.sql); err != nil {
		return err
	}
	// COMMIT inside the file would have ended the transaction that keeps the change and its record together.
	if status := tx.Conn().PgConn().TxStatus(); status != 'T' {
		return errors.New("the file ends the transaction that it runs in")
	}
	_, err = tx.Exec(ctx, `INSERT INTO oncepay_migration (version, name, checksum) VALUES ($1, $2, $3)`, m.version, m.name, m.checksum)
	if err != nil {
		return fmt.Errorf("record the migration: %w", err)
	}
	return nil
}
