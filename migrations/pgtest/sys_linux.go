package pgtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// diesWithUs says whether a child ends when we do, however we end.
const diesWithUs = true

// processAttributes makes a child run as a, in a process group of its own so that Ctrl-C in a terminal
// reaches us and not it, and gives it a signal when the thread that started it ends.
func processAttributes(a account, onParentDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onParentDeath}
	if a.switched() {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// processes lists what runs, from /proc, of which the command line is open to everybody; the working
// directory would say more, but root in a container may not read it.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		dir := filepath.Join("/proc", entry.Name())
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has ended since
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // ended, or a kernel thread or a zombie
		}
		uid, _ := ownerOf(info)
		command := string(bytes.TrimSpace(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		all = append(all, process{pid: pid, uid: uid, command: command})
	}
	return all, nil
}

// holdPort keeps a port of 127.0.0.1 from being given to anybody's outgoing connection, while nobody listens there: connections to it
// are refused, and postgres, which asks to share it, may bind it.
func holdPort(port int) (io.Closer, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold port %d: %w", port, err)
	}
	file := os.NewFile(uintptr(fd), "held port")
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		file.Close()
		return nil, fmt.Errorf("hold port %d: %w", port, err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		file.Close()
		return nil, fmt.Errorf("hold port %d: %w", port, err)
	}
	return file, nil
}
