package transport

import (
	"context"
	"time"
)

type notAfterKey struct{}

// WithNotAfter forbids the requests made with the context to leave after t, judged by the wall clock when they are
// written. A timer cannot do this: Go's clock stands still while a virtual machine is suspended, and a request could leave
// hours after it was prepared. Every POST needs one.
func WithNotAfter(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, notAfterKey{}, t.Round(0))
}

// notAfter is zero where none was set.
func notAfter(ctx context.Context) time.Time {
	t, _ := ctx.Value(notAfterKey{}).(time.Time)
	return t
}

// tooLate compares wall clocks: Round strips the monotonic reading.
func tooLate(t time.Time) bool {
	return !t.IsZero() && time.Now().Round(0).After(t)
}

// NotAfter is the time that [WithNotAfter] has put into a context; zero: none.
func NotAfter(ctx context.Context) time.Time { return notAfter(ctx) }
