package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// run is cmd.Run on a thread that lives as long as the command, see keepThread.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// keepThread starts cmd and returns a channel that delivers the result of its Wait.
//
// The kernel sends the parent-death signal when the *thread* that forked ends, not the process, and
// Go ends threads as it likes. So one goroutine keeps its thread from before the fork until the
// child is gone.
func keepThread(cmd *exec.Cmd) (<-chan error, error) {
	started := make(chan error)
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			result <- cmd.Wait()
		}
	}()
	return result, <-started
}

// shutdown is how a postmaster is asked to end, more urgently with each step.
var shutdown = []struct {
	signal syscall.Signal
	wait   time.Duration // until the next step
}{
	{syscall.SIGINT, 10 * time.Second}, // fast: disconnect everybody, write everything
	{syscall.SIGQUIT, 5 * time.Second}, // immediate: the next start recovers
	{syscall.SIGKILL, 5 * time.Second}, // backends notice, and end as well
}

// postmaster is a postgres process of ours.
type postmaster struct {
	process *os.Process
	exited  chan struct{} // closed when the process has ended
	died    chan struct{} // closed when it did so uninvited

	mu       sync.Mutex
	stopping bool
	err      error // set before died is closed
}

// startPostmaster starts cmd; said returns what the process has written, for the obituary.
func startPostmaster(cmd *exec.Cmd, said func() string) (*postmaster, error) {
	result, err := keepThread(cmd)
	if err != nil {
		return nil, err
	}
	p := &postmaster{process: cmd.Process, exited: make(chan struct{}), died: make(chan struct{})}
	go func() {
		err := <-result
		if err == nil {
			err = errors.New("exit status 0")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.stopping {
			p.err = fmt.Errorf("postgres ended by itself: %w\n%s", err, lastLines(said(), linesInErrors))
			close(p.died)
		}
		close(p.exited)
	}()
	return p, nil
}

// expectEnd makes the end that comes now no death.
func (p *postmaster) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// end returns when the process has. The end of ctx cuts the first step short.
func (p *postmaster) end(ctx context.Context, log *slog.Logger) error {
	p.expectEnd()
	impatient := ctx.Done()
	for _, step := range shutdown {
		if err := p.process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop postgres: %w", err)
		}
		select {
		case <-p.exited:
			return nil
		case <-impatient:
			impatient = nil
		case <-time.After(step.wait):
		}
		log.WarnContext(ctx, "postgres does not stop", "pid", p.process.Pid, "after", step.signal.String())
	}
	return fmt.Errorf("stop postgres: process %d does not end", p.process.Pid)
}
