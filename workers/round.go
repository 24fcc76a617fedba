package workers

import (
	"context"
	"sync"
)

// rounds let many who need a fresh answer share one question: whoever asks while one is on its way shares the next, which is put once all of
// them have asked. So the answer is never older than the wish for it, and there are no more questions than one after the other.
type rounds struct {
	ask func(context.Context) error

	turn sync.Mutex // held by the one that is on its way
	mu   sync.Mutex
	next *round // that has not been put yet; nil: there is none
}

type round struct {
	over chan struct{}
	err  error // once it is over
}

// join asks, or shares the question of somebody who is about to. It returns ctx's error if that ends first; the question is put all the same.
func (r *rounds) join(ctx context.Context) error {
	r.mu.Lock()
	mine := r.next
	if mine == nil {
		mine = &round{over: make(chan struct{})}
		r.next = mine
		go r.put(context.WithoutCancel(ctx), mine)
	}
	r.mu.Unlock()
	select {
	case <-mine.over:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rounds) put(ctx context.Context, mine *round) {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.mu.Lock()
	r.next = nil // whoever asks from now on may be later than this question
	r.mu.Unlock()
	mine.err = r.ask(ctx)
	close(mine.over)
}
