package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopBound is for a process that was asked to end; a worker may take 50 s for calls in flight, but simulators answer.
const stopBound = 70 * time.Second

// process is a running oncepay of ours. On Linux it ends with us, however we end.
type process struct {
	name     string
	cmd      *exec.Cmd
	output   string // a file: nobody has to read it while it is measured
	ended    chan struct{}
	err      error // set before ended is closed
	stopping chan struct{}
}

// start runs this binary with other arguments. Should it end uninvited, the run ends.
func (b *bench) start(name string, env []string, args ...string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b.started++
	p := &process{name: name, output: filepath.Join(b.dir, fmt.Sprintf("%d-%s.log", b.started, name)), ended: make(chan struct{}), stopping: make(chan struct{})}
	output, err := os.OpenFile(p.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the child has its own descriptor
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.cmd.SysProcAttr = processAttributes()
	began := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked ends, not the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		began <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
			select {
			case <-p.stopping:
			default:
				b.fail(fmt.Errorf("%s ended by itself: %w\n%s", name, errors.Join(p.err), p.tail()))
			}
		}
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	b.running = append(b.running, p)
	return p, nil
}

// cleanEnvironment is ours without the settings that a process of ours would take from it: it gets all of them from us.
func cleanEnvironment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		drop := false
		for _, prefix := range []string{"ONCEPAY_", "STRIPE_", "SENDGRID_", "RECEIPT_FROM=", "DATABASE_URL=", "PG"} {
			drop = drop || strings.HasPrefix(variable, prefix)
		}
		if !drop || strings.HasPrefix(variable, "ONCEPAY_TEST_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// awaitOutput returns what find makes of the first line that it knows.
func (p *process) awaitOutput(ctx context.Context, find func(line string) (value string, ok bool)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	var value string
	err := await(ctx, pollOften, func() (bool, error) {
		said, err := os.ReadFile(p.output)
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(string(said)) {
			if v, ok := find(strings.TrimSpace(line)); ok {
				value = v
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return "", fmt.Errorf("start %s: %w\n%s", p.name, err, p.tail())
	}
	return value, nil
}

// stop lets the process end as it does in production. Its resources are known afterwards.
func (p *process) stop() error {
	select {
	case <-p.stopping:
		return nil
	case <-p.ended: // by itself, which has ended the run
		return nil
	default:
		close(p.stopping)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopBound):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %s of being asked to", p.name, stopBound)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// tail is the end of what the process has said, but for what it says when all is well.
func (p *process) tail() string {
	said, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(said)) {
		if !strings.Contains(line, `"level":"INFO"`) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-10):], "")
}

const (
	startBound = time.Minute
	pollOften  = 20 * time.Millisecond
)

// await asks until it is so, an error comes, or ctx ends.
func await(ctx context.Context, every time.Duration, is func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := is()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
