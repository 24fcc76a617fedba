package charges

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight are the keys and references under which this process is accepting charges. A second request under one of them waits here, where it costs
// nothing, and not in the database, where it would hold a connection, or hold up those that share its transaction; then it finds what has become
// of the first.
type inFlight struct {
	mu    sync.Mutex
	names map[string]*flight

	waiting atomic.Int64
}

// inFlightBound is how long a request waits for the first under its key, as long as one waits for a key that another process has in hand.
const inFlightBound = 5 * time.Second

type flight struct {
	ended chan struct{}
	err   error // of the first, once it has ended
}

// enter waits for the first request under a name, or makes this one the first. The first must leave with how it ended; an error says that
// the first has found the name in other hands, or is at it for too long, or that ctx has ended.
func (f *inFlight) enter(ctx context.Context, name string) (leave func(error), err error) {
	f.mu.Lock()
	first := f.names[name]
	if first != nil {
		f.mu.Unlock()
		f.waiting.Add(1)
		defer f.waiting.Add(-1)
		if err := first.wait(ctx); errors.Is(err, ErrKeyInUse) || ctx.Err() != nil {
			return nil, err
		}
		return func(error) {}, nil
	}
	defer f.mu.Unlock()
	mine := &flight{ended: make(chan struct{})}
	if f.names == nil {
		f.names = map[string]*flight{}
	}
	f.names[name] = mine
	return func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.names, name)
		mine.err = err
		close(mine.ended)
	}, nil
}

// wait returns how the flight has ended. One that lasts longer holds the key.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.ended:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(inFlightBound):
		return ErrKeyInUse
	}
}
