package transport

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Answer is what is known of a provider's answer besides its body.
type Answer struct {
	Status int // 0: there was none
	Header http.Header
	Took   time.Duration // from the call to the answer's header, by the wall clock
}

type answerKey struct{}

// Record returns a context whose one call fills in the answer. It is filled in before the call returns, also when the
// body turns out to be unreadable.
func Record(ctx context.Context) (context.Context, *Answer) {
	a := new(Answer)
	return context.WithValue(ctx, answerKey{}, a), a
}

func record(ctx context.Context, resp *http.Response, began time.Time) {
	if a, ok := ctx.Value(answerKey{}).(*Answer); ok {
		*a = Answer{Status: resp.StatusCode, Header: resp.Header, Took: time.Now().Round(0).Sub(began.Round(0))}
	}
}

// maxWait bounds what a provider may ask for: a senseless value must not silence us for days.
const maxWait = time.Hour

// Date is the provider's clock when it answered; zero if it did not say.
func (a *Answer) Date() time.Time {
	t, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}

// RetryAfter is how long the provider asks us to wait, from 0 (it did not ask) to an hour. Retry-After holds seconds or
// a date, X-RateLimit-Reset (SendGrid) Unix seconds; both are judged on the provider's own clock.
func (a *Answer) RetryAfter() time.Duration {
	now := a.Date()
	if now.IsZero() {
		now = time.Now()
	}
	var wait time.Duration
	after := a.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = at.Sub(now)
	} else if reset, err := strconv.ParseUint(a.Header.Get("X-RateLimit-Reset"), 10, 40); err == nil {
		wait = time.Unix(int64(reset), 0).Sub(now)
	}
	return min(max(wait, 0), maxWait)
}
