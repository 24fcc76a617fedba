package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

func TestRetryAfterIsAMinimum(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		fault     fault
		low, high time.Duration // of the wait, without the client's own
	}{
		"seconds, 503": {answers(503, "unavailable").with("Retry-After", "7"), 7 * time.Second, 7 * time.Second},
		"seconds, 429": {answers(429, "").with("Retry-After", "3"), 3 * time.Second, 3 * time.Second},
		"seconds, 409": {answers(409, "idempotency_key_in_use").with("Retry-After", "1"), time.Second, time.Second},
		"date":         {answers(503, "unavailable").with("Retry-After", in(20*time.Second)), 17 * time.Second, 20 * time.Second},
		"date of a server whose clock is a day ahead": {
			answers(503, "unavailable").with("Date", in(24*time.Hour)).with("Retry-After", in(24*time.Hour+9*time.Second)),
			8 * time.Second, 10 * time.Second,
		},
		"past date": {answers(503, "unavailable").with("Retry-After", in(-time.Hour)), 0, 0},
		"senseless": {answers(503, "unavailable").with("Retry-After", "soon"), 0, 0},
		"negative":  {answers(503, "unavailable").with("Retry-After", "-5"), 0, 0},
		"absent":    {answers(503, "unavailable"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, tc.fault)
			c, clk := connect(t, s)
			if _, err := c.Create(t.Context(), params()); err != nil {
				t.Fatal(err)
			}
			waits := clk.waits()
			if len(waits) != 1 || waits[0] < tc.low || waits[0] > tc.high+client.BackoffCeiling(1) {
				t.Errorf("waited %v, want %v to %v and at most %v more", waits, tc.low, tc.high, client.BackoffCeiling(1))
			}
		})
	}
}

func TestLongRetryAfterEndsTheCallAtOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"120":                     2 * time.Minute,
		"99999999999999999999999": (1<<32 - 1) * time.Second,
	} {
		s := startServer(t, answers(503, "unavailable").with("Retry-After", text))
		c, clk := connect(t, s)
		_, err := c.Create(t.Context(), params())
		if open := unsettled(t, err); open.RetryAfter != want || open.Attempts != 1 || len(clk.waits()) != 0 {
			t.Errorf("Retry-After %s: got %+v, waits %v", text, open, clk.waits())
		}
	}
}

func TestBackoffGrowsWithJitterAndIsBounded(t *testing.T) {
	t.Parallel()
	var faults []fault
	for range 1000 {
		faults = append(faults, answers(500, "internal"))
	}
	s := startServer(t, faults...)
	c, clk := connect(t, s, client.WithMaxAttempts(1000), client.WithMaxElapsed(10*time.Minute))
	_, err := c.Create(t.Context(), params())
	open := unsettled(t, err)
	waits := clk.waits()
	var total time.Duration
	distinct := map[time.Duration]bool{}
	for i, wait := range waits {
		if ceiling := client.BackoffCeiling(i + 1); wait < 0 || wait > ceiling || ceiling > 5*time.Second {
			t.Errorf("wait %d is %v, ceiling %v", i+1, wait, ceiling)
		}
		total += wait
		distinct[wait] = true
	}
	if client.BackoffCeiling(1) != 200*time.Millisecond || client.BackoffCeiling(3) != 800*time.Millisecond || client.BackoffCeiling(1000) != 5*time.Second {
		t.Errorf("ceilings are %v, %v, %v", client.BackoffCeiling(1), client.BackoffCeiling(3), client.BackoffCeiling(1000))
	}
	// 240 waits of 2.5 s on the average; a call that is not bounded by time would make 1000 attempts.
	if open.Attempts > 600 || total > 10*time.Minute || total < 9*time.Minute || len(distinct) < len(waits)/2 {
		t.Errorf("%d attempts in %v, %d waits, %d of them distinct", open.Attempts, total, len(waits), len(distinct))
	}
	sameThroughout(t, s.requests())
}
