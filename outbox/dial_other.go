//go:build !linux

package outbox

import "syscall"

// limitUnanswered has no counterpart here: keep-alive, and the bounds of whoever waits, must do.
func limitUnanswered(string, string, syscall.RawConn) error { return nil }
