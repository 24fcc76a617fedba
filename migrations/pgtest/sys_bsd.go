//go:build darwin || freebsd

package pgtest

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// diesWithUs says whether a child ends when we do, however we end.
const diesWithUs = false

// processAttributes makes a child run as a, in a process group of its own so that Ctrl-C in a terminal
// reaches us and not it. These systems cannot tie its life to ours; the next Start cleans up.
func processAttributes(a account, _ syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.switched() {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// processes lists what runs, from ps.
func processes() ([]process, error) {
	out, err := exec.Command("/bin/ps", "-axww", "-o", "pid=,uid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		var p process
		if n, err := fmt.Sscan(line, &p.pid, &p.uid); n != 2 {
			return nil, fmt.Errorf("list processes: ps says %q: %w", line, err)
		}
		fields := strings.Fields(line)
		p.command = strings.Join(fields[2:], " ")
		all = append(all, p)
	}
	return all, nil
}

// holdPort cannot keep a port and leave it to postgres on these systems; it is likely to be free still.
func holdPort(int) (io.Closer, error) { return io.NopCloser(nil), nil }
