package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve runs an API on a listener of its own until stop is called; stopped gives Serve's result.
func serve(t *testing.T, d *deployment) (i *instance, stop context.CancelFunc, stopped <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	result := make(chan error, 1)
	a := newAPI(t, d.service, nil)
	go func() { result <- a.Serve(ctx, listener) }()
	t.Cleanup(stop)
	base := "http://" + listener.Addr().String()
	return &instance{base: base, client: checkedClient(t, base)}, stop, result
}

func wantStopped(t *testing.T, stopped <-chan error) {
	t.Helper()
	select {
	case err := <-stopped:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("Serve did not return")
	}
}

func TestShutdownEndsWaits(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	i, stop, stopped := serve(t, d)
	var wg sync.WaitGroup
	var r reply
	wg.Go(func() { r = i.post(t, alice, newKey(), goodBody, "Prefer", "wait=60") })
	eventually(t, "the charge", func() bool { return d.count(t, "charge") == 1 })
	began := time.Now()
	stop()
	wg.Wait()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the waiter was answered after %s", took)
	}
	if r.status != http.StatusAccepted || r.charge(t).Status != "pending" {
		t.Errorf("answered %d %s", r.status, r.body)
	}
	wantStopped(t, stopped)
	if conn, err := net.Dial("tcp", strings.TrimPrefix(i.base, "http://")); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	i, stop, stopped := serve(t, d)
	key := newKey()
	other := hold(t, d, key, "alice")
	var wg sync.WaitGroup
	var r reply
	wg.Go(func() { r = i.post(t, alice, key, goodBody) })
	d.blocked(t, 1)
	stop()
	eventually(t, "the listener to close", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(i.base, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if r.status != http.StatusAccepted {
		t.Errorf("answered %d %s", r.status, r.body)
	}
	wantStopped(t, stopped)
	d.wantRows(t, 1)
}

func TestServeTellsThatItsListenerFailed(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := newAPI(t, d.service, nil).Serve(t.Context(), listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestServerBoundsEverything(t *testing.T) {
	t.Parallel()
	s := newAPI(t, deploy(t, nil).service, nil).Server()
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 || s.WriteTimeout <= 60*time.Second+s.ReadTimeout {
		t.Errorf("%+v", s)
	}
}

// A body that arrives slower than allowed is given up, and others are served meanwhile.
func TestSlowDrip(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	const allowed = 2 * time.Second
	server := httptest.NewUnstartedServer(nil)
	server.Config = newAPI(t, d.service, nil).Server()
	server.Config.ReadTimeout = allowed
	server.Start()
	t.Cleanup(server.Close)
	others := &instance{base: server.URL, client: checkedClient(t, server.URL)}

	key := newKey()
	var wg sync.WaitGroup
	var told atomic.Int64
	for range 20 {
		wg.Go(func() {
			began := time.Now()
			status, err := drip(server.Listener.Addr().String(), key)
			if took := time.Since(began); took > 5*allowed || err == nil && status != http.StatusRequestTimeout {
				t.Errorf("answered %d after %s", status, took)
			}
			if err == nil {
				told.Add(1)
			}
		})
	}
	others.accept(t, alice, newKey(), goodBody)
	wg.Wait()
	if told.Load() == 0 {
		t.Error("nobody was told, all were cut off")
	}
	d.wantRows(t, 1)
	others.accept(t, alice, key, goodBody)
}

// drip sends a body byte by byte until it is answered or cut off, which is the error then.
func drip(address, key string) (status int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(conn, "POST /charge HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", alice, key, len(goodBody)+1000)
	if err != nil {
		return 0, err
	}
	answered := make(chan struct{})
	go func() {
		for i := range goodBody {
			select {
			case <-answered:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if _, err := io.WriteString(conn, goodBody[i:i+1]); err != nil {
				return
			}
		}
	}()
	defer close(answered)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode, nil
}
