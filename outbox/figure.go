package outbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	quickly    = 50 * time.Millisecond
	figureFor  = 20 // times what it took to count
	refusalFor = time.Second
)

// Figure is a figure for the metrics. One that took longer than 50 ms to count is given out again for twenty times as long as that took, so that
// counting never takes more than a twentieth of the time of one connection, however much waits and however many ask. An error is given out again
// for a second. One counts at a time; whoever asks meanwhile waits for what that finds. Its zero value is ready.
type Figure[T any] struct {
	mu       sync.Mutex
	counting chan struct{} // closed when the one that counts has ended; nil: nobody counts
	value    T
	err      error
	until    time.Time
}

// Of returns the figure, counted now or lately. It must not be changed: others are given the same. Whoever waits for another's count waits no longer
// than its own ctx. That another gave up is no answer; that another's time was over is one, since a database that is away takes everybody's.
func (f *Figure[T]) Of(ctx context.Context, count func() (T, error)) (T, error) {
	for {
		f.mu.Lock()
		if time.Now().Before(f.until) {
			defer f.mu.Unlock()
			return f.value, f.err
		}
		counting := f.counting
		if counting == nil {
			f.counting = make(chan struct{})
			f.mu.Unlock()
			return f.now(ctx, count)
		}
		f.mu.Unlock()
		select {
		case <-counting:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

// now counts, as the only one.
func (f *Figure[T]) now(ctx context.Context, count func() (T, error)) (value T, err error) {
	began, ended := time.Now(), false
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		took := time.Since(began)
		switch {
		case !ended: // it panics
		case err != nil && !errors.Is(ctx.Err(), context.Canceled):
			f.value, f.err, f.until = value, err, time.Now().Add(refusalFor)
		case err == nil && took > quickly:
			f.value, f.err, f.until = value, nil, began.Add((figureFor+1)*took)
		}
		close(f.counting)
		f.counting = nil
	}()
	value, err = count()
	ended = true
	return value, err
}
