package pgtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// serveVar makes the test binary start a server on the directory that it names, say where, and wait.
const serveVar = "PGTEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveVar); dir != "" {
		serve(dir)
	}
	Main(mainWithSample{m})
}

func serve(dir string) {
	s, err := Start(context.Background(), Options{DataDir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.URL("postgres"))
	io.Copy(io.Discard, os.Stdin) // until the test ends us, by a kill or by closing the pipe
	os.Exit(0)
}

// sample is a data directory of a server that was started and stopped once; tests copy it, which is a lot
// faster than initdb.
var sample struct {
	once sync.Once
	dir  string
	err  error
}

type mainWithSample struct{ m *testing.M }

func (m mainWithSample) Run() int {
	defer func() { os.RemoveAll(filepath.Dir(sample.dir)) }()
	return m.m.Run()
}

// open returns a directory that every user can enter, removed at the end of the test.
func open(t *testing.T) string {
	t.Helper()
	dir, err := makeOpen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func makeOpen() (string, error) {
	as, err := unprivileged()
	if err != nil {
		return "", err
	}
	base, err := testBase(as)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, "pgtest-own-*")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// made returns a data directory with a cluster in it.
func made(t *testing.T) string {
	t.Helper()
	sample.once.Do(func() {
		var dir string
		if dir, sample.err = makeOpen(); sample.err != nil {
			return
		}
		sample.dir = filepath.Join(dir, "sample")
		var s *Server
		if s, sample.err = Start(context.Background(), Options{DataDir: sample.dir}); sample.err == nil {
			sample.err = s.Stop(context.Background())
		}
	})
	if sample.err != nil {
		t.Fatal(sample.err)
	}
	dir := filepath.Join(open(t), "data")
	if out, err := exec.Command("cp", "-a", sample.dir, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy a cluster: %v: %s", err, out)
	}
	return dir
}

// started starts a server that is stopped at the end of the test.
func started(t *testing.T, options Options) *Server {
	t.Helper()
	options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

// stop stops s, unless that has happened, and proves that nothing of it is left.
func stop(t *testing.T, s *Server) {
	t.Helper()
	select {
	case <-s.main.exited:
		return
	default:
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	select {
	case <-s.main.exited:
	default:
		t.Error("Stop returned before postgres had ended")
	}
	if left, err := postgresIn(s.place.cluster()); err != nil || len(left) > 0 {
		t.Errorf("left after Stop: %v, %v", left, err)
	}
}

// child runs the test binary as a process that starts a server on dir, and returns it and the URL.
func child(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serveVar+"="+dir)
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		if err := waitGone(context.Background(), filepath.Join(dir, clusterDir), patience); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child started no server: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

func query[T any](t *testing.T, url, sql string) (value T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
