//go:build linux || darwin || freebsd

package pgtest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRootsClosedDirectoryGetsAStandIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as somebody else")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data") // go test closes its directories to others
	s := started(t, Options{DataDir: dir})
	standIn := s.Dir()
	if standIn == dir || !strings.HasPrefix(standIn, filepath.Join(os.TempDir(), standInPrefix)) {
		t.Fatalf("the data of %s is in %s", dir, standIn)
	}
	execute(t, s.URL("postgres"), `CREATE TABLE kept AS SELECT 42 AS answer`)
	stop(t, s)

	again := started(t, Options{DataDir: dir})
	if got := query[int](t, again.URL("postgres"), `SELECT answer FROM kept`); got != 42 {
		t.Errorf("read back %d", got)
	}
	stop(t, again)

	// Who removes the data directory wants a fresh start, and the next one takes the old data away.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	fresh := started(t, Options{DataDir: dir})
	t.Cleanup(func() {
		stop(t, fresh)
		if err := os.RemoveAll(fresh.Dir()); err != nil {
			t.Error(err)
		}
	})
	if query[bool](t, fresh.URL("postgres"), `SELECT to_regclass('kept') IS NOT NULL`) {
		t.Error("the old data came back")
	}
	if there, err := exists(standIn); err != nil || there {
		t.Errorf("the abandoned stand-in is still there: %t, %v", there, err)
	}
}

// TestAsOrdinaryUser runs the heart of these tests as nobody when we are root; else they run as an
// ordinary user anyway.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: all tests run as an ordinary user")
	}
	t.Parallel()
	dir := open(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "pgtest.test") // go test keeps its own where only root can go
	copyFile(t, self, program)
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=5m", "-test.run=^("+strings.Join([]string{
		"TestKilledOwnerLeavesNothingBehind", "TestLeftoverServerIsStopped", "TestDatabasesAreIsolated",
	}, "|")+")$")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir, "PG_BIN=" + os.Getenv("PG_BIN")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n--- PASS") != 3 {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
}

func TestRootsDirectoryIsRefusedToOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make such a directory")
	}
	t.Parallel()
	dir := made(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(dir), "pgtest.test")
	copyFile(t, self, program)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), serveVar + "=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "belongs to user root") {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil { // whatever the umask
		t.Fatal(err)
	}
}
