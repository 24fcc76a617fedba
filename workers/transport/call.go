package transport

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errTooLate = errors.New("it is too late for the request to leave")
	errOver    = errors.New("the call is over")
)

// call is one request on its way. It outlives RoundTrip where net/http still holds the connection.
type call struct {
	notAfter time.Time

	mu    sync.Mutex
	wrote bool
	over  bool
}

// take makes c ask the call before it writes. A connection that is not one of ours could write without asking, so that
// nothing can be proved about it.
func (l *call) take(c net.Conn) {
	for {
		switch on := c.(type) {
		case *conn:
			on.call.Store(l)
			return
		case interface{ NetConn() net.Conn }: // TLS
			c = on.NetConn()
		default:
			l.mu.Lock()
			l.wrote = true
			l.mu.Unlock()
			return
		}
	}
}

// write permits the next write, or says why there is none.
func (l *call) write() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return errOver
	case tooLate(l.notAfter):
		return errTooLate
	}
	l.wrote = true
	return nil
}

// end forbids all further writes and tells whether there was any. net/http's writing goroutine may come late to
// a call that was canceled; without this its request would leave after we said that nothing was sent.
func (l *call) end() (wrote bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.wrote
}

// conn is a connection whose writes belong to the call that has it. Before the first call they are the handshake's.
type conn struct {
	net.Conn
	call atomic.Pointer[call]
}

func (c *conn) Write(p []byte) (int, error) {
	if l := c.call.Load(); l != nil {
		if err := l.write(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
