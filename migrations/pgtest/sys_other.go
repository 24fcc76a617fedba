//go:build !linux && !darwin && !freebsd

package pgtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// On other systems there is nothing here that starts a server; Start says so at its first step.

// diesWithUs says whether a child ends when we do, however we end.
const diesWithUs = false

func processAttributes(account, syscall.Signal) *syscall.SysProcAttr { return nil }

func processes() ([]process, error) { return nil, errors.ErrUnsupported }

func ownerOf(fs.FileInfo) (uid, gid int) { return os.Geteuid(), os.Getegid() }

func signalProcess(int, syscall.Signal) error { return errors.ErrUnsupported }

func processExists(int) bool { return false }

func lockFile(string) (*os.File, bool, error) { return nil, false, errors.ErrUnsupported }

func holdPort(int) (io.Closer, error) { return nil, errors.ErrUnsupported }
