package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// childrenOf are the pids of processes whose parent is pid.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
	}
	return children
}

// Nothing that a bench has started outlives it, whether it is told to stop or killed.
func TestBenchLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*process){
		"Ctrl-C":  func(p *process) { p.signal(os.Interrupt) },
		"kill -9": func(p *process) { p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openTempDir(t)
			p := benchLaunch(dir, "--only=accept", "--round-duration=5m").start(t)
			await(t, 2*patience, "a round runs", func() error {
				if p.hasEnded() {
					return fatal{fmt.Errorf("it ended: %v", p.cmd.ProcessState)}
				}
				if !strings.Contains(p.stdout.String(), "pgbench") {
					return errors.New("not yet")
				}
				return nil
			})
			children := childrenOf(t, p.cmd.Process.Pid)
			if len(children) < 3 { // PostgreSQL and two APIs
				t.Errorf("its children are %v", children)
			}
			end(p)
			if name == "Ctrl-C" {
				if code := p.exitCode(); code != 1 || !strings.Contains(p.stderr.String(), "told to stop") {
					t.Errorf("exit %d: %s", code, p.stderr.String())
				}
				if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the data is still there: %v", err)
				}
			}
			await(t, patience, "no process is left", func() error {
				for _, pid := range children {
					if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err == nil {
						return fmt.Errorf("%d is", pid)
					}
				}
				return nil
			})
			awaitNobody(t, dir)
		})
	}
}
