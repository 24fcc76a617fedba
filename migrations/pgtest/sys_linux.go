package pgtest

import (
	"bytes"
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
