package migrations_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/migrations/pgtest"
)

// Through PgBouncer, two processes can both hold the same session lock: it gives them the same session, one after the other. So nothing
// is migrated there, however many try, and nothing is left set on its sessions.
func TestUpRefusesAPooler(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{"transaction": "default_pool_size=3", "session": "pool_mode=session"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.Empty(t)
			pooled := pgtest.PgBouncer(t, direct, setting).URL
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					_, err := migrations.Up(t.Context(), pooled, nil)
					if !errors.Is(err, migrations.ErrPooler) || !strings.Contains(err.Error(), "--database-url") {
						t.Errorf("migrated through a pooler: %v", err)
					}
				})
			}
			all.Wait()
			conn := connect(t, direct)
			for _, table := range []string{"oncepay_migration", "river_migration"} {
				if exists(t, conn, table) {
					t.Errorf("%s was made without protection", table)
				}
			}
			var timeout string
			if err := connect(t, pooled+"&default_query_exec_mode=simple_protocol").QueryRow(t.Context(), `SHOW lock_timeout`).Scan(&timeout); err != nil {
				t.Fatal(err)
			}
			if timeout != "0" {
				t.Errorf("lock_timeout %s was left on a session that is not ours", timeout)
			}
		})
	}
}

// Whatever takes the lock away, the next migration notices.
func TestUpNoticesALostLock(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	const key = `x'6f6e6365706179'::bigint`
	const locks = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	fsys := files(
		"0001_loses_the_lock.sql", `SELECT pg_advisory_unlock(`+key+`);
			DO $$ BEGIN WHILE NOT EXISTS (`+locks+` AND NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;`,
		"0002_unprotected.sql", `CREATE TABLE unprotected ()`)
	other := connect(t, url)
	taken := make(chan error, 1)
	go func() {
		for held := false; !held; {
			if err := other.QueryRow(t.Context(), `SELECT EXISTS (`+locks+`)`).Scan(&held); err != nil {
				taken <- err
				return
			}
		}
		// It stands in line until the first migration commits, which still holds the lock for its transaction.
		_, err := other.Exec(t.Context(), `SELECT pg_advisory_lock(`+key+`)`)
		taken <- err
	}()
	_, err := migrations.UpFrom(t.Context(), url, fsys, nil)
	if !errors.Is(err, migrations.ErrLockLost) {
		t.Errorf("went on without the lock: %v", err)
	}
	if err := <-taken; err != nil {
		t.Error(err)
	}
	if exists(t, connect(t, url), "unprotected") {
		t.Error("the second migration was applied")
	}
}
