package charges

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// watchEvery is how often the charges that somebody waits for are read: once for all waiters together, so that a
// thousand of them cost the database no more than one.
const watchEvery = 100 * time.Millisecond

// Wait returns the charge once it waits for no worker any more, or as it is when ctx ends, read after that.
func (s *Service) Wait(ctx context.Context, caller string, id uuid.UUID) (Charge, error) {
	settled, stop := s.watch.add(id)
	defer stop()
	select {
	case c := <-settled:
		if caller != "" && c.Caller != caller {
			return Charge{}, ErrNotFound
		}
		return c.shownTo(caller), nil
	case <-ctx.Done():
		read, cancel := unhurried(ctx)
		defer cancel()
		return s.Get(read, caller, id)
	}
}

// watch reads on behalf of everybody who waits. Its goroutine lives only while somebody does.
type watch struct {
	read func(context.Context, []uuid.UUID) ([]Charge, error)

	mu      sync.Mutex
	waiting map[uuid.UUID]map[chan Charge]struct{}
	running bool
}

func newWatch(read func(context.Context, []uuid.UUID) ([]Charge, error)) *watch {
	return &watch{read: read, waiting: map[uuid.UUID]map[chan Charge]struct{}{}}
}

func (w *watch) add(id uuid.UUID) (settled <-chan Charge, stop func()) {
	ch := make(chan Charge, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] == nil {
		w.waiting[id] = map[chan Charge]struct{}{}
	}
	w.waiting[id][ch] = struct{}{}
	if !w.running {
		w.running = true
		go w.run()
	}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[id], ch)
		if len(w.waiting[id]) == 0 {
			delete(w.waiting, id)
		}
	}
}

func (w *watch) run() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for range tick.C {
		w.mu.Lock()
		if len(w.waiting) == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		ids := make([]uuid.UUID, 0, len(w.waiting))
		for id := range w.waiting {
			ids = append(ids, id)
		}
		w.mu.Unlock()

		// A read that fails is tried again at the next tick: the waiters have bounds of their own, and read for
		// themselves at the end, where an error is reported.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		settled, err := w.read(ctx, ids)
		cancel()
		if err != nil {
			continue
		}
		w.mu.Lock()
		for _, c := range settled {
			for ch := range w.waiting[c.ID] {
				select {
				case ch <- c:
				default: // it has one already
				}
			}
		}
		w.mu.Unlock()
	}
}
