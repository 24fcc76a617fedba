package outbox

import (
	"sync"
	"time"
)

const (
	quickly   = 50 * time.Millisecond
	figureFor = 20 // times what it took to count
)

// Figure is a figure for the metrics. One that took longer than 50 ms to count is given out again for twenty times as long as that took, so that
// counting never takes more than a twentieth of the time of one connection, however much waits and however many ask. Its zero value is ready.
type Figure[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

// Of returns the figure, counted now or lately. An error is not kept.
func (f *Figure[T]) Of(count func() (T, error)) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	began := time.Now()
	if began.Before(f.until) {
		return f.value, nil
	}
	value, err := count()
	if err != nil {
		return value, err
	}
	if took := time.Since(began); took > quickly {
		f.value, f.until = value, began.Add((figureFor+1)*took)
	}
	return value, nil
}
