package outbox_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// A peer that vanished without a word is noticed within 25 s: the kernel is told so for each connection.
func TestDeadPeersAreNoticed(t *testing.T) {
	t.Parallel()
	conn, err := open(t, pgtest.URL(t), 2, outbox.Direct).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	raw, err := conn.Conn().PgConn().Conn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const tcpUserTimeout = 18
	err = raw.Control(func(fd uintptr) {
		for _, option := range []struct {
			name              string
			level, opt, value int
		}{
			{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 10},
			{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 5},
			{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
			{"TCP_USER_TIMEOUT", syscall.IPPROTO_TCP, tcpUserTimeout, 20_000},
		} {
			if got, err := syscall.GetsockoptInt(int(fd), option.level, option.opt); err != nil || got != option.value {
				t.Errorf("%s is %d, %v; want %d", option.name, got, err, option.value)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
