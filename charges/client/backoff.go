package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	backoffBase = 200 * time.Millisecond
	backoffMax  = 5 * time.Second
)

// errSpent ends a call that has used up its attempts or its time.
var errSpent = errors.New("no attempt left")

// pause waits before the attempt after the given one, counted from 1. It is errSpent or the context's error when there
// must be no other attempt, and says so at once rather than after a wait that could lead to nothing.
func (c *Client) pause(ctx context.Context, started time.Time, attempt int, minimum time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	delay := minimum + rand.N(backoffCeiling(attempt)+1)
	next := c.now().Add(delay)
	if attempt >= c.maxAttempts || next.Sub(started) > c.maxElapsed {
		return errSpent
	}
	if deadline, ok := ctx.Deadline(); ok && next.After(deadline) {
		return context.DeadlineExceeded
	}
	return c.sleep(ctx, delay)
}

func backoffCeiling(attempt int) time.Duration {
	ceiling := backoffBase
	for i := 1; i < attempt && ceiling < backoffMax; i++ {
		ceiling *= 2
	}
	return min(ceiling, backoffMax)
}

// retryAfter reads Retry-After in both of its forms (RFC 9110, 10.2.3); 0 where it is absent, past or senseless.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	// 32 bits keep the product within a Duration; a number beyond them counts as the largest.
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	// The server's own clock wrote it, so measure by that one where it is given.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
