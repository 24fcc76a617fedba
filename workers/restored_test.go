package workers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/migrations/pgtest"
)

// restore is a way to bring a database back to what it was.
type restore interface {
	live() *pgxpool.Pool
	backup()
	restored() *pgxpool.Pool
}

// I2: a database that was restored does not know what was sent since the backup. Callers come back with the same keys, and get a charge with
// another id; what was made under their keys is looked for first, and adopted, while Stripe remembers the keys and a day later.
func TestRestored(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name    string
		make    func(*testing.T) restore
		declare bool
	}{
		{"base backup on a new timeline", newServerRestore, false},
		{"copy of the files, started as after a crash", newFilesRestore, false},
		{"copy on the same server", newCopyRestore, false},
	} {
		for _, later := range []time.Duration{0, 25 * time.Hour} {
			t.Run(how.name+" after "+later.String(), func(t *testing.T) {
				t.Parallel()
				testRestored(t, how.make(t), how.declare, later)
			})
		}
	}
}

func testRestored(t *testing.T, db restore, declare bool, later time.Duration) {
	r := newRigOn(t, db.live(), charges.Options{})
	kept, waiting, lost, regular, changed, fresh := uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	customer := func(q *charges.Request) { q.Customer = "cus_sandbox" }
	r.start()
	r.awaitStatus(r.createAs(kept), charges.Succeeded)
	r.stop()
	r.createAs(waiting) // is in the backup, and its attempt is not
	db.backup()
	r = r.on(db.live(), charges.Options{})
	r.start()
	r.awaitStatus(r.createAs(lost), charges.Succeeded)
	r.awaitStatus(r.createAs(regular, customer), charges.Succeeded)
	r.awaitStatus(r.createAs(changed), charges.Succeeded) // what tells that it was for no customer will be lost
	r.await("what waited to be sent", func() bool {
		return r.count(`SELECT count(*) FROM charge WHERE status = 'succeeded'`) == 5
	})
	r.stop()

	r = r.on(db.restored(), charges.Options{})
	defer func() { r.stop() }()
	if n := r.count(`SELECT count(*) FROM charge`); n != 2 {
		t.Fatalf("the backup holds %d charges, want 2", n)
	}
	if declare {
		if _, err := r.charges.DeclareRestored(t.Context(), time.Time{}, "operator:test", "snapshot of the disk"); err != nil {
			t.Fatal(err)
		}
	}
	if later > 0 {
		r.away(later)
	}
	for _, key := range []uuid.UUID{kept, waiting, lost, fresh} {
		r.createAs(key)
	}
	r.createAs(regular, customer)
	r.createAs(changed, customer)
	r.start()
	r.await("every key's charge to have succeeded", func() bool {
		if n := r.count(`SELECT count(*) FROM charge WHERE status = 'needs_review'`); n > 0 {
			t.Fatalf("%d charges wait for a person", n)
		}
		return r.count(`SELECT count(*) FROM charge WHERE status = 'succeeded'`) == 6
	})
	posted := r.posts()
	for _, key := range []uuid.UUID{kept, waiting, lost, regular, changed, fresh} {
		if n := len(slices.DeleteFunc(slices.Clone(posted), func(k string) bool { return k != key.String() })); n != 1 {
			t.Errorf("key %s was sent %d times", key, n)
		}
	}
	if n := len(r.sandbox.Ledger().PaymentIntents); n != 6 {
		t.Errorf("%d payments under 6 keys", n)
	}
	if n := r.count(`SELECT count(*) FROM restoration`); n != 1 {
		t.Errorf("%d restorations, want 1", n)
	}
	if n := r.count(`SELECT count(*) FROM reading`); n != 1 {
		t.Errorf("%d readings, want one for all", n)
	}
	lists := r.lists()
	r.awaitStatus(r.create(), charges.Succeeded)
	r.awaitStatus(r.create(customer), charges.Succeeded)
	if r.lists() != lists {
		t.Error("the list was read again for a charge that came later")
	}
}

// serverRestore is a server of its own that is stopped, copied, and recovered from the copy: PostgreSQL then begins a new timeline.
type serverRestore struct {
	t      *testing.T
	dir    string
	copy   string
	server *pgtest.Server
	crash  bool // the copy is started without a word of its being one, so that it goes on on its timeline
}

func newFilesRestore(t *testing.T) restore {
	s := newServerRestore(t).(*serverRestore)
	s.crash = true
	return s
}

const restoredName = "oncepay"

func newServerRestore(t *testing.T) restore {
	base, err := os.MkdirTemp("", "oncepay-restored-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil { // as root, PostgreSQL runs as somebody else
		t.Fatal(err)
	}
	s := &serverRestore{t: t, dir: filepath.Join(base, "live"), copy: filepath.Join(base, "copy")}
	s.start(s.dir)
	if err := s.server.CreateDatabase(t.Context(), restoredName); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), s.server.URL(restoredName), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *serverRestore) start(dir string) {
	s.t.Helper()
	server, err := pgtest.Start(s.t.Context(), pgtest.Options{DataDir: dir})
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = server
	s.t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
}

func (s *serverRestore) stop() {
	s.t.Helper()
	if err := s.server.Stop(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *serverRestore) live() *pgxpool.Pool { return poolOn(s.t, s.server.URL(restoredName)) }

func (s *serverRestore) backup() {
	s.t.Helper()
	if s.crash { // a backup is older than the seconds that this test takes
		if _, err := s.live().Exec(s.t.Context(), `UPDATE database_identity SET seen_at = seen_at - interval '1 hour'`); err != nil {
			s.t.Fatal(err)
		}
	}
	s.stop()
	if out, err := exec.Command("cp", "-a", s.server.Dir(), s.copy).CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	s.start(s.dir)
}

func (s *serverRestore) restored() *pgxpool.Pool {
	s.t.Helper()
	s.stop()
	if s.crash {
		s.start(s.copy)
		return s.live()
	}
	cluster := filepath.Join(s.copy, "cluster")
	settings, err := os.OpenFile(filepath.Join(cluster, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer settings.Close()
	if _, err := settings.WriteString("restore_command = 'false'\n"); err != nil {
		s.t.Fatal(err)
	}
	signal := filepath.Join(cluster, "recovery.signal")
	if out, err := exec.Command("cp", "-p", filepath.Join(cluster, "PG_VERSION"), signal).CombinedOutput(); err != nil { // with its owner
		s.t.Fatalf("%v\n%s", err, out)
	}
	s.start(s.copy)
	pool := poolOn(s.t, s.server.URL(restoredName))
	for end, recovering := time.Now().Add(settle), true; recovering; { // it is open for reading a moment earlier
		if err := pool.QueryRow(s.t.Context(), `SELECT pg_is_in_recovery()`).Scan(&recovering); err != nil || time.Now().After(end) {
			s.t.Fatalf("the recovery does not end: %v", err)
		}
		time.Sleep(10 * time.Millisecond) // the pace of the poll
	}
	return pool
}

// copyRestore copies a database within its server, which stays what it was.
type copyRestore struct {
	t    *testing.T
	url  string
	name string
}

func newCopyRestore(t *testing.T) restore {
	url := pgtest.URL(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return &copyRestore{t, url, config.Database}
}

// named is the URL of another database on the server.
func (c *copyRestore) named(name string) string {
	return strings.Replace(c.url, "/"+c.name+"?", "/"+name+"?", 1)
}

func (c *copyRestore) exec(sql string) {
	c.t.Helper()
	ctx := context.Background() // also when the test is over
	admin, err := pgx.Connect(ctx, c.named("postgres"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

func (c *copyRestore) live() *pgxpool.Pool { return poolOn(c.t, c.url) }

func (c *copyRestore) backup() {
	c.t.Helper()
	c.exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + c.name + "'")
	c.exec("CREATE DATABASE b" + c.name + " TEMPLATE " + c.name)
	c.t.Cleanup(func() { c.exec("DROP DATABASE b" + c.name + " WITH (FORCE)") })
}

func (c *copyRestore) restored() *pgxpool.Pool { return poolOn(c.t, c.named("b"+c.name)) }

func poolOn(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
