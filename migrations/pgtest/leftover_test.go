package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestKilledOwnerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := made(t)
	cmd, url := child(t, dir)
	execute(t, url, `CREATE TABLE kept AS SELECT 42 AS answer`)
	// A session in the middle of something.
	busy, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	sleeping := make(chan error, 1)
	go func() {
		defer busy.Close(context.Background())
		_, err := busy.Exec(t.Context(), `SELECT pg_sleep(300)`)
		sleeping <- err
	}()

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// At once, while postgres is still shutting down.
	s := started(t, Options{DataDir: dir})
	if got := query[int](t, s.URL("postgres"), `SELECT answer FROM kept`); got != 42 {
		t.Errorf("read back %d", got)
	}
	select {
	case err := <-sleeping:
		if err == nil {
			t.Error("the old server's session ended in peace")
		}
	case <-time.After(patience):
		t.Error("the old server still serves its session")
	}
}

func TestKilledOwnersServerEndsByItself(t *testing.T) {
	if !diesWithUs {
		t.Skip("this system cannot tie a child's life to its parent's")
	}
	t.Parallel()
	dir := made(t)
	cmd, _ := child(t, dir)
	cluster := filepath.Join(dir, clusterDir)
	if running, err := postgresIn(cluster); err != nil || len(running) < 2 {
		t.Fatalf("before the kill: %v, %v", running, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(pollProcesses) {
		left, err := postgresIn(cluster)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still alive: %v", left)
		}
	}
}

// byHand runs postgres on a cluster of ours, as a run would leave it that could not take it along.
func byHand(t *testing.T, dir string) *postmaster {
	t.Helper()
	cluster := filepath.Join(dir, clusterDir)
	as, err := ownerAccount(cluster)
	if err != nil {
		t.Fatal(err)
	}
	pg, err := find(t.Context(), 0, as, discard)
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPostmaster(as.command(context.Background(), pg.path("postgres"), settings(cluster, port, Options{})...), func() string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.end(context.Background(), discard); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(pollReady) {
		file, err := readPidFile(cluster)
		if err != nil {
			t.Fatal(err)
		}
		if file.ready {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal("the server by hand does not get ready")
		}
	}
}

func TestLeftoverServerIsStopped(t *testing.T) {
	t.Parallel()
	dir := made(t)
	leftover := byHand(t, dir)
	s := started(t, Options{DataDir: dir})
	select {
	case <-leftover.exited:
	default:
		t.Error("two servers on one data directory")
	}
	query[int](t, s.URL("postgres"), `SELECT 1`)
}

func TestAnotherClustersServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	other := byHand(t, made(t))
	dir := made(t)
	// Our pid file's number has passed to the other cluster's server.
	writePid(t, dir, other.process.Pid)
	s := started(t, Options{DataDir: dir})
	query[int](t, s.URL("postgres"), `SELECT 1`)
	select {
	case <-other.exited:
		t.Error("the server of another data directory was stopped")
	default:
	}
}

func TestPidFileOfAnUnrelatedProcess(t *testing.T) {
	t.Parallel()
	unrelated, _ := child(t, made(t))
	dir := made(t)
	writePid(t, dir, unrelated.Process.Pid)
	s := started(t, Options{DataDir: dir})
	query[int](t, s.URL("postgres"), `SELECT 1`)
}

func writePid(t *testing.T, dir string, pid int) {
	t.Helper()
	name := filepath.Join(dir, clusterDir, "postmaster.pid")
	content := itoa(pid) + "\n" + filepath.Join(dir, clusterDir) + "\n1700000000\n5432\n\n127.0.0.1\n        0         0\nready   \n"
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
