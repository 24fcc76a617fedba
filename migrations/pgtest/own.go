package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/migrations"
)

// ownDatabase is the database of a server from [Own].
const ownDatabase = "oncepay"

// Own starts a durable server for this test alone, which may be killed and restarted, and returns it with the URL of a database on it
// that has the full schema. It costs a second or two: a test that leaves its server alone takes [URL].
func Own(t testing.TB) (s *Server, url string) {
	t.Helper()
	dir, err := testDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	s = startOwn(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), testStartTimeout)
	defer cancel()
	if err := s.CreateDatabase(ctx, ownDatabase); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	url = s.URL(ownDatabase)
	if _, err := migrations.Up(ctx, url, nil); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s, url
}

func startOwn(t testing.TB, dir string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testStartTimeout)
	defer cancel()
	s, err := Start(ctx, Options{DataDir: dir, Durable: true})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testStepTimeout)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}

// Standby starts a server that follows primary, one of [Own], which is restarted for it and from then on waits until the standby has
// each commit; [Server.Promote] makes it the primary. It ends with the test.
func Standby(t testing.TB, primary *Server) *Server {
	t.Helper()
	dir, err := testDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), testStartTimeout)
	defer cancel()
	if err := primary.copyTo(ctx, dir); err != nil {
		t.Fatalf("pgtest: standby: %v", err)
	}
	s := startOwn(t, dir)
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `ALTER SYSTEM SET synchronous_commit = remote_apply`, `SELECT pg_reload_conf()`} {
		if err := primary.run(ctx, sql); err != nil {
			t.Fatalf("pgtest: standby: %v", err)
		}
	}
	return s
}

// copyTo makes the data directory of a standby.
func (s *Server) copyTo(ctx context.Context, dir string) error {
	p, err := openPlace(ctx, dir, s.place.as)
	if err != nil {
		return err
	}
	defer p.release()
	password, err := os.ReadFile(s.place.file(passwordName))
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(p.file(passwordName), password, 0o600), p.as.own(p.file(passwordName))); err != nil {
		return err
	}
	// A copy of a server that was shut down needs no tool of PostgreSQL's, which not every installation has.
	if err := s.main.end(ctx, s.log); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", s.place.cluster(), p.cluster()).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data: %w: %s", err, out)
	}
	signal := filepath.Join(p.cluster(), "standby.signal")
	if err := errors.Join(os.WriteFile(signal, nil, 0o600), p.as.own(signal)); err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(p.cluster(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "primary_conninfo = '%s'\n", s.URL("postgres"))
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	return s.Restart(ctx)
}

// Promote makes a standby the primary and returns when it is. It waits for nobody's copy.
func (s *Server) Promote(ctx context.Context) error {
	return s.run(ctx, `SELECT pg_promote()`)
}

func (s *Server) run(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
