package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// What PostgreSQL itself enforces on each of our sessions, so that neither a lost client nor a lock can hold others up.
var sessionBounds = map[string]string{
	"statement_timeout":                   "15s",
	"lock_timeout":                        "5s", // a key in flight for longer is answered "in use"
	"idle_in_transaction_session_timeout": "15s",
}

// Open returns a pool on the database at url, a PostgreSQL connection URL or keyword string. name is shown in
// pg_stat_activity; conns bounds the pool. It connects lazily: a database that is away is an error of the first query.
func Open(ctx context.Context, url, name string, conns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = conns
	config.MaxConnLifetime = 30 * time.Minute // so that a failover is noticed without a restart
	config.MaxConnIdleTime = 5 * time.Minute
	config.HealthCheckPeriod = 15 * time.Second
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.ConnConfig.RuntimeParams["application_name"] = name
	for param, bound := range sessionBounds {
		config.ConnConfig.RuntimeParams[param] = bound
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database pool: %w", err)
	}
	return pool, nil
}
