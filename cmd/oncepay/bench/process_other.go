//go:build !linux

package bench

import "syscall"

func processAttributes() *syscall.SysProcAttr { return nil }
