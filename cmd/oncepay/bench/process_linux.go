package bench

import "syscall"

// processAttributes make a child end when we do, and keep the terminal's Ctrl-C from it: we end it in order.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
