package pgtest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds waits for events that come within a second on an idle machine.
const patience = time.Minute

func TestServerKeepsItsDataOverRestart(t *testing.T) {
	t.Parallel()
	for durable, dir := range map[bool]string{true: filepath.Join(open(t), "data"), false: made(t)} {
		s := started(t, Options{DataDir: dir, Durable: durable})
		if err := s.CreateDatabase(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateDatabase(t.Context(), "app"); err != nil {
			t.Errorf("a second CreateDatabase: %v", err)
		}
		execute(t, s.URL("app"), `CREATE TABLE kept AS SELECT 42 AS answer`)
		want := "off"
		if durable {
			want = "on"
		}
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			if got := query[string](t, s.URL("app"), "SHOW "+name); got != want {
				t.Errorf("durable=%t: %s is %s", durable, name, got)
			}
		}
		stop(t, s)
		select {
		case <-s.Done():
			t.Error("Done tells of a death after a Stop")
		default:
		}
		again := started(t, Options{DataDir: dir, Durable: durable})
		if got := query[int](t, again.URL("app"), `SELECT answer FROM kept`); got != 42 {
			t.Errorf("read back %d", got)
		}
	}
}

func TestServerIsSetUpForEverybody(t *testing.T) {
	t.Parallel()
	s := started(t, Options{DataDir: made(t), Settings: map[string]string{"work_mem": "5MB", "listen_addresses": "*"}})
	for name, want := range map[string]string{
		"work_mem": "5MB", "server_encoding": "UTF8", "timezone": "UTC", "listen_addresses": "127.0.0.1",
		"unix_socket_directories": "", "password_encryption": "scram-sha-256",
	} {
		if got := query[string](t, s.URL("postgres"), "SHOW "+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	config, err := pgx.ParseConfig(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"", "guess"} {
		config.Password = password
		if conn, err := pgx.ConnectConfig(t.Context(), config.Copy()); err == nil {
			conn.Close(t.Context())
			t.Errorf("let in with password %q", password)
		}
	}
	for _, name := range []string{passwordName, logName} {
		info, err := os.Stat(s.place.file(name))
		if err != nil {
			t.Fatal(err)
		}
		if perm := info.Mode().Perm(); perm != 0o600 {
			t.Errorf("%s has mode %o", name, perm)
		}
	}
}

func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	dir := made(t)
	s := started(t, Options{DataDir: dir})
	_, err := Start(t.Context(), Options{DataDir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second start in one process: %v", err)
	}
	stop(t, s)

	cmd, _ := child(t, dir)
	_, err = Start(t.Context(), Options{DataDir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "process "+itoa(cmd.Process.Pid)) {
		t.Fatalf("second start in another process: %v", err)
	}
}

func TestTwoStartsAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(open(t), "data")
	type result struct {
		s   *Server
		err error
	}
	results := make(chan result, 2)
	for range 2 {
		go func() {
			s, err := Start(context.Background(), Options{DataDir: dir})
			results <- result{s, err}
		}()
	}
	running, refused := 0, 0
	for range 2 {
		switch r := <-results; {
		case r.err == nil:
			running++
			t.Cleanup(func() { stop(t, r.s) })
		case errors.Is(r.err, ErrInUse):
			refused++
		default:
			t.Error(r.err)
		}
	}
	if running != 1 || refused != 1 {
		t.Errorf("%d run, %d are refused", running, refused)
	}
}

func TestDeathIsReported(t *testing.T) {
	t.Parallel()
	dir := made(t)
	s := started(t, Options{DataDir: dir, Durable: true})
	execute(t, s.URL("postgres"), `CREATE TABLE kept AS SELECT 42 AS answer`)
	if s.Err() != nil {
		t.Errorf("Err of a living server: %v", s.Err())
	}
	if err := s.main.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("Done does not tell of the death")
	}
	if s.Err() == nil || !strings.Contains(s.Err().Error(), "killed") {
		t.Errorf("Err = %v", s.Err())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop of a dead server: %v", err)
	}
	again := started(t, Options{DataDir: dir})
	if got := query[int](t, again.URL("postgres"), `SELECT answer FROM kept`); got != 42 {
		t.Errorf("read back %d", got)
	}
}

func TestTakenPortIsTriedNoMore(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	picks := 0
	s := started(t, Options{DataDir: made(t), pickPort: func() (int, error) {
		if picks++; picks == 1 {
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}})
	if picks != 2 {
		t.Errorf("picked %d ports", picks)
	}
	query[int](t, s.URL("postgres"), `SELECT 1`)
}

func TestPort5432TakenMakesNoDifference(t *testing.T) {
	t.Parallel()
	// If it cannot be had, it is taken already.
	if taken, err := net.Listen("tcp4", "127.0.0.1:5432"); err == nil {
		defer taken.Close()
	}
	s := started(t, Options{DataDir: made(t)})
	query[int](t, s.URL("postgres"), `SELECT 1`)
}

func TestFailedStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := made(t)
	conf, err := os.OpenFile(filepath.Join(dir, clusterDir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conf.WriteString("no_such_setting = 1\n"); err != nil {
		t.Fatal(err)
	}
	conf.Close()
	_, err = Start(t.Context(), Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Fatalf("Start: %v", err)
	}
	// It has let go of the directory.
	file, held, err := lockFile(filepath.Join(dir, lockName))
	if err != nil || held {
		t.Fatalf("after a failed start: held=%t, %v", held, err)
	}
	file.Close()
}

func TestStartIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Start(ctx, Options{DataDir: made(t)}); err == nil {
		stop(t, s)
		t.Fatal("started under a context that was over")
	}
}

func TestClusterOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := made(t)
	if err := os.WriteFile(filepath.Join(dir, clusterDir, "PG_VERSION"), []byte("13\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "made by PostgreSQL 13") {
		t.Fatalf("Start: %v", err)
	}
}
