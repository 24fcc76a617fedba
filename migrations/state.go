package migrations

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Querier is a connection, a pool or a transaction of pgx.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Pending returns the names of the migrations that this binary needs and the database does not have,
// in the order in which [Up] would apply them; none means that the schema is good enough to serve on.
// River's are named "river 008_job_id_autoincrement", ours "0001_charge". Migrations in the database
// that this binary does not know are no concern of Pending: a newer schema accepts older code.
func Pending(ctx context.Context, db Querier) ([]string, error) {
	return pending(ctx, db, embedded)
}

func pending(ctx context.Context, db Querier, fsys fs.FS) ([]string, error) {
	migrations, err := load(fsys)
	if err != nil {
		return nil, err
	}
	river, err := riverMigrations()
	if err != nil {
		return nil, err
	}
	riverApplied, err := appliedRiver(ctx, db)
	if err != nil {
		return nil, err
	}
	applied, err := appliedOurs(ctx, db)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range river {
		if !riverApplied[m.Version] {
			names = append(names, riverName(m.Version, m.Name))
		}
	}
	for _, m := range migrations {
		if _, ok := applied[m.version]; !ok {
			names = append(names, m.name)
		}
	}
	return names, nil
}

// record is a row of oncepay_migration.
type record struct {
	name     string
	checksum string
}

// appliedOurs returns our migrations in the database by version; none when the table is not there.
func appliedOurs(ctx context.Context, db Querier) (map[int]record, error) {
	exists, err := tableExists(ctx, db, "oncepay_migration")
	if err != nil || !exists {
		return nil, err
	}
	rows, err := db.Query(ctx, `SELECT version, name, checksum FROM oncepay_migration`)
	if err != nil {
		return nil, fmt.Errorf("read oncepay_migration: %w", err)
	}
	applied := map[int]record{}
	var version int
	var r record
	_, err = pgx.ForEachRow(rows, []any{&version, &r.name, &r.checksum}, func() error {
		applied[version] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read oncepay_migration: %w", err)
	}
	return applied, nil
}

// appliedRiver returns the versions of River's main line in the database; none when its table is not
// there. The table has had the column line only since River's version 5.
func appliedRiver(ctx context.Context, db Querier) (map[int]bool, error) {
	exists, err := tableExists(ctx, db, "river_migration")
	if err != nil || !exists {
		return nil, err
	}
	rows, err := db.Query(ctx, `
		SELECT version::int FROM river_migration AS m
		WHERE coalesce(to_jsonb(m)->>'line', 'main') = 'main'`)
	if err != nil {
		return nil, fmt.Errorf("read river_migration: %w", err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("read river_migration: %w", err)
	}
	applied := make(map[int]bool, len(versions))
	for _, version := range versions {
		applied[version] = true
	}
	return applied, nil
}

func tableExists(ctx context.Context, db Querier, table string) (bool, error) {
	var exists bool
	if err := db.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for table %s: %w", table, err)
	}
	return exists, nil
}

// riverMigrations returns what this binary's River wants, in order of version. No database is asked.
func riverMigrations() ([]rivermigrate.Migration, error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return nil, fmt.Errorf("load River's migrations: %w", err)
	}
	return migrator.AllVersions(), nil
}

func riverName(version int, name string) string {
	return fmt.Sprintf("river %03d_%s", version, name)
}
