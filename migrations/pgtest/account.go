package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who runs PostgreSQL's programs: ourselves, or another user if we are root. The zero
// account is ourselves.
type account struct {
	name     string
	uid, gid int // both 0: ourselves
}

// unprivileged returns ourselves, or for root the user postgres, or nobody if there is none.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
				continue
			}
			return account{}, fmt.Errorf("a user to run PostgreSQL as: %w", err)
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return account{}, fmt.Errorf("a user to run PostgreSQL as: uid of %s: %w", name, err)
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			return account{}, fmt.Errorf("a user to run PostgreSQL as: gid of %s: %w", name, err)
		}
		return account{name: name, uid: uid, gid: gid}, nil
	}
	const overflow = 65534 // what kernels call nobody; images without a user list still know the number
	return account{name: strconv.Itoa(overflow), uid: overflow, gid: overflow}, nil
}

// ownerAccount returns who has to run the cluster at path: its owner.
func ownerAccount(path string) (account, error) {
	info, err := os.Stat(path)
	if err != nil {
		return account{}, err
	}
	uid, gid := ownerOf(info)
	switch {
	case uid == 0:
		return account{}, fmt.Errorf("%s belongs to root, and PostgreSQL does not run as root: give it to another user (chown -R)", path)
	case isOurs(info):
		return account{}, nil
	case os.Geteuid() != 0:
		return account{}, notOurs(path, info)
	}
	return account{name: userName(uid), uid: uid, gid: gid}, nil
}

func notOurs(path string, info fs.FileInfo) error {
	uid, _ := ownerOf(info)
	return fmt.Errorf("%s belongs to user %s: run as that user, or choose another data directory", path, userName(uid))
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

func (a account) switched() bool { return a.uid != 0 }

func (a account) String() string {
	if a.switched() {
		return "user " + a.name
	}
	return "this user"
}

// command is exec.CommandContext for a program run as a, in a directory that everybody may enter, with
// an environment that holds nothing of ours: no PGHOST, no locale, no secrets.
func (a account) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = processAttributes(a, syscall.SIGKILL)
	return cmd
}

// canEnter reports whether a may enter dir. Permissions have more sources than mode bits, so it is
// done: a child changes to dir as a, and then fails to run a program that cannot exist.
func (a account) canEnter(dir string) (bool, error) {
	if !a.switched() {
		return true, nil
	}
	cmd := a.command(context.Background(), os.DevNull+"/none")
	cmd.Dir = dir
	err := run(cmd)
	switch {
	case errors.Is(err, syscall.ENOTDIR): // the program; the directory was fine
		return true, nil
	case errors.Is(err, fs.ErrPermission):
		return false, nil
	}
	return false, fmt.Errorf("run something as %s in %s: %w", a, dir, err)
}
