package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

// dev is a running `oncepay dev`.
type dev struct {
	*process
	url, curl, providers, sandbox, export string // as announced
}

// devLaunch is dev on free ports.
func devLaunch(dataDir string) launch {
	return oncepayArgs("dev", "--data-dir", dataDir, "--listen=127.0.0.1:0", "--sandbox-listen=127.0.0.1:0")
}

var announcement = regexp.MustCompile(`^ready (http://127\.0\.0\.1:\d+)\n(curl .*)\n(Stripe: .*\nSendGrid: .*)\n` +
	`simulators (http://127\.0\.0\.1:\d+)/_sandbox/ledger, worker http://127\.0\.0\.1:\d+/metrics\n(export DATABASE_URL=.*)\n$`)

func (l launch) startDev(t *testing.T) dev {
	t.Helper()
	d := dev{process: l.start(t)}
	await(t, 2*patience, "dev is ready", func() error {
		said := announcement.FindStringSubmatch(d.stdout.String())
		if said == nil && d.hasEnded() {
			return fatal{fmt.Errorf("it ended: %v", d.cmd.ProcessState)}
		}
		if said == nil {
			return fmt.Errorf("stdout: %q", d.stdout.String())
		}
		d.url, d.curl, d.providers, d.sandbox, d.export = said[1], said[2], said[3], said[4], said[5]
		return nil
	})
	return d
}

// deployment makes the helpers for deployments work on dev.
func (d dev) deployment() *deployment {
	return &deployment{t: d.t, token: devCaller, box: &sandboxProcess{process: d.process, url: d.sandbox}}
}

func (d dev) stopByCtrlC() {
	d.t.Helper()
	d.signal(os.Interrupt)
	if code := d.exitCode(); code != 0 {
		d.t.Errorf("exit %d", code)
	}
}

func TestDev(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	data := filepath.Join(dir, "its data")
	first := devLaunch(data).startDev(t)
	key := first.pasteCurl()
	paid := first.deployment().awaitStatus(service{first.process, first.url}, key, client.StatusSucceeded)

	if want := "Stripe: simulator at " + first.sandbox + "\nSendGrid: simulator at " + first.sandbox; first.providers != want {
		t.Errorf("announced %q, want %q", first.providers, want)
	}

	// The database URL is there for the other commands, and for nobody else.
	file := filepath.Join(data, "database-url")
	databaseURL, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of database-url: %v, %v", info.Mode(), err)
	}
	shell := exec.Command("sh", "-c", first.export+"\nprintf %s \"$DATABASE_URL\"")
	if exported, err := shell.Output(); err != nil || string(exported) != strings.TrimSpace(string(databaseURL)) {
		t.Errorf("%s: it gives %q, %v", first.export, exported, err)
	}
	list := oncepayArgs("keys", "list")
	list.env = []string{"DATABASE_URL=" + strings.TrimSpace(string(databaseURL))}
	expect(t, "keys list", list.must(t), `(?m)  dev +caller `, `(?m)  dev-operator +operator `)

	// The simulators tell the API what happens.
	await(t, patience, "the receipt is delivered", func() error {
		if c := first.deployment().charge(service{first.process, first.url}, key); c.Receipt == nil || c.Receipt.Status != "delivered" {
			return fmt.Errorf("it is %s", c.Raw)
		}
		return nil
	})
	events := oncepayArgs("webhooks", "list")
	events.env = list.env
	expect(t, "webhooks list", events.must(t), `(?m)  stripe +payment_intent\.succeeded +applied `, `(?m)  sendgrid +delivered +applied `)

	second := devLaunch(data).run(t)
	if second.code != 1 || second.stdout != "" || strings.Count(second.stderr, "\n") != 1 || !strings.Contains(second.stderr, data) {
		t.Errorf("a second dev: exit %d, %s%s", second.code, second.stdout, second.stderr)
	}

	// Killed and started again, it has what it had, and nothing of the first is left beside it.
	first.kill()
	again := devLaunch(data).startDev(t)
	helpers := again.deployment()
	if c := helpers.charge(service{again.process, again.url}, key); c.ID != paid.ID || c.Status != client.StatusSucceeded {
		t.Errorf("the charge was %s, and is %s", paid.Raw, c.Raw)
	}
	if all, succeeded := helpers.box.ledger().payments(key); all != 1 || succeeded != 1 {
		t.Errorf("the sandbox has %d payments, %d succeeded", all, succeeded)
	}
	// PostgreSQL's children have its command line until they have a title of their own.
	await(t, patience, "dev and PostgreSQL run alone", func() error {
		pids, err := processesNaming(dir)
		if err == nil && len(pids) != 2 {
			err = fmt.Errorf("%v run", pids)
		}
		return err
	})
	if err := helpers.mustPost(again.url, newKey(), plainCharge, "Prefer: wait=50").want(http.StatusOK); err != nil {
		t.Error(err)
	}
	again.stopByCtrlC()
	awaitNobody(t, dir)
}

// pasteCurl does with the curl line what a reader would do, and returns the key in it.
func (d dev) pasteCurl() (key string) {
	d.t.Helper()
	named := regexp.MustCompile(`Idempotency-Key: ([0-9a-f-]{36})`).FindStringSubmatch(d.curl)
	if named == nil {
		d.t.Fatalf("no key in %s", d.curl)
	}
	key = named[1]
	if _, err := exec.LookPath("curl"); err != nil {
		d.deployment().mustPost(d.url, key, plainCharge)
		return key
	}
	out, err := exec.Command("bash", "-c", d.curl).Output()
	if err != nil {
		d.t.Fatalf("%s: %v", d.curl, err)
	}
	if !regexp.MustCompile(`^HTTP/1\.1 20[02] `).Match(out) || !strings.Contains(string(out), key) {
		d.t.Errorf("curl got %s", out)
	}
	return key
}

func TestDevForOtherUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else; TestDev is run by an ordinary user already")
	}
	const nobody = 65534
	dir := openTempDir(t)
	program := filepath.Join(dir, "oncepay")
	copyTestBinary(t, program)
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	l := devLaunch(filepath.Join(home, ".oncepay"))
	l.program, l.env, l.attr = program, []string{"HOME=" + home, "TMPDIR=" + home}, processAttributes()
	l.attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	d := l.startDev(t)
	if err := d.deployment().mustPost(d.url, newKey(), plainCharge, "Prefer: wait=50").want(http.StatusOK); err != nil {
		t.Error(err)
	}
	d.stopByCtrlC()
	awaitNobody(t, dir)
}

func TestDevEndsWithGoRun(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	program := filepath.Join(dir, "go")
	copyTestBinary(t, program)
	l := devLaunch(filepath.Join(dir, "data"))
	l.program, l.act = program, actAsGoParent
	parent := l.start(t)

	child := 0
	await(t, patience, "the child's pid", func() error {
		_, err := fmt.Sscanf(parent.stdout.String(), "child %d\n", &child)
		return err
	})
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // long gone, unless the test failed
	await(t, patience, "dev is ready", func() error {
		if !strings.Contains(parent.stdout.String(), "\nready http://") {
			return fmt.Errorf("stdout: %q", parent.stdout.String())
		}
		return nil
	})

	if err := parent.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Nothing is left: neither the child, whose command line names the directory, nor its PostgreSQL.
	awaitNobody(t, dir)
}

func awaitNobody(t *testing.T, naming string) {
	t.Helper()
	await(t, patience, "no process is left", func() error {
		pids, err := processesNaming(naming)
		if err == nil && len(pids) > 0 {
			err = fmt.Errorf("%v are", pids)
		}
		return err
	})
}

// copyTestBinary makes the test binary available to everybody, under a name of choice.
func copyTestBinary(t *testing.T, path string) {
	t.Helper()
	from, err := os.Open(testBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openTempDir is a temporary directory that other users may enter.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "oncepay-command-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
