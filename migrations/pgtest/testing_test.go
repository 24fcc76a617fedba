package pgtest

import (
	"os"
	"testing"

	"github.com/oncepay/oncepay/migrations"
)

func TestDatabasesAreIsolated(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("one of four", func(t *testing.T) {
			t.Parallel()
			pool := New(t)
			// Each would trip over another's table.
			if _, err := pool.Exec(t.Context(), `CREATE TABLE mine (id int PRIMARY KEY)`); err != nil {
				t.Error(err)
			}
			if pending, err := migrations.Pending(t.Context(), pool); err != nil || len(pending) > 0 {
				t.Errorf("a fresh database lacks %v, %v", pending, err)
			}
		})
	}
}

func TestEmptyDatabaseIsEmpty(t *testing.T) {
	t.Parallel()
	if n := query[int](t, Empty(t), `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`); n != 0 {
		t.Errorf("%d relations in an empty database", n)
	}
}

func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("test", func(t *testing.T) {
		name = query[string](t, URL(t), `SELECT current_database()`)
	})
	if there := query[bool](t, shared.server.URL("postgres"), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = '`+name+`')`); there {
		t.Errorf("database %s outlived its test", name)
	}
}

func TestEnvironmentIsIgnored(t *testing.T) {
	for name, value := range map[string]string{
		"DATABASE_URL": "postgres://elsewhere/", "PGHOST": "elsewhere", "PGPORT": "1", "PGUSER": "somebody",
		"PGDATABASE": "other", "PGSERVICE": "none", "PGOPTIONS": "-c search_path=nowhere", "PGTARGETSESSIONATTRS": "read-only",
	} {
		t.Setenv(name, value)
	}
	IgnoreEnvironment()
	if value, ok := os.LookupEnv("PGHOST"); ok {
		t.Errorf("PGHOST is still %q", value)
	}
	if got := query[string](t, URL(t), `SHOW search_path`); got != `"$user", public` {
		t.Errorf("search_path is %s", got)
	}
}
