package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What a data directory holds. Everything but the cluster belongs to us, also when we are root.
const (
	lockName     = "lock"         // locked while a Server lives; holds its owner's pid; marks the directory as ours
	clusterDir   = "cluster"      // PostgreSQL's own data directory
	unfinished   = "init-"        // prefix of a cluster in the making
	passwordName = "password"     // of the superuser
	logName      = "postgres.log" // what postgres says
	standInName  = "location"     // where the data is instead: see place
	originName   = "origin"       // in a stand-in: the data directory that it stands in for
)

// standInPrefix begins the name of each stand-in. They live in systemDir, or in os.TempDir when the
// data directory itself does.
const (
	standInPrefix = "oncepay-data-"
	systemDir     = "/var/lib/oncepay"
)

const (
	lockPatience = 2 * time.Second
	lockPoll     = 20 * time.Millisecond
)

// ErrInUse says that another process has the data directory.
var ErrInUse = errors.New("is in use")

// place is a data directory that is ours, locked, and where as can reach the cluster.
type place struct {
	dir   string // absolute, without symbolic links
	as    account
	locks []*os.File
}

func (p *place) cluster() string         { return filepath.Join(p.dir, clusterDir) }
func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

// release gives the directory back. The lock files stay: removing one would let two processes hold
// two locks of the same name.
func (p *place) release() {
	for _, file := range p.locks {
		file.Close()
	}
}

// openPlace makes and locks the data directory dir, for a cluster that as will run unless there is one
// with another owner. Where that user cannot reach dir, the place is dir's stand-in.
func openPlace(ctx context.Context, dir string, as account) (*place, error) {
	dir, err := claim(dir, as)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, as: as}
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	if err := p.settle(ctx); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// claim creates dir, or checks that it is empty or made by us, and opens it to as and nobody else where possible.
func claim(dir string, as account) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if os.Geteuid() != 0 && !isOurs(info) {
		return "", notOurs(dir, info)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	ours := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockName })
	if len(entries) > 0 && !ours {
		return "", fmt.Errorf("data directory %s is not empty and holds something else (%s): choose another", dir, entries[0].Name())
	}
	mode := fs.FileMode(0o700)
	if as.switched() {
		mode = 0o711 // pass through to the cluster, which is closed, but list nothing
	}
	if err := os.Chmod(dir, mode); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return dir, nil
}

func (p *place) lock(ctx context.Context) error {
	file, err := awaitLock(ctx, p.file(lockName))
	if errors.Is(err, ErrInUse) {
		owner, readErr := os.ReadFile(p.file(lockName))
		if readErr != nil {
			return fmt.Errorf("data directory %s %w: %w", p.dir, err, readErr)
		}
		return fmt.Errorf("data directory %s %w by process %s: stop that, or choose another directory", p.dir, err, strings.TrimSpace(string(owner)))
	}
	if err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	p.locks = append(p.locks, file)
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	if _, err := file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	return nil
}

// awaitLock is lockFile with a little patience: a process that was just killed is not gone at once,
// and a child that its owner is forking has the lock too until it runs its program.
func awaitLock(ctx context.Context, path string) (*os.File, error) {
	timeout := time.After(lockPatience)
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		file, held, err := lockFile(path)
		if err != nil || !held {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout:
			return nil, ErrInUse
		case <-tick.C:
		}
	}
}

// settle decides who runs the cluster and moves p to a stand-in if that user cannot reach p.dir.
func (p *place) settle(ctx context.Context) error {
	standIn, err := p.readStandIn()
	if err != nil {
		return err
	}
	if standIn != "" {
		if err := p.moveTo(ctx, standIn); err != nil {
			return err
		}
	}
	made, err := exists(p.cluster())
	if err != nil {
		return err
	}
	if made {
		if p.as, err = ownerAccount(p.cluster()); err != nil {
			return err
		}
	}
	reachable, err := p.as.canEnter(p.dir)
	if err != nil || reachable {
		return err
	}
	if made {
		return fmt.Errorf("data directory %s: %s runs PostgreSQL and can no longer reach it: open the directories above it, or remove it", p.dir, p.as)
	}
	if standIn, err = p.makeStandIn(); err != nil {
		return err
	}
	if err := p.moveTo(ctx, standIn); err != nil {
		return err
	}
	if reachable, err = p.as.canEnter(p.dir); err != nil {
		return err
	}
	if !reachable {
		return fmt.Errorf("%s, who runs PostgreSQL because root may not, can reach neither the data directory nor %s: choose a data directory that is open to others", p.as, p.dir)
	}
	return nil
}

func (p *place) moveTo(ctx context.Context, standIn string) error {
	origin := p.dir
	p.dir = standIn
	if err := p.lock(ctx); err != nil {
		return err
	}
	// Written each time, as the data directory may have been moved.
	return os.WriteFile(p.file(originName), []byte(origin+"\n"), 0o600)
}

// readStandIn returns the stand-in that p.dir names, or "" if there is none or it has been removed.
func (p *place) readStandIn() (string, error) {
	content, err := os.ReadFile(p.file(standInName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	dir := filepath.Clean(strings.TrimSpace(string(content)))
	// We are root, and go only where makeStandIn would have gone.
	parent := filepath.Dir(dir)
	if !strings.HasPrefix(filepath.Base(dir), standInPrefix) || parent != systemDir && parent != realTempDir() {
		return "", fmt.Errorf("%s names %s, which is no place of ours: remove that file", p.file(standInName), dir)
	}
	found, err := exists(dir)
	if err != nil || !found {
		return "", err
	}
	return dir, nil
}

// makeStandIn makes a directory that others can pass and writes its path into p.dir.
func (p *place) makeStandIn() (string, error) {
	base := systemDir
	if isBelow(p.dir, realTempDir()) {
		base = realTempDir()
		if err := sweepStandIns(base); err != nil {
			return "", err
		}
	}
	if base == systemDir {
		if err := os.MkdirAll(base, 0o755); err != nil {
			return "", fmt.Errorf("a place that %s can reach: %w", p.as, err)
		}
		if err := os.Chmod(base, 0o755); err != nil { // whatever the umask
			return "", fmt.Errorf("a place that %s can reach: %w", p.as, err)
		}
	}
	dir, err := os.MkdirTemp(base, standInPrefix+"*")
	if err != nil {
		return "", fmt.Errorf("a place that %s can reach: %w", p.as, err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", fmt.Errorf("a place that %s can reach: %w", p.as, err)
	}
	if err := os.WriteFile(p.file(standInName), []byte(dir+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return dir, nil
}

// sweepStandIns removes temporary stand-ins that their data directory does not name any more: a test's
// that is over, or that of a directory that was made anew.
func sweepStandIns(base string) error {
	dirs, err := filepath.Glob(filepath.Join(base, standInPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		// Others may make such names in a temporary directory; theirs are not even looked into.
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !isOurs(info) {
			continue
		}
		origin, err := os.ReadFile(filepath.Join(dir, originName))
		if err != nil {
			continue // in the making
		}
		named, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(origin)), standInName))
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(named)) != dir {
			if err := removeIfUnused(dir); err != nil {
				return fmt.Errorf("remove an abandoned data directory: %w", err)
			}
		}
	}
	return nil
}

// removeIfUnused removes a data directory unless a Server has it.
func removeIfUnused(dir string) error {
	file, held, err := lockFile(filepath.Join(dir, lockName))
	if err != nil || held {
		return err
	}
	defer file.Close()
	return os.RemoveAll(dir)
}

// realTempDir is os.TempDir without symbolic links, as it is compared with such paths.
func realTempDir() string {
	if dir, err := filepath.EvalSymlinks(os.TempDir()); err == nil {
		return dir
	}
	return filepath.Clean(os.TempDir())
}

func isOurs(info fs.FileInfo) bool {
	uid, _ := ownerOf(info)
	return uid == os.Geteuid()
}

func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
