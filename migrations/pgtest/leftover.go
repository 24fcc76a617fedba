package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const pollProcesses = 25 * time.Millisecond

// process is a line of the system's list of processes.
type process struct {
	pid, uid int
	command  string // program and arguments, separated by blanks
}

// clusterName is set as PostgreSQL's cluster_name, which each of its processes shows in its title. It
// is how those of one data directory are told from all others.
func clusterName(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return "oncepay-" + hex.EncodeToString(sum[:8])
}

func isPostgres(command string) bool {
	program, _, _ := strings.Cut(command, " ")
	return filepath.Base(program) == "postgres"
}

// belongsTo reports whether p is the postmaster of the cluster or one of its children.
func (p process) belongsTo(cluster string) bool {
	return isPostgres(p.command) && strings.Contains(p.command+" ", " -D "+cluster+" ") ||
		strings.HasPrefix(p.command, "postgres: "+clusterName(cluster)+":")
}

// postgresIn returns the processes of the cluster that are alive, run by its owner: the postmaster,
// and backends that a killed postmaster left behind.
func postgresIn(cluster string) ([]process, error) {
	info, err := os.Stat(cluster)
	if err != nil {
		return nil, err
	}
	owner, _ := ownerOf(info)
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var ours []process
	for _, p := range all {
		if p.uid == owner && p.belongsTo(cluster) {
			ours = append(ours, p)
		}
	}
	return ours, nil
}

// stopLeftovers ends the processes of an earlier run, which may be shutting down already or may never
// have heard that we died. The caller holds the data directory's lock, so no living owner has a claim on them.
func stopLeftovers(ctx context.Context, cluster string, log *slog.Logger) error {
	for _, step := range shutdown {
		left, err := postgresIn(cluster)
		if err != nil {
			return fmt.Errorf("look for a postgres of an earlier run: %w", err)
		}
		if len(left) == 0 {
			return removeForeignPid(cluster)
		}
		log.InfoContext(ctx, "a postgres of an earlier run is stopped first", "pid", left[0].pid, "processes", len(left), "signal", step.signal.String())
		for _, p := range left {
			if err := signalProcess(p.pid, step.signal); err != nil {
				return err
			}
		}
		if err := waitGone(ctx, cluster, step.wait); err != nil {
			return err
		}
	}
	left, err := postgresIn(cluster)
	if err != nil {
		return fmt.Errorf("look for a postgres of an earlier run: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("a postgres of an earlier run does not stop: pid %d, %q", left[0].pid, left[0].command)
	}
	return removeForeignPid(cluster)
}

// waitGone returns nil when the cluster's processes have gone or the time is over.
func waitGone(ctx context.Context, cluster string, limit time.Duration) error {
	timeout := time.After(limit)
	tick := time.NewTicker(pollProcesses)
	defer tick.Stop()
	for {
		left, err := postgresIn(cluster)
		if err != nil {
			return fmt.Errorf("wait for a postgres of an earlier run: %w", err)
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a postgres of an earlier run (pid %d): %w", left[0].pid, ctx.Err())
		case <-timeout:
			return nil
		case <-tick.C:
		}
	}
}

// removeForeignPid removes a pid file whose number has passed to a process that is not a postgres of
// this cluster, as happens in containers, where pids are small. PostgreSQL would take it for alive.
func removeForeignPid(cluster string) error {
	file, err := readPidFile(cluster)
	if err != nil || file.pid <= 0 {
		return err
	}
	all, err := processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		// Without -D nobody can say which cluster it runs, so PostgreSQL has the last word.
		if p.pid == file.pid && isPostgres(p.command) && !strings.Contains(p.command, " -D ") {
			return nil
		}
	}
	if !processExists(file.pid) {
		return nil // PostgreSQL sees that too, and checks the shared memory that the file names
	}
	return os.Remove(filepath.Join(cluster, "postmaster.pid"))
}

// pidFile is what we need of postmaster.pid.
type pidFile struct {
	pid     int
	started time.Time // to the second
	ready   bool      // accepting connections
}

// readPidFile returns the zero pidFile when there is none, or PostgreSQL is still writing it. See
// PostgreSQL's pidfile.h: line 1 is the pid, line 3 the time of the start, line 8 the status.
func readPidFile(cluster string) (pidFile, error) {
	content, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return pidFile{}, nil
	}
	if err != nil {
		return pidFile{}, err
	}
	lines := append(strings.Split(string(content), "\n"), make([]string, 8)...)
	pid, pidErr := strconv.Atoi(strings.TrimSpace(lines[0]))
	seconds, timeErr := strconv.ParseInt(strings.TrimSpace(lines[2]), 10, 64)
	if pidErr != nil || timeErr != nil {
		return pidFile{}, nil
	}
	return pidFile{pid: pid, started: time.Unix(seconds, 0), ready: strings.TrimSpace(lines[7]) == "ready"}, nil
}
