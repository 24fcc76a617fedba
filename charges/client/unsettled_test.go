package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// unsettled checks that err leaves the outcome open, and returns it.
func unsettled(t *testing.T, err error) *client.UnsettledError {
	t.Helper()
	open, ok := errors.AsType[*client.UnsettledError](err)
	if !ok || open.Key == "" {
		t.Fatalf("got %#v, want an UnsettledError with a key", err)
	}
	if _, ok := errors.AsType[*client.Error](err); ok {
		t.Fatalf("an unsettled outcome also looks like a refusal: %v", err)
	}
	return open
}

func TestI2CallerGoesOnWithTheKeyOfTheError(t *testing.T) {
	t.Parallel()
	s := startServer(t, dropAfter, dropAfter, answers(503, "unavailable").with("Retry-After", "1"))
	c, _ := connect(t, s, client.WithMaxAttempts(3))
	_, err := c.Create(t.Context(), params())
	open := unsettled(t, err)
	if open.Attempts != 3 || open.Last == nil || open.Last.Code != "unavailable" || open.RetryAfter != time.Second {
		t.Errorf("got %+v", open)
	}
	p := params()
	p.IdempotencyKey = open.Key
	charge, err := c.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !charge.Answer.Replayed || s.made() != 1 {
		t.Errorf("replayed %t, %d charges", charge.Answer.Replayed, s.made())
	}
	sameThroughout(t, s.requests())
}

// A refusal settles only what it answers. The attempt before it may have been accepted.
func TestI2RefusalAfterALostAnswerSettlesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first fault
		open  bool
	}{
		"after a lost answer":     {dropAfter, true},
		"after a 500":             {answers(500, "internal").afterDoing(), true},
		"after a key in use":      {answers(409, "idempotency_key_in_use"), true},
		"after an unreadable 409": {fault{kind: "status", status: 409, header: map[string]string{"Content-Length": "99"}}, true},
		"after a 429":             {answers(429, "rate_limited"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, tc.first, answers(401, "unauthenticated"))
			c, _ := connect(t, s)
			_, err := c.Create(t.Context(), params())
			if !tc.open {
				if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != 401 {
					t.Fatalf("got %#v", err)
				}
				return
			}
			if open := unsettled(t, err); open.Last == nil || open.Last.Status != 401 || open.Attempts != 2 {
				t.Errorf("got %+v", open)
			}
		})
	}
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, clk := connect(t, s)
	s.Close()
	_, err := c.Create(t.Context(), params())
	if open := unsettled(t, err); open.Attempts != 8 || open.Last != nil || len(clk.waits()) != 7 {
		t.Errorf("got %+v, waits %v", open, clk.waits())
	}
	if _, err := c.Get(t.Context(), "ch_1"); err == nil || !strings.HasPrefix(err.Error(), "oncepay: Get ") {
		t.Errorf("get: got %v", err)
	}
}

func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	t.Run("before it", func(t *testing.T) {
		t.Parallel()
		s := startServer(t)
		c, _ := connect(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Create(ctx, params())
		if open := unsettled(t, err); open.Attempts != 1 || !errors.Is(err, context.Canceled) || len(s.requests()) != 0 {
			t.Errorf("got %v, %d requests", err, len(s.requests()))
		}
	})
	t.Run("during an attempt", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, hang)
		c, _ := connect(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := c.Create(ctx, params())
		if open := unsettled(t, err); open.Attempts != 1 || !errors.Is(err, context.DeadlineExceeded) || len(s.requests()) != 1 {
			t.Errorf("got %+v, %d requests", open, len(s.requests()))
		}
	})
	t.Run("but not an attempt's own timeout", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, hang)
		c, _ := connect(t, s, client.WithAttemptTimeout(200*time.Millisecond), client.WithMaxAttempts(1))
		_, err := c.Create(t.Context(), params())
		if open := unsettled(t, err); errors.Is(err, context.DeadlineExceeded) || !strings.Contains(open.Error(), "no complete answer within 200ms") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("during a wait", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, answers(503, "unavailable"))
		c, clk := connect(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		c.SetClock(clk.now, func(ctx context.Context, _ time.Duration) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		_, err := c.Create(ctx, params())
		if open := unsettled(t, err); !errors.Is(err, context.Canceled) || open.Last == nil || open.Last.Status != 503 {
			t.Errorf("got %+v", open)
		}
	})
	t.Run("where the wait would outlast it", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, answers(503, "unavailable").with("Retry-After", "30"))
		c, clk := connect(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := c.Create(ctx, params())
		if open := unsettled(t, err); !errors.Is(err, context.DeadlineExceeded) || open.RetryAfter != 30*time.Second || len(clk.waits()) != 0 {
			t.Errorf("got %+v, waits %v", open, clk.waits())
		}
	})
	t.Run("of a read", func(t *testing.T) {
		t.Parallel()
		s := startServer(t)
		s.reads = []fault{answers(503, "unavailable").with("Retry-After", "30")}
		c, _ := connect(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := c.Get(ctx, "ch_1")
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Status != 503 || refused.Key != "" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheTokenNeverShows(t *testing.T) {
	t.Parallel()
	s := startServer(t, answers(400, "invalid_request"), dropAfter, answers(403, "forbidden"))
	c, _ := connect(t, s)
	texts := []string{fmt.Sprintf("%v %+v %#v %+v", c, c, c, *c)}
	for range 2 {
		_, err := c.Create(t.Context(), params())
		texts = append(texts, fmt.Sprintf("%v %+v %#v", err, err, err))
	}
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, r.Header)
	}))
	defer echo.Close()
	toEcho, err := client.New(echo.URL, testToken)
	if err != nil {
		t.Fatal(err)
	}
	_, err = toEcho.Create(t.Context(), params())
	texts = append(texts, fmt.Sprintf("%v %+v %#v", err, err, err))
	_, err = client.New(s.URL, testToken+"\n")
	texts = append(texts, fmt.Sprint(err))
	for _, text := range texts {
		if text == "<nil>" || strings.Contains(text, testToken) {
			t.Errorf("the token shows, or nothing does: %s", text)
		}
	}
}
