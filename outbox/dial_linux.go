package outbox

import (
	"fmt"
	"strings"
	"syscall"
)

// tcpUserTimeout is the socket option TCP_USER_TIMEOUT, in milliseconds, see tcp(7).
const tcpUserTimeout = 18

// limitUnanswered breaks a connection whose peer's kernel does not acknowledge what was sent; by itself TCP tries for a quarter of an hour.
func limitUnanswered(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var setErr error
	err := conn.Control(func(fd uintptr) {
		setErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unansweredLimit.Milliseconds()))
	})
	if err == nil && setErr != nil {
		err = fmt.Errorf("set TCP_USER_TIMEOUT: %w", setErr)
	}
	return err
}
