package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// retryPolicy is for errors of ours, which are the database's: the first retries come soon, later ones each minute, and
// there is no last one.
type retryPolicy struct{}

func (retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	return time.Now().Add(backoff(len(job.Errors) + 1))
}

// errorHandler makes every failed run visible, in our own words.
type errorHandler struct{ log *slog.Logger }

func (h errorHandler) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	h.log.Error("job.failed", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "error", err)
	return nil
}

func (h errorHandler) HandlePanic(_ context.Context, job *rivertype.JobRow, panicked any, trace string) *river.ErrorHandlerResult {
	h.log.Error("job.panicked", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "panic", panicked, "trace", trace)
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
