package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser owns everything in the cluster.
const superuser = "oncepay"

// madeBy returns the major version of PostgreSQL that made the cluster at path; 0 if there is none.
func madeBy(path string) (int, error) {
	content, err := os.ReadFile(filepath.Join(path, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		there, err := exists(path)
		if err == nil && there {
			err = fmt.Errorf("%s has no PG_VERSION, so it is not PostgreSQL's data: remove it to start afresh", path)
		}
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s: PG_VERSION: %w", path, err)
	}
	return major, nil
}

// initCluster makes the cluster with initdb, under another name first, so that one that is half
// finished is never taken for one that is done.
func initCluster(ctx context.Context, p *place, pg programs, durable bool) error {
	old, err := filepath.Glob(p.file(unfinished + "*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove a half-made cluster: %w", err)
		}
	}
	if err := writePassword(p); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	tmp, err := os.MkdirTemp(p.dir, unfinished+"*")
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if err := p.as.own(tmp); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	// The C locale is the one that every system has; it compares by code point. Texts are UTF-8 all the same.
	args := []string{"--pgdata=" + tmp, "--username=" + superuser, "--pwfile=" + p.file(passwordName),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"}
	if !durable {
		args = append(args, "--no-sync")
	}
	var out bytes.Buffer
	cmd := p.as.command(ctx, pg.path("initdb"), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := run(cmd); err != nil {
		return fmt.Errorf("initdb as %s: %w\n%s", p.as, err, lastLines(out.String(), 10))
	}
	if err := os.Rename(tmp, p.cluster()); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if durable {
		return syncDir(p.dir)
	}
	return nil
}

// writePassword makes up the superuser's password, unless an earlier initdb that did not finish has.
func writePassword(p *place) error {
	name := p.file(passwordName)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if password, err := readPassword(p); err == nil && password != "" {
			return nil
		}
		if err := os.Remove(name); err != nil {
			return err
		}
		file, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(rand.Text() + "\n")
	return errors.Join(err, file.Sync(), file.Close(), p.as.own(name))
}

func readPassword(p *place) (string, error) {
	content, err := os.ReadFile(p.file(passwordName))
	if err != nil {
		return "", fmt.Errorf("the database's password: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// own gives path to a, if that is another user.
func (a account) own(path string) error {
	if !a.switched() {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// lastLines returns the last n lines of text that are not blank.
func lastLines(text string, n int) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
