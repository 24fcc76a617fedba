package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations"
)

const (
	testDirPrefix = "oncepay-pgtest-"
	template      = "template_oncepay"

	// abandonedAfter is the age from which a test directory without an owner is removed. A test binary
	// that was killed could not do it.
	abandonedAfter = 10 * time.Minute

	testStartTimeout = 5 * time.Minute // npm may have to bring the programs
	testStepTimeout  = time.Minute     // one CREATE or DROP DATABASE on a busy machine
	poolCloseTimeout = 10 * time.Second
	testPoolConns    = 10
)

// Main runs the tests of a package and exits; call it from TestMain. The server that [New], [URL] and
// [Empty] need is started when the first of them is called, and is gone with its directory when Main exits.
// Main takes DATABASE_URL and PostgreSQL's PG* variables out of the environment, see [IgnoreEnvironment].
func Main(m interface{ Run() int }) {
	os.Exit(Run(m))
}

// Run is Main without the exit, for a TestMain that has more to do afterwards.
func Run(m interface{ Run() int }) (code int) {
	IgnoreEnvironment()
	shared.expected.Store(true)
	defer func() {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}

// WaitTogether runs up to eight parallel tests of a package at once, unless -parallel says otherwise, however few
// processors there are. It is for packages whose tests wait for other processes most of their time; call it before [Main].
func WaitTogether() {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return
	}
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) // only outside of a test binary
	}
}

// IgnoreEnvironment removes from this process's environment what would lead pgx, or a program started
// later, to another server than the one that its URL names, or change its session there.
func IgnoreEnvironment() {
	for _, name := range []string{
		"DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE",
		"PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGSSLMODE", "PGSSLCERT", "PGSSLKEY", "PGSSLROOTCERT",
		"PGSSLPASSWORD", "PGOPTIONS", "PGAPPNAME", "PGCONNECT_TIMEOUT", "PGTARGETSESSIONATTRS", "PGTZ",
		"PGMINPROTOCOLVERSION", "PGMAXPROTOCOLVERSION", "PGDATA",
	} {
		if err := os.Unsetenv(name); err != nil {
			panic(err) // only for a malformed name
		}
	}
}

// New returns a pool of at most 10 connections on a fresh database with the full schema. At the end of
// the test the pool is closed and the database dropped; a connection that the test has not given back
// by then is an error of the test.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(URL(t))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.MaxConns = testPoolConns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(poolCloseTimeout):
			t.Errorf("pgtest: %d connections of the pool are still in use at the end of the test", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// URL returns the URL of a fresh database with the full schema, which is dropped at the end of the
// test, whoever is still connected.
func URL(t testing.TB) string {
	t.Helper()
	return shared.database(t, template)
}

// Empty is URL for a database without any schema.
func Empty(t testing.TB) string {
	t.Helper()
	return shared.database(t, "template0")
}

// shared is the one server of a test binary.
var shared testServer

type testServer struct {
	expected atomic.Bool // Main runs and will stop the server
	number   atomic.Int64

	startOnce    sync.Once
	startErr     error
	templateOnce sync.Once
	templateErr  error

	server *Server
	admin  *pgxpool.Pool
}

func (s *testServer) database(t testing.TB, from string) string {
	t.Helper()
	if !s.expected.Load() {
		t.Fatal("pgtest: the package needs func TestMain(m *testing.M) { pgtest.Main(m) }")
	}
	s.startOnce.Do(func() { s.startErr = s.start() })
	if s.startErr != nil {
		t.Fatalf("pgtest: %v", s.startErr)
	}
	if from == template {
		s.templateOnce.Do(func() { s.templateErr = s.makeTemplate() })
		if s.templateErr != nil {
			t.Fatalf("pgtest: template database: %v", s.templateErr)
		}
	}
	name := s.databaseName(t)
	quoted := pgx.Identifier{name}.Sanitize()
	create := "CREATE DATABASE " + quoted + " TEMPLATE " + from
	if s.server.programs.major >= 15 {
		create += " STRATEGY FILE_COPY" // a third faster here than writing all pages to the log; what 14 always does
	}
	if err := s.exec(create); err != nil {
		t.Fatalf("pgtest: create database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.exec("DROP DATABASE " + quoted + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop database: %v", err)
		}
	})
	return s.server.URL(name)
}

var unfitForName = regexp.MustCompile(`[^a-z0-9]+`)

// databaseName is unique and tells the test, for those who read the server's log.
func (s *testServer) databaseName(t testing.TB) string {
	name := unfitForName.ReplaceAllString(strings.ToLower(t.Name()), "_")
	return fmt.Sprintf("t%d_%.40s", s.number.Add(1), name) // PostgreSQL cuts names at 63 bytes
}

func (s *testServer) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testStepTimeout)
	defer cancel()
	_, err := s.admin.Exec(ctx, sql)
	return err
}

func (s *testServer) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), testStartTimeout)
	defer cancel()
	dir, err := testDir()
	if err != nil {
		return err
	}
	server, err := Start(ctx, Options{DataDir: dir})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s.server = server
	config, err := pgxpool.ParseConfig(server.URL("postgres"))
	if err != nil {
		return err
	}
	config.MaxConns = 4 // databases made at a time
	s.admin, err = pgxpool.NewWithConfig(ctx, config)
	return err
}

// testDir makes a directory for a server of this test binary, and removes those that killed ones left.
func testDir() (string, error) {
	as, err := unprivileged()
	if err != nil {
		return "", err
	}
	base, err := testBase(as)
	if err != nil {
		return "", err
	}
	if err := sweepTestDirs(base, time.Now().Add(-abandonedAfter)); err != nil {
		return "", err
	}
	return os.MkdirTemp(base, testDirPrefix+"*")
}

// testBase returns a directory for temporary data that the account can reach.
func testBase(as account) (string, error) {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		reachable, err := as.canEnter(dir)
		if err != nil {
			return "", err
		}
		if reachable {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%s, who runs PostgreSQL because root may not, can reach no directory for temporary files: set TMPDIR", as)
}

func sweepTestDirs(base string, before time.Time) error {
	dirs, err := filepath.Glob(filepath.Join(base, testDirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !isOurs(info) || info.ModTime().After(before) {
			continue // gone since, somebody else's, or perhaps about to be used
		}
		if err := removeIfUnused(dir); err != nil {
			return fmt.Errorf("remove an abandoned test directory: %w", err)
		}
	}
	return nil
}

func (s *testServer) makeTemplate() error {
	if err := s.exec("CREATE DATABASE " + template + " TEMPLATE template0"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testStepTimeout)
	defer cancel()
	if _, err := migrations.Up(ctx, s.server.URL(template), nil); err != nil {
		return err
	}
	// A database with a connection cannot be cloned.
	return s.exec("ALTER DATABASE " + template + " ALLOW_CONNECTIONS false")
}

func (s *testServer) stop() error {
	if s.admin != nil {
		s.admin.Close()
	}
	if s.server == nil {
		return nil
	}
	dir := s.server.Dir()
	return errors.Join(s.server.Stop(context.Background()), os.RemoveAll(dir))
}
