package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncepay/oncepay/workers/transport"
)

// retryPolicy is for errors of ours, which are the database's: the first retries come soon, later ones each minute, and
// there is no last one.
type retryPolicy struct{}

func (retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	return time.Now().Add(backoff(len(job.Errors) + 1))
}

// mostErrors is how many errors River keeps with one job. They are read with it each time it runs, so the list must end; later ones are logged alone.
const mostErrors = 20

// guard is around every run of every job. What River stores of an error is one short line without secrets, since it writes many jobs' ends in one
// statement and one text that PostgreSQL refuses would hold up all of them; a panic is an error like any other.
type guard struct {
	river.MiddlewareDefaults
	log *slog.Logger
}

// Work implements River's middleware.
func (g *guard) Work(ctx context.Context, job *rivertype.JobRow, run func(context.Context) error) (err error) {
	ctx, end := withTrialCall(ctx)
	defer end()
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("job.panicked", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "panic", transport.Clean(fmt.Sprint(p)), "trace", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
		err = g.bound(job, err)
	}()
	return run(ctx)
}

// bound makes an error fit to be stored. Where there are enough of them already the job comes back without one, which costs no attempt either.
func (g *guard) bound(job *rivertype.JobRow, err error) error {
	if err == nil || errors.As(err, new(*river.JobSnoozeError)) {
		return err
	}
	err = cleanError{err}
	if len(job.Errors) < mostErrors || errors.As(err, new(*river.JobCancelError)) || errors.Is(err, context.Canceled) {
		return err
	}
	g.log.Error("job.failed", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "error", err, "errors_kept", len(job.Errors))
	return river.JobSnooze(backoff(len(job.Errors) + 1))
}

// cleanError is an error in a text that may be stored anywhere.
type cleanError struct{ error }

func (e cleanError) Error() string { return transport.Clean(e.error.Error()) }
func (e cleanError) Unwrap() error { return e.error }

// errorHandler makes every failed run visible, in our own words.
type errorHandler struct{ log *slog.Logger }

func (h errorHandler) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	h.log.Error("job.failed", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "error", cleanError{err})
	return nil
}

// HandlePanic is for a panic outside of what guard is around.
func (h errorHandler) HandlePanic(_ context.Context, job *rivertype.JobRow, panicked any, trace string) *river.ErrorHandlerResult {
	h.log.Error("job.panicked", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "panic", transport.Clean(fmt.Sprint(panicked)), "trace", trace)
	return nil
}

// levelFloor lets River itself speak only from a level upwards: our own lines tell what was done.
type levelFloor struct {
	slog.Handler
	floor slog.Level
}

func (h levelFloor) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.floor && h.Handler.Enabled(ctx, level)
}

func (h levelFloor) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelFloor{h.Handler.WithAttrs(attrs), h.floor}
}

func (h levelFloor) WithGroup(name string) slog.Handler {
	return levelFloor{h.Handler.WithGroup(name), h.floor}
}

// seldomEvery is how often River may say the same: while the database is away each of its parts would, several times a second.
const seldomEvery = 10 * time.Second

// seldom lets the same message through once in a while.
type seldom struct {
	slog.Handler
	said *sync.Map // when, by message
}

func (h seldom) Handle(ctx context.Context, r slog.Record) error {
	if last, ok := h.said.Load(r.Message); ok && r.Time.Sub(last.(time.Time)) < seldomEvery {
		return nil
	}
	h.said.Store(r.Message, r.Time)
	return h.Handler.Handle(ctx, r)
}

func (h seldom) WithAttrs(attrs []slog.Attr) slog.Handler {
	return seldom{h.Handler.WithAttrs(attrs), h.said}
}

func (h seldom) WithGroup(name string) slog.Handler { return seldom{h.Handler.WithGroup(name), h.said} }
