package main

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// relay hands TCP connections on to a target, until it is cut: then open ones break, and new ones find nobody, as if the
// target had gone.
type relay struct {
	target  string
	address string
	onReply func() // if not nil: called instead of passing on what the target answers

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newRelay starts a relay to target, HOST:PORT. onReply may be nil.
func newRelay(t *testing.T, target string, onReply func()) *relay {
	t.Helper()
	r := &relay{target: target, address: "127.0.0.1:0", onReply: onReply, open: map[net.Conn]struct{}{}}
	r.mend(t)
	t.Cleanup(func() {
		r.cut()
		r.running.Wait()
	})
	return r
}

// relayURL starts a relay in front of the host of a URL and returns the URL that leads through it.
func relayURL(t *testing.T, rawURL string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, u.Host, nil)
	u.Host = r.address
	return r, u.String()
}

// cut breaks all connections and lets nobody in.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
	for conn := range r.open {
		_ = conn.Close()
	}
}

// turn makes the relay lead to another target, HOST:PORT, from the next connection on.
func (r *relay) turn(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// mend opens the relay at the address that it had before.
func (r *relay) mend(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		t.Fatalf("relay: %v", err)
	}
	r.mu.Lock()
	r.listener, r.address = listener, listener.Addr().String()
	r.mu.Unlock()
	r.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // cut
			}
			r.running.Go(func() { r.carry(conn, listener) })
		}
	})
}

func (r *relay) carry(client net.Conn, from net.Listener) {
	defer client.Close()
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	if r.listener != from { // cut meanwhile
		r.mu.Unlock()
		return
	}
	r.open[client], r.open[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.open, client)
		delete(r.open, server)
		r.mu.Unlock()
	}()

	r.running.Go(func() {
		_, _ = io.Copy(server, client) // broken on purpose
		_ = server.Close()
	})
	if r.onReply != nil {
		if _, err := server.Read(make([]byte, 1)); err == nil {
			r.onReply()
		}
		return
	}
	_, _ = io.Copy(client, server)
}
