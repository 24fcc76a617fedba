package migrations_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/migrations/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func files(content ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(content); i += 2 {
		fsys[content[i]] = &fstest.MapFile{Data: []byte(content[i+1])}
	}
	return fsys
}

func upFrom(t *testing.T, url string, fsys fs.FS) []string {
	t.Helper()
	applied, err := migrations.UpFrom(t.Context(), url, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func exists(t *testing.T, conn *pgx.Conn, table string) bool {
	t.Helper()
	var there bool
	if err := conn.QueryRow(t.Context(), `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

func TestUpThenNothingIsPending(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	conn := connect(t, url)
	before, err := migrations.Pending(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) < 2 || !strings.HasPrefix(before[0], "river 001_") || !strings.HasPrefix(before[len(before)-1], "0") {
		t.Errorf("pending on an empty database: %v", before)
	}
	applied, err := migrations.Up(t.Context(), url+"&pool_max_conns=3", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(applied, before) {
		t.Errorf("applied %v, pending was %v", applied, before)
	}
	if after, err := migrations.Pending(t.Context(), conn); err != nil || len(after) > 0 {
		t.Errorf("pending after Up: %v, %v", after, err)
	}
	if again, err := migrations.Up(t.Context(), url, nil); err != nil || len(again) > 0 {
		t.Errorf("a second Up applied %v, %v", again, err)
	}
}

func TestFourAtOnceOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	want, err := migrations.Pending(t.Context(), connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	const processes = 4
	type result struct {
		applied []string
		err     error
	}
	results := make(chan result, processes)
	for range processes {
		go func() {
			applied, err := migrations.Up(t.Context(), url, nil)
			results <- result{applied, err}
		}()
	}
	var applied []string
	for range processes {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		applied = append(applied, r.applied...)
	}
	if !slices.Equal(applied, want) {
		t.Errorf("together they applied %v, want each of these once: %v", applied, want)
	}
}

// An index built concurrently waits for every older snapshot in the database, so a process that waits
// for the lock must not hold one.
func TestWaitingForTheLockHoldsNothingUp(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	holder := connect(t, url)
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock($1); CREATE TABLE busy (id int)`, pgx.QueryExecModeSimpleProtocol, int64(0x6f6e6365706179)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := migrations.Up(t.Context(), url, nil); done <- err }()
	awaitSecondSession(t, holder)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := holder.Exec(ctx, `CREATE INDEX CONCURRENTLY ON busy (id)`); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("Up did not wait for the lock: %v", err)
	default:
	}
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWaitForTheLockIsBoundedByTheContext(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	holder := connect(t, url)
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, int64(0x6f6e6365706179)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := migrations.Up(ctx, url, nil); done <- err }()
	awaitSecondSession(t, holder)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Up: %v", err)
	}
	if exists(t, holder, "river_migration") || exists(t, holder, "oncepay_migration") {
		t.Error("Up migrated without the lock")
	}
}

func awaitSecondSession(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var others int
		err := conn.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_try_advisory_lock%'`).Scan(&others)
		if err != nil {
			t.Fatal(err)
		}
		if others > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("Up never asked for the lock")
		}
	}
}

func TestAlteredMigrationIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	upFrom(t, url, files("0001_a.sql", "CREATE TABLE a ()"))
	_, err := migrations.UpFrom(t.Context(), url, files("0001_a.sql", "CREATE TABLE a (id int)", "0002_b.sql", "CREATE TABLE b ()"), nil)
	if !errors.Is(err, migrations.ErrChecksum) || !strings.Contains(err.Error(), "0001_a") {
		t.Fatalf("Up: %v", err)
	}
	if exists(t, connect(t, url), "b") {
		t.Error("it went on with the next migration")
	}
	// A checkout with other line ends is the same file.
	upFrom(t, url, files("0001_a.sql", "CREATE TABLE a ()", "0002_b.sql", "CREATE TABLE b\n()"))
	upFrom(t, url, files("0001_a.sql", "CREATE TABLE a ()", "0002_b.sql", "CREATE TABLE b\r\n()"))
}

func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	older := files("0001_a.sql", "CREATE TABLE a ()")
	newer := files("0001_a.sql", "CREATE TABLE a ()", "0002_b.sql", "CREATE TABLE b ()")

	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Empty(t)
		upFrom(t, url, newer)
		if _, err := migrations.UpFrom(t.Context(), url, older, nil); !errors.Is(err, migrations.ErrNewerDatabase) || !strings.Contains(err.Error(), "0002_b") {
			t.Errorf("Up of the older release: %v", err)
		}
		if pending, err := migrations.PendingFrom(t.Context(), connect(t, url), older); err != nil || len(pending) > 0 {
			t.Errorf("the older release is not ready on the newer schema: %v, %v", pending, err)
		}
	})
	t.Run("river's", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Empty(t)
		upFrom(t, url, older)
		conn := connect(t, url)
		if _, err := conn.Exec(t.Context(), `INSERT INTO river_migration (line, version) VALUES ('main', 999)`); err != nil {
			t.Fatal(err)
		}
		if _, err := migrations.UpFrom(t.Context(), url, older, nil); !errors.Is(err, migrations.ErrNewerDatabase) || !strings.Contains(err.Error(), "River") {
			t.Errorf("Up: %v", err)
		}
		if pending, err := migrations.PendingFrom(t.Context(), conn, older); err != nil || len(pending) > 0 {
			t.Errorf("not ready on the newer schema: %v, %v", pending, err)
		}
	})
}

func TestPendingNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	upFrom(t, url, files("0001_a.sql", "CREATE TABLE a ()"))
	conn := connect(t, url)
	two := files("0001_a.sql", "CREATE TABLE a ()", "0002_b.sql", "CREATE TABLE b ()")
	if pending, err := migrations.PendingFrom(t.Context(), conn, two); err != nil || !slices.Equal(pending, []string{"0002_b"}) {
		t.Errorf("pending: %v, %v", pending, err)
	}
	// An older River, of before its table had lines.
	if _, err := conn.Exec(t.Context(), `
		DROP TABLE river_migration;
		CREATE TABLE river_migration (id bigserial, created_at timestamptz, version bigint);
		INSERT INTO river_migration (version) SELECT generate_series(1, 4)`); err != nil {
		t.Fatal(err)
	}
	pending, err := migrations.PendingFrom(t.Context(), conn, two)
	if err != nil || len(pending) < 2 || !strings.HasPrefix(pending[0], "river 005_") || pending[len(pending)-1] != "0002_b" {
		t.Errorf("pending with an old River: %v, %v", pending, err)
	}
}

func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	bad := files("0001_a.sql", "CREATE TABLE a ()", "0002_b.sql", "CREATE TABLE b (); SELECT 1/0")
	applied, err := migrations.UpFrom(t.Context(), url, bad, nil)
	if err == nil || !strings.Contains(err.Error(), "0002_b") || !strings.Contains(err.Error(), "division by zero") {
		t.Fatalf("Up: %v", err)
	}
	if !slices.Contains(applied, "0001_a") || slices.Contains(applied, "0002_b") {
		t.Errorf("applied %v", applied)
	}
	conn := connect(t, url)
	if !exists(t, conn, "a") || exists(t, conn, "b") {
		t.Error("want a and not b")
	}
	// Mended, it goes on from there.
	if applied := upFrom(t, url, files("0001_a.sql", "CREATE TABLE a ()", "0002_b.sql", "CREATE TABLE b ()")); !slices.Equal(applied, []string{"0002_b"}) {
		t.Errorf("applied %v", applied)
	}
}

func TestMigrationMustNotEndItsTransaction(t *testing.T) {
	t.Parallel()
	_, err := migrations.UpFrom(t.Context(), pgtest.Empty(t), files("0001_a.sql", "CREATE TABLE a (); COMMIT"), nil)
	if err == nil || !strings.Contains(err.Error(), "transaction") {
		t.Errorf("Up: %v", err)
	}
}

func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	if _, err := migrations.Up(t.Context(), pgtest.Empty(t)+"&user=nobody_here&password=secret", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Up: %v", err)
	}
}

func TestFilesAreChecked(t *testing.T) {
	t.Parallel()
	if got, err := migrations.Load(migrations.Embedded); err != nil || len(got) == 0 {
		t.Errorf("embedded: %d migrations, %v", len(got), err)
	}
	for name, fsys := range map[string]fs.FS{
		"gap":          files("0001_a.sql", "", "0003_c.sql", ""),
		"double":       files("0001_a.sql", "", "0001_b.sql", ""),
		"no version":   files("charges.sql", ""),
		"from zero":    files("0000_a.sql", ""),
		"short number": files("1_a.sql", ""),
	} {
		if _, err := migrations.Load(fsys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
