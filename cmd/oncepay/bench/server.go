package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/migrations/pgtest"
)

// settings are those of a machine that is PostgreSQL's alone; what is not named is as PostgreSQL ships it. That commits are durable
// is its default, and checked on every connection.
var settings = map[string]string{
	"shared_buffers":     sharedBuffers(),
	"max_wal_size":       "8GB", // no checkpoint because of the log within a round
	"checkpoint_timeout": "15min",
	"wal_buffers":        "16MB",
}

// mustBe are the settings without which a commit may be lost.
var mustBe = map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

// shown are the settings that the report tells.
var shown = []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size",
	"checkpoint_timeout", "wal_buffers", "max_connections", "autovacuum"}

// startServer runs PostgreSQL. Whatever directory it needs is removed at the end of the run.
func (b *bench) startServer(ctx context.Context) (err error) {
	if b.syncs, err = measureSync(b.dir); err != nil {
		return err
	}
	if b.syncs < fastestSync {
		return fmt.Errorf("a sync to %s takes %s, so it is no disk: give a directory on one with --data-dir", b.dir, b.syncs)
	}
	b.server, err = pgtest.Start(ctx, pgtest.Options{DataDir: filepath.Join(b.dir, "postgres"), Durable: true, Settings: settings})
	if err != nil {
		return err
	}
	b.admin, err = b.open(ctx, b.server.URL("postgres"))
	if err != nil {
		return err
	}
	for _, name := range shown {
		var value string
		if err := b.admin.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return err
		}
		b.report.Settings[name] = value
	}
	if err := b.compressLog(ctx); err != nil {
		return err
	}
	var backend int
	if err := b.admin.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return err
	}
	if s, err := readStat(strconv.Itoa(backend)); err == nil { // an error: there is no /proc, and no CPU time in the report
		b.postmaster = s.parent
	}
	return nil
}

// sharedBuffers is a quarter of the machine's memory, as PostgreSQL's documentation advises, at most 8 GB; 1 GB where that is not to be read.
// https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-SHARED-BUFFERS
func sharedBuffers() string {
	var kB int
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		_, _ = fmt.Sscanf(string(info), "MemTotal: %d kB", &kB) // 0 where it says nothing
	}
	if kB == 0 {
		return "1GB"
	}
	return fmt.Sprint(min(kB/1024/4, 8<<10), "MB")
}

// compressLog lets the server compress the pages that it writes to its log whole, each when it is first changed after a checkpoint. Where keys
// are random, nearly every charge changes another page of a large index.
func (b *bench) compressLog(ctx context.Context) error {
	const set = `SELECT CASE WHEN 'lz4' = ANY (enumvals) THEN 'lz4' ELSE 'on' END FROM pg_settings WHERE name = 'wal_compression'`
	var how string
	if err := b.admin.QueryRow(ctx, set).Scan(&how); err != nil {
		return err
	}
	if _, err := b.admin.Exec(ctx, `ALTER SYSTEM SET wal_compression = `+how); err != nil {
		return err
	}
	if _, err := b.admin.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
		return err
	}
	b.report.Settings["wal_compression"] = how
	return nil
}

// fastestSync is quicker than any disk that keeps what it was given.
const fastestSync = 5 * time.Microsecond

// measureSync is the median time that a write and sync of one page takes.
func measureSync(dir string) (time.Duration, error) {
	file, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var took []time.Duration
	for range 100 {
		began := time.Now()
		if _, err := file.WriteAt(make([]byte, 8192), 0); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// open opens a pool of ours, every connection of which is durable, or fails.
func (b *bench) open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = "oncepay-bench"
	config.AfterConnect = assertDurable
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		b.pools = append(b.pools, pool)
		err = pool.Ping(ctx)
	}
	return pool, err
}

// assertDurable refuses a session whose commits may be lost, and a database or role that would give others such a session. A session of the
// product's or of pgbench's takes what those give: neither has the settings in its address or its source, which a test sees to.
func assertDurable(ctx context.Context, conn *pgx.Conn) error {
	for name, want := range mustBe {
		var is, anybodys string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1), reset_val FROM pg_settings WHERE name = $1`, name).Scan(&is, &anybodys); err != nil {
			return fmt.Errorf("ask whether commits are durable: %w", err)
		}
		if is != want || anybodys != want {
			return fmt.Errorf("commits are not durable: %s is %s in this session and %s in new ones", name, is, anybodys)
		}
	}
	var exceptions int
	const overridden = `SELECT count(*) FROM pg_db_role_setting s, unnest(s.setconfig) AS c (setting) WHERE split_part(c.setting, '=', 1) = ANY ($1)`
	if err := conn.QueryRow(ctx, overridden, []string{"fsync", "synchronous_commit", "full_page_writes"}).Scan(&exceptions); err != nil {
		return fmt.Errorf("ask whether commits are durable: %w", err)
	}
	if exceptions > 0 {
		return errors.New("commits are not durable: a database or a role has settings of its own")
	}
	return nil
}

// database is one of the server's, with the schema, a caller's token and its stock.
type database struct {
	name, url string
	pool      *pgxpool.Pool
}

// database makes one, as a copy of one that was migrated.
func (b *bench) database(ctx context.Context, name string) (*database, error) {
	const migrated = "migrated"
	if b.databases == 0 {
		if err := b.server.CreateDatabase(ctx, migrated); err != nil {
			return nil, err
		}
		if _, err := migrations.Up(ctx, b.server.URL(migrated), nil); err != nil {
			return nil, err
		}
	}
	b.databases++
	copying := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", pgx.Identifier{name}.Sanitize(), migrated)
	if _, err := b.admin.Exec(ctx, copying); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	d := &database{name: name, url: b.server.URL(name)}
	var err error
	if d.pool, err = b.open(ctx, d.url); err != nil {
		return nil, err
	}
	return d, d.prepare(ctx)
}

func (d *database) count(ctx context.Context, query string, args ...any) (n int, err error) {
	if err = d.pool.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		err = fmt.Errorf("%s: %w", query, err)
	}
	return n, err
}
