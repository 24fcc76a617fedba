package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// I2: net/http sends a keyed POST a second time by itself when a kept-alive connection dies under it.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"a=1", ""} {
		// serve answers the first request on a connection and hangs up on the second, having read it.
		var requests atomic.Int32
		address := listen(t, func(c net.Conn) {
			defer func() { _ = c.Close() }()
			in := bufio.NewReader(c)
			for n := 1; n <= 2; n++ {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				requests.Add(1)
				if n == 1 {
					if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
						return
					}
				}
			}
		})
		twice := func(c *http.Client) (int32, error) {
			before := requests.Load()
			if _, got, err := do(c, post(t, address, body)); err != nil || got != "ok" {
				t.Fatalf("first call: %q, %v", got, err)
			}
			_, _, err := do(c, post(t, address, body))
			return requests.Load() - before, err
		}

		n, err := twice(client(t, Options{RequireKey: true}, nil))
		if n != 2 || err == nil || errors.Is(err, ErrNotSent) {
			t.Errorf("body %q: two calls made %d requests, the second ended with %v", body, n, err)
		}

		// This is what the server provokes without this package; else the check above could not fail.
		plain := &http.Client{Transport: &http.Transport{}}
		n, err = twice(plain)
		plain.CloseIdleConnections()
		if n != 3 || err != nil {
			t.Errorf("body %q: net/http alone made %d requests of two calls, %v", body, n, err)
		}
	}
}

// I2: a process that is suspended between getting its connection and writing to it wakes up to a request that is too
// old, and must not send it.
func TestSuspendedRequestNeverLeaves(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.ProtoMajor != 1 {
			t.Errorf("a call came by %s, in which a connection has many", r.Proto)
		}
	})
	for name, start := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS} {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = true // offered, and not taken
		start(server)
		t.Cleanup(server.Close)
		c := client(t, Options{RequireKey: true}, server)
		for _, kept := range []bool{false, true} {
			before := requests.Load()
			until := time.Now().Add(200 * time.Millisecond)
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				reused = info.Reused
				<-time.After(time.Until(until) + time.Millisecond)
			}})
			_, _, err := do(c, postUntil(t, ctx, until, server.URL, "a=1"))
			if !errors.Is(err, ErrNotSent) || requests.Load() != before {
				t.Errorf("%s: %d arrived, %v", name, requests.Load()-before, err)
			}
			if reused != kept {
				t.Errorf("%s: connection reused is %t, want %t", name, reused, kept)
			}
			// The connection was given up; the next call works, and leaves one that can be kept.
			if status, _, err := do(c, post(t, server.URL, "a=1")); err != nil || status != http.StatusOK {
				t.Errorf("%s: the call after it: %d, %v", name, status, err)
			}
		}
	}
}

func TestNotSent(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "http://" + free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = discardLog
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, req := range map[string]*http.Request{
		"connection refused":    post(t, refusing, "a=1"),
		"no such host":          post(t, "http://no-such-host.invalid", "a=1"),
		"TLS to a plain port":   post(t, strings.Replace(plain.URL, "http", "https", 1), "a=1"),
		"untrusted certificate": post(t, untrusted.URL, "a=1"),
		"canceled before":       postUntil(t, canceled, time.Now().Add(time.Minute), plain.URL, "a=1"),
	} {
		if _, _, err := do(client(t, Options{RequireKey: true}, nil), req); !errors.Is(err, ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPerhapsSent(t *testing.T) {
	t.Parallel()
	read := func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
	}
	for name, serve := range map[string]func(net.Conn){
		"closed without a word": func(c net.Conn) { read(c) },
		"reset": func(c net.Conn) {
			read(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		},
		"half a header": func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConte")
		},
		"not HTTP": func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n")
		},
		"half a body": func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		},
	} {
		address := listen(t, func(c net.Conn) {
			serve(c)
			_ = c.Close()
		})
		_, _, err := do(client(t, Options{RequireKey: true}, nil), post(t, address, "a=1"))
		if err == nil || errors.Is(err, ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCanceledAfterWritingIsPerhapsSent(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		receive(t, r)
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	_, _, err := do(client(t, Options{RequireKey: true}, server), postUntil(t, ctx, time.Now().Add(time.Minute), server.URL, "a=1"))
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) {
		t.Fatalf("got %v", err)
	}
}

// net/http's writing goroutine may come to a call that was canceled and has been reported as not sent.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	on := &conn{Conn: here}
	if err := here.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	ended := &call{}
	ended.take(on)
	if ended.end() {
		t.Fatal("a call that wrote nothing says that it did")
	}
	if n, err := on.Write([]byte("late")); n != 0 || !errors.Is(err, errOver) {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}

	next := &call{}
	next.take(on)
	go func() { _, _ = io.ReadFull(there, make([]byte, 2)) }()
	if n, err := on.Write([]byte("ok")); n != 2 || err != nil {
		t.Fatalf("the next call wrote %d bytes, %v", n, err)
	}
	if !next.end() {
		t.Fatal("a call that wrote says that it did not")
	}

	foreign := &call{}
	foreign.take(there)
	if !foreign.end() {
		t.Fatal("a connection that does not ask was trusted")
	}
}
