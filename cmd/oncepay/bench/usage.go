package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// errNoProc says that this system does not tell what a process has used: only Linux is read.
var errNoProc = errors.New("there is no /proc")

// tick is the unit of CPU times in /proc on every Linux.
const tick = 10 * time.Millisecond

// stat is what /proc/PID/stat tells: the parent, the process's own CPU time, and that of its children that have ended.
type stat struct {
	parent      int
	own, reaped time.Duration
}

func readStat(pid string) (stat, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return stat{}, errors.Join(errNoProc, err)
	}
	_, rest, found := strings.Cut(string(raw), ") ") // the name in parentheses may hold anything but that
	fields := strings.Fields(rest)
	if !found || len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%s/stat: %q", pid, raw)
	}
	var s stat
	var numbers [5]int
	for i, at := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		if numbers[i], err = strconv.Atoi(fields[at]); err != nil {
			return stat{}, fmt.Errorf("/proc/%s/stat: %w", pid, err)
		}
	}
	s.parent = numbers[0]
	s.own = time.Duration(numbers[1]+numbers[2]) * tick
	s.reaped = time.Duration(numbers[3]+numbers[4]) * tick
	return s, nil
}

// cpuOf is the CPU time that a process has used, in user and system mode; 0 where that cannot be told.
func cpuOf(pid int) time.Duration {
	s, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0
	}
	return s.own
}

// familyCPU is the CPU time of a process and its children, those that have ended included; 0 where that cannot be told.
func familyCPU(pid int) time.Duration {
	for {
		before, err := readStat(strconv.Itoa(pid))
		if err != nil {
			return 0
		}
		sum := before.own + before.reaped + childrenCPU(pid)
		after, err := readStat(strconv.Itoa(pid))
		if err != nil {
			return 0
		}
		if after.reaped == before.reaped { // else a child has gone from the one to the other, and may be in neither
			return sum
		}
	}
}

func childrenCPU(pid int) (sum time.Duration) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		panic(err) // a malformed pattern
	}
	for _, path := range stats {
		child, err := readStat(filepath.Base(filepath.Dir(path)))
		if err == nil && child.parent == pid { // an error: it has ended since
			sum += child.own
		}
	}
	return sum
}

// peakOf is the most memory that a process has had, in bytes; 0 where that cannot be told.
func peakOf(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err == nil {
				return kilobytes << 10
			}
		}
	}
	return 0
}
