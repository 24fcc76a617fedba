package charges

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// inFlight are the keys under which this process is accepting charges. A second request under one of them waits here, where it costs nothing,
// and not in the database, where it would hold a connection; then it finds what has become of the first.
type inFlight struct {
	mu   sync.Mutex
	keys map[uuid.UUID]*flight
}

// inFlightBound is how long a request waits for the first under its key, as long as one waits for a key that another process has in hand.
const inFlightBound = 5 * time.Second

type flight struct {
	ended chan struct{}
	err   error // of the first, once it has ended
}

// enter returns the first request under the key; nil: this one is, and must leave.
func (f *inFlight) enter(key uuid.UUID) (first *flight, leave func(error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first := f.keys[key]; first != nil {
		return first, nil
	}
	mine := &flight{ended: make(chan struct{})}
	if f.keys == nil {
		f.keys = map[uuid.UUID]*flight{}
	}
	f.keys[key] = mine
	return nil, func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.keys, key)
		mine.err = err
		close(mine.ended)
	}
}

// wait returns how the flight has ended. One that lasts longer holds the key.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.ended:
		return f.err
	case <-ctx.Done():
	case <-time.After(inFlightBound):
	}
	return ErrKeyInUse
}
