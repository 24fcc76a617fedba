package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that takes a moment on an idle machine.
const patience = 60 * time.Second

// process is a running oncepay. It is killed at the end of the test at the latest.
type process struct {
	t              *testing.T
	name           string
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
	secrets        []string // must not show on stderr
}

// launch describes a process to be started.
type launch struct {
	args    []string
	env     []string // NAME=value; nothing else of the test's environment gets through, but for PATH and the like
	program string   // default: this test binary
	act     string   // default: actAsOncepay
	secrets []string
	attr    *syscall.SysProcAttr
}

func oncepayArgs(args ...string) launch { return launch{args: args} }

func (l launch) start(t *testing.T) *process {
	t.Helper()
	if l.program == "" {
		l.program = testBinary(t)
	}
	if l.act == "" {
		l.act = actAsOncepay
	}
	p := &process{t: t, name: strings.Join(l.args, " "), ended: make(chan struct{}), secrets: l.secrets}
	p.cmd = exec.Command(l.program, l.args...)
	p.cmd.Dir = "/" // so that nothing is found, or left, where the tests are
	p.cmd.Env = []string{actAs + "=" + l.act}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "PG_BIN", "XDG_CACHE_HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	p.cmd.Env = append(p.cmd.Env, l.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // a child of a killed process may hold its output open
	p.cmd.SysProcAttr = processAttributes()
	if l.attr != nil {
		p.cmd.SysProcAttr = l.attr
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(p.finish)
	return p
}

// finish kills what still runs, and looks for what no process may ever print.
func (p *process) finish() {
	p.kill()
	said := p.stderr.String()
	for _, trouble := range []string{"WARNING: DATA RACE", "\npanic: ", "\nfatal error: "} {
		if strings.Contains("\n"+said, trouble) {
			p.t.Errorf("%s: %s", p.name, strings.TrimSpace(trouble))
		}
	}
	for _, secret := range append(p.secrets, "_secret_") { // which is in every client secret
		if strings.Contains(said, secret) {
			p.t.Errorf("%s printed the secret %q", p.name, secret)
		}
	}
	if p.t.Failed() {
		p.t.Logf("%s (pid %d, %v) said:\n%s%s", p.name, p.cmd.Process.Pid, p.cmd.ProcessState, tail(p.stdout.String()), tail(said))
	}
}

func tail(text string) string {
	const most = 6 << 10
	if len(text) > most {
		return "...\n" + text[len(text)-most:]
	}
	return text
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s: signal: %v", p.name, err)
	}
}

// exitCode waits for the end of the process; -1: a signal ended it.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// awaitLog waits for the first log line with this message and returns its attribute.
func (p *process) awaitLog(msg, attribute string) (value string) {
	p.t.Helper()
	await(p.t, patience, fmt.Sprintf("%s logs %s", p.name, msg), func() error {
		if p.hasEnded() {
			return fatal{fmt.Errorf("it ended: %v", p.cmd.ProcessState)}
		}
		for line := range strings.Lines(p.stderr.String()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == msg {
				value = fmt.Sprint(fields[attribute])
				return nil
			}
		}
		return errors.New("no such line")
	})
	return value
}

// result is what came of a command that ends by itself.
type result struct {
	code           int
	stdout, stderr string
}

func (l launch) run(t *testing.T) result {
	t.Helper()
	p := l.start(t)
	code := p.exitCode()
	return result{code, p.stdout.String(), p.stderr.String()}
}

// must runs a command that has to succeed and returns its stdout.
func (l launch) must(t *testing.T) string {
	t.Helper()
	r := l.run(t)
	if r.code != 0 {
		t.Fatalf("%v: exit %d: %s%s", l.args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// output collects what a process writes, to be read while it goes on.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// fatal ends an await before its time: what it waits for cannot come any more.
type fatal struct{ error }

// await polls until check returns nil. The test fails after limit, with check's last error.
func await(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if errors.As(err, new(fatal)) || time.Now().After(deadline) {
			t.Fatalf("waited for: %s: %v", what, err)
		}
		<-tick.C
	}
}

func testBinary(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}
