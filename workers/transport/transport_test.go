package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes calls to server as a provider's package does.
func client(t *testing.T, o Options, server *httptest.Server) *http.Client {
	t.Helper()
	rt := newRoundTripper(o)
	if server != nil && server.TLS != nil {
		rt.base.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	}
	c := Client(rt, nil)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// post is a POST under a key that may leave for another minute.
func post(t *testing.T, url, body string) *http.Request {
	t.Helper()
	return postUntil(t, t.Context(), time.Now().Add(time.Minute), url, body)
}

func postUntil(t *testing.T, ctx context.Context, until time.Time, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(WithNotAfter(ctx, until), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k-1")
	return req
}

// do returns the status, and the body or the error.
func do(c *http.Client, req *http.Request) (int, string, error) {
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), errors.Join(err, resp.Body.Close())
}

func TestCallArrivesAsItWasMade(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		// net/http gives no length for an empty body that is not nil.
		if err != nil || len(body) > 0 && r.ContentLength != int64(len(body)) || r.ProtoMajor != 1 {
			http.Error(w, "not one whole body of known length", http.StatusTeapot)
			return
		}
		w.Header().Set("X-Got", r.Header.Get("Idempotency-Key"))
		if _, err := w.Write(append([]byte("got "), body...)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c := client(t, Options{RequireKey: true}, server)
	for _, body := range []string{"a=1&b=2", "", strings.Repeat("x", maxRequest)} {
		req := post(t, server.URL, body)
		ctx, answer := Record(req.Context())
		status, got, err := do(c, req.WithContext(ctx))
		if err != nil || status != http.StatusOK || got != "got "+body {
			t.Fatalf("%d bytes: got %d, %d bytes, %v", len(body), status, len(got), err)
		}
		if answer.Status != http.StatusOK || answer.Header.Get("X-Got") != "k-1" || answer.Date().IsZero() || answer.Took < 0 {
			t.Errorf("recorded %+v", answer)
		}
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	t.Cleanup(server.Close)
	soon := time.Now().Add(time.Minute)
	for _, tt := range []struct {
		name       string
		requireKey bool
		method     string
		key        []string
		until      time.Time
		body       string
		admitted   bool
	}{
		{"keyed POST where keys are known", true, "POST", []string{"k"}, soon, "a=1", true},
		{"POST without a key where keys are known", true, "POST", nil, soon, "a=1", false},
		{"POST with an empty key", true, "POST", []string{""}, soon, "a=1", false},
		{"POST without a key where there are none", false, "POST", nil, soon, "{}", true},
		{"keyed POST where there are none", false, "POST", []string{"k"}, soon, "{}", false},
		{"empty key where there are none", false, "POST", []string{""}, soon, "{}", false},
		{"POST that may leave at any time", true, "POST", []string{"k"}, time.Time{}, "a=1", false},
		{"POST that is too late", true, "POST", []string{"k"}, time.Now().Add(-time.Millisecond), "a=1", false},
		{"POST that is too large", true, "POST", []string{"k"}, soon, strings.Repeat("x", maxRequest+1), false},
		{"GET", true, "GET", nil, time.Time{}, "", true},
		{"GET that is too late", true, "GET", nil, time.Now().Add(-time.Millisecond), "", false},
		{"DELETE", true, "DELETE", []string{"k"}, soon, "", false},
	} {
		before := arrived.Load()
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if !tt.until.IsZero() {
			req = req.WithContext(WithNotAfter(req.Context(), tt.until))
		}
		if tt.key != nil {
			req.Header["Idempotency-Key"] = tt.key
		}
		_, _, err = do(client(t, Options{RequireKey: tt.requireKey}, server), req)
		got := arrived.Load() - before
		if tt.admitted && (err != nil || got != 1) || !tt.admitted && (!errors.Is(err, ErrNotSent) || got != 0) {
			t.Errorf("%s: %d arrived, error %v", tt.name, got, err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(target.Close)
	server := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	status, _, err := do(client(t, Options{RequireKey: true}, server), post(t, server.URL, "a=1"))
	if err != nil || status != http.StatusTemporaryRedirect || followed.Load() != 0 {
		t.Fatalf("got %d, %v; followed %d times", status, err, followed.Load())
	}
}

func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range maxAnswer>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return // the client has had enough
			}
		}
	}))
	t.Cleanup(server.Close)
	_, body, err := do(client(t, Options{RequireKey: true}, server), post(t, server.URL, ""))
	if tooLarge := (*http.MaxBytesError)(nil); !errors.As(err, &tooLarge) || len(body) > maxAnswer {
		t.Fatalf("read %d bytes, %v", len(body), err)
	}
	if errors.Is(err, ErrNotSent) {
		t.Fatal("called not sent")
	}
}

// The bound covers the header and the body: whoever drips is cut off as well.
func TestCallIsBounded(t *testing.T) {
	t.Parallel()
	for name, drip := range map[string]bool{"no header": false, "no end": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			receive(t, r)
			if drip {
				w.WriteHeader(http.StatusOK)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
			<-r.Context().Done() // the client has hung up
		}))
		t.Cleanup(server.Close)
		began := time.Now()
		_, _, err := do(client(t, Options{RequireKey: true, Timeout: 100 * time.Millisecond}, server), post(t, server.URL, "a=1"))
		if err == nil || errors.Is(err, ErrNotSent) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: error %v after %s", name, err, time.Since(began))
		}
	}
}

// listen accepts connections and hands each to serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			serve(c)
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return "http://" + l.Addr().String()
}

// receive reads the whole request, without which a server does not notice that its client hangs up.
func receive(t *testing.T, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Error(err)
	}
}

// As many calls as were made at once are made again without another handshake.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const atOnce = 200
	var opened atomic.Int32
	var together sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		together.Done() // nobody is answered before all have asked
		together.Wait()
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := client(t, Options{RequireKey: true}, server)
	for range 3 {
		together.Add(atOnce)
		var calls sync.WaitGroup
		for range atOnce {
			calls.Go(func() {
				if status, _, err := do(c, post(t, server.URL, "a=1")); err != nil || status != http.StatusOK {
					t.Errorf("%d, %v", status, err)
				}
			})
		}
		calls.Wait()
	}
	if n := opened.Load(); n != atOnce {
		t.Errorf("%d connections for %d calls at once", n, atOnce)
	}
}
