package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/outbox"
)

// database is the setting that all but the clients of the API share.
type database struct {
	DatabaseURL string        `env:"DATABASE_URL" required:"" placeholder:"URL" help:"PostgreSQL 14 or newer, as postgres://user:password@host/database."`
	Conns       int32         `name:"database-conns" env:"ONCEPAY_DATABASE_CONNS" default:"20" help:"Most connections that this process opens to do its work. Its readiness uses one more."`
	Pooler      outbox.Pooler `name:"database-pooler" env:"ONCEPAY_DATABASE_POOLER" enum:"none,session,transaction" default:"none" help:"What the address leads through: none, or a pooler such as PgBouncer that gives each client a session of its own (session), or one for each transaction (transaction)."`
}

// Validate refuses what cannot work, without connecting.
func (d database) Validate() error {
	if d.Conns < 2 || d.Conns > 1000 {
		return fmt.Errorf("--database-conns must be from 2 to 1000")
	}
	if _, err := pgxpool.ParseConfig(d.DatabaseURL); err != nil {
		return fmt.Errorf("--database-url cannot be used: %s", reasonAlone(err))
	}
	return nil
}

// reasonAlone cuts the URL out of the parser's error: it is repeated there, and not every way to write a password is
// found and masked.
func reasonAlone(err error) string {
	text := err.Error()
	return strings.TrimPrefix(text[strings.LastIndex(text, "`")+1:], ": ")
}

// backend is the domain on one database.
type backend struct {
	pool    *pgxpool.Pool
	probe   *pgxpool.Pool // one connection, to tell readiness by when the others are busy
	outbox  *outbox.Outbox
	ready   *outbox.Outbox // through probe: it is asked how the providers are
	charges *charges.Service
}

// open makes the domain. It does not connect yet.
func (d database) open(ctx context.Context, name string, options charges.Options) (*backend, error) {
	pool, err := outbox.Open(ctx, d.DatabaseURL, "oncepay-"+name, d.Conns, d.Pooler)
	if err != nil {
		return nil, usageError{err}
	}
	probe, err := outbox.Open(ctx, d.DatabaseURL, "oncepay-"+name+"-probe", 1, d.Pooler)
	if err != nil {
		pool.Close()
		return nil, usageError{err}
	}
	b := &backend{pool: pool, probe: probe}
	if b.outbox, err = outbox.New(pool); err != nil {
		b.close()
		return nil, err
	}
	if b.ready, err = outbox.New(probe); err != nil {
		b.close()
		return nil, err
	}
	b.charges = charges.New(pool, b.outbox, options)
	return b, nil
}

func (b *backend) close() {
	b.pool.Close()
	b.probe.Close()
}

// openReady is open for a command that ends: what cannot be worked with is its error.
func (d database) openReady(ctx context.Context, name string, options charges.Options) (*backend, error) {
	b, err := d.open(ctx, name, options)
	if err != nil {
		return nil, err
	}
	if err := behind(ctx, b.pool); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// schema says why the database cannot be worked with; nil: it can.
func (b *backend) schema(ctx context.Context) error {
	var readOnly bool
	if err := outbox.NewReads(b.probe).QueryRow(ctx, `SELECT current_setting('transaction_read_only')::boolean`).Scan(&readOnly); err != nil {
		return fmt.Errorf("ask whether the database may be written: %w", err)
	}
	if readOnly {
		b.probe.Reset() // there may be another primary
		return errors.New("the database is read-only: it is a standby, or was made so")
	}
	return behind(ctx, b.probe)
}

func behind(ctx context.Context, pool *pgxpool.Pool) error {
	pending, err := migrations.Pending(ctx, outbox.NewReads(pool))
	if err != nil {
		return err
	}
	if len(pending) > 0 {
		return fmt.Errorf("the database's schema is behind this release: run oncepay migrate (missing: %s)", strings.Join(pending, ", "))
	}
	return nil
}

// awaitSchema waits until the database answers and its schema is there. It logs what it waits for, again when that changes, and
// the end of the wait.
func (b *backend) awaitSchema(ctx context.Context, log *slog.Logger) error {
	said := ""
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := b.schema(ctx)
		if err == nil {
			if said != "" {
				log.Info("database.ready")
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if why := strings.Join(reasons(err), "; "); why != said {
			said = why
			log.Warn("database.wait", "reason", why, "error", oneLine(err.Error()))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// perSecond is a rate, written "25/s" or "25".
type perSecond float64

// UnmarshalText reads a rate.
func (p *perSecond) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "/s"), 64)
	if err != nil || !(n >= 0.1 && n <= 10_000) { // so written, NaN is refused as well
		return fmt.Errorf("must be from 0.1 to 10000 calls per second, such as 25/s")
	}
	*p = perSecond(n)
	return nil
}
