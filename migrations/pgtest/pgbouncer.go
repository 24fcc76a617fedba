package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const bouncerTimeout = 30 * time.Second

// Bouncer is a running PgBouncer. It ends with its test at the latest, and with this process (on Linux).
type Bouncer struct {
	// URL is the address of the database through PgBouncer.
	URL string

	t       testing.TB
	dir     string
	as      account
	program string
	port    int
	exited  <-chan error
	process *os.Process
}

// PgBouncer starts the real PgBouncer before the database at rawURL, one of [URL], [Empty] or [Own]. Its settings are its defaults, but for
// pool_mode=transaction and those given as "name=value", such as "default_pool_size=5". Where the program is missing the
// test is skipped, or fails if the environment has CI set.
func PgBouncer(t testing.TB, rawURL string, settings ...string) *Bouncer {
	t.Helper()
	program := findBouncer()
	if program == "" {
		const missing = "PgBouncer was not found: install it (Debian, Ubuntu: apt-get install pgbouncer; macOS: brew install pgbouncer)"
		if os.Getenv("CI") != "" {
			t.Fatal("pgtest: " + missing)
		}
		t.Skip("pgtest: " + missing)
	}
	b := &Bouncer{t: t, program: program}
	if err := b.prepare(rawURL, settings); err != nil {
		t.Fatalf("pgtest: PgBouncer: %v", err)
	}
	b.Start()
	t.Cleanup(b.Stop)
	return b
}

func findBouncer() string {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// prepare writes the configuration. Like PostgreSQL, PgBouncer refuses to run as root.
func (b *Bouncer) prepare(rawURL string, settings []string) error {
	config, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return err
	}
	if b.as, err = unprivileged(); err != nil {
		return err
	}
	if b.dir, err = testDir(); err != nil {
		return err
	}
	b.t.Cleanup(func() {
		if err := os.RemoveAll(b.dir); err != nil {
			b.t.Errorf("pgtest: %v", err)
		}
	})
	if b.port, err = freePort(); err != nil {
		return err
	}
	users := filepath.Join(b.dir, "users.txt")
	lines := append([]string{"[databases]",
		fmt.Sprintf("%s = host=%s port=%d", config.Database, config.Host, config.Port),
		"[pgbouncer]", "listen_addr = 127.0.0.1", "listen_port = " + strconv.Itoa(b.port), "unix_socket_dir =",
		"auth_type = scram-sha-256", "auth_file = " + users, "pool_mode = transaction"}, settings...)
	for path, text := range map[string]string{
		b.file("pgbouncer.ini"): strings.Join(lines, "\n") + "\n",
		users:                   fmt.Sprintf("%q %q\n", config.User, config.Password),
	} {
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), b.as.own(path)); err != nil {
			return err
		}
	}
	if err := b.as.own(b.dir); err != nil {
		return err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	u.Host = "127.0.0.1:" + strconv.Itoa(b.port)
	b.URL = u.String()
	return nil
}

func (b *Bouncer) file(name string) string { return filepath.Join(b.dir, name) }

// Start runs PgBouncer, again after a [Bouncer.Stop], and returns when it lets clients in. It fails the test where it cannot.
func (b *Bouncer) Start() {
	b.t.Helper()
	log, err := os.OpenFile(b.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatalf("pgtest: PgBouncer: %v", err)
	}
	defer log.Close()
	cmd := b.as.command(context.Background(), b.program, b.file("pgbouncer.ini"))
	cmd.Stdout, cmd.Stderr = log, log
	if b.exited, err = keepThread(cmd); err != nil {
		b.t.Fatalf("pgtest: run PgBouncer as %s: %v", b.as, err)
	}
	b.process = cmd.Process
	ctx, cancel := context.WithTimeout(b.t.Context(), bouncerTimeout)
	defer cancel()
	tick := time.NewTicker(pollReady)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, b.URL)
		if err == nil {
			conn.Close(ctx)
			return
		}
		select {
		case <-tick.C:
		case ended := <-b.exited:
			b.process = nil
			b.t.Fatalf("pgtest: PgBouncer ended: %v\n%s", ended, lastLines(readFrom(log.Name(), 0), linesInErrors))
		case <-ctx.Done():
			b.t.Fatalf("pgtest: PgBouncer lets nobody in: %v\n%s", err, lastLines(readFrom(log.Name(), 0), linesInErrors))
		}
	}
}

// Stop kills PgBouncer: all connections through it break. Stopping one that was stopped is fine.
func (b *Bouncer) Stop() {
	b.t.Helper()
	if b.process == nil {
		return
	}
	if err := signalProcess(b.process.Pid, syscall.SIGKILL); err != nil {
		b.t.Errorf("pgtest: PgBouncer: %v", err)
	}
	<-b.exited
	b.process = nil
}
