package pgtest

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var discard = slog.New(slog.DiscardHandler)

func TestFind(t *testing.T) {
	dir, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PG_BIN", dir)
	if got, err := Find(); err != nil || got != dir {
		t.Errorf("with PG_BIN=%s: %s, %v", dir, got, err)
	}
	empty := t.TempDir()
	t.Setenv("PG_BIN", empty)
	if got, err := Find(); err == nil || !strings.Contains(err.Error(), empty) {
		t.Errorf("with an empty PG_BIN: %s, %v", got, err)
	}
}

func TestNotFoundIsOneLineThatSaysWhatToInstall(t *testing.T) {
	text := ErrNotFound.Error()
	if strings.Contains(text, "\n") || !strings.Contains(text, "apt-get install postgresql") || !strings.Contains(text, "brew install postgresql") {
		t.Error(text)
	}
	withoutPrograms(t)
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := find(t.Context(), 0, as, discard); !errors.Is(err, ErrNotFound) {
		t.Errorf("find on a bare machine: %v, %v", p, err)
	}
}

// withoutPrograms hides PostgreSQL and npm from find.
func withoutPrograms(t *testing.T) {
	t.Helper()
	t.Setenv("PG_BIN", "")
	t.Setenv("PATH", t.TempDir())
	places := wellKnown
	wellKnown = nil
	t.Cleanup(func() { wellKnown = places })
}

// TestWithoutProgramsTestsFail runs a test of this package on a machine without PostgreSQL.
func TestWithoutProgramsTestsFail(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestEmptyDatabaseIsEmpty$")
	cmd.Env = append(os.Environ(), "PG_BIN="+empty)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: TestEmptyDatabaseIsEmpty") || strings.Count(string(out), "PG_BIN: no initdb in "+empty) != 1 {
		t.Errorf("without programs: %v\n%s", err, out)
	}
}

func TestNewestVersionComesFirst(t *testing.T) {
	base := t.TempDir()
	for _, version := range []string{"9.6", "15", "17"} {
		if err := os.MkdirAll(filepath.Join(base, version, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	withoutPrograms(t)
	wellKnown = []string{filepath.Join(base, "*", "bin")}
	var got []string
	for _, dir := range candidates(t.Context()) {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	if want := "17 15 9.6"; strings.Join(got, " ") != want {
		t.Errorf("candidates: %v, want %s", got, want)
	}
}

// TestNPM lets npm install PostgreSQL and runs it. It needs the network, so it is asked for with
// PGTEST_NPM=1.
func TestNPM(t *testing.T) {
	if os.Getenv("PGTEST_NPM") == "" {
		t.Skip("set PGTEST_NPM=1 to install PostgreSQL with npm")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	withoutPrograms(t)
	t.Setenv("PATH", filepath.Dir(npm)+string(os.PathListSeparator)+path)
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(open(t), "cache")
	install := func() programs {
		p, err := installNPM(t.Context(), cache, npmPlatform(), as, discard)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := install()
	if p.major != npmMajor {
		t.Errorf("installed PostgreSQL %d", p.major)
	}
	s := started(t, Options{DataDir: filepath.Join(open(t), "data"), BinDir: p.dir})
	if version := query[string](t, s.URL("postgres"), `SELECT version()`); !strings.HasPrefix(version, "PostgreSQL 17.") {
		t.Error(version)
	}
	t.Setenv("PATH", "/nonexistent") // the second time needs no npm
	if again := install(); again != p {
		t.Errorf("installed again as %v, first as %v", again, p)
	}
}
