package workers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// Many who ask while a question is on its way share the next one, and nobody gets the answer to a question that was put before.
func TestRounds(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	began, release := make(chan struct{}, 10), make(chan struct{})
	r := rounds{ask: func(context.Context) error {
		asked.Add(1)
		began <- struct{}{}
		<-release
		return nil
	}}
	var all sync.WaitGroup
	all.Go(func() {
		if err := r.join(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-began
	joined := make(chan struct{}, 100)
	for range 100 {
		all.Go(func() {
			joined <- struct{}{}
			if err := r.join(t.Context()); err != nil {
				t.Error(err)
			}
			if asked.Load() < 2 {
				t.Error("it got the answer to a question that was put before it asked")
			}
		})
	}
	for range 100 {
		<-joined
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := r.join(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever gave up got %v", err)
	}
	close(release)
	all.Wait()
	if n := asked.Load(); n > 4 { // one each for those that came before the first had its answer, and for stragglers
		t.Errorf("%d questions for 101 who asked", n)
	}
}
