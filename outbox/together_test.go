package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// doAll gives every member's work to t at once, and returns what came of each.
func doAll[T any](t *Together[T], members []T) []error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = t.Do(context.Background(), m) })
	}
	all.Wait()
	return errs
}

func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// waits tells whether so many wait.
func (t *Together[T]) waits(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) >= n
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) { // the pace of the poll
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func TestTogetherSharesWhatWaits(t *testing.T) {
	t.Parallel()
	hold, runs := make(chan struct{}), make(chan []int, 10)
	shared := NewTogether(TogetherBounds{}, func(_ context.Context, members []int) error {
		runs <- members
		<-hold
		return nil
	})
	first := make(chan error)
	go func() { first <- shared.Do(t.Context(), -1) }()
	if alone := <-runs; !slices.Equal(alone, []int{-1}) {
		t.Fatalf("the first run has %v, want the one that came, at once", alone)
	}
	rest := make(chan []error)
	go func() { rest <- doAll(shared, upTo(100)) }()
	await(t, "100 wait", func() bool { return shared.waits(100) })
	close(hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	for i, err := range <-rest {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	together := <-runs
	if slices.Sort(together); !slices.Equal(together, upTo(100)) {
		t.Errorf("the second run has %v, want all that waited", together)
	}
	if len(runs) != 0 || shared.running != 0 {
		t.Errorf("%d more runs, %d still count as running", len(runs), shared.running)
	}
}

// One poisoned member, or several, of a hundred fail alone, and each run is either kept whole or not at all.
func TestTogetherPoison(t *testing.T) {
	t.Parallel()
	poison := map[int]bool{0: true, 41: true, 42: true, 99: true}
	var kept sync.Map
	var runs atomic.Int32
	shared := NewTogether(TogetherBounds{Runs: 2}, func(_ context.Context, members []int) error {
		runs.Add(1)
		for _, m := range members {
			if poison[m] {
				return fmt.Errorf("%d is poison", m)
			}
		}
		for _, m := range members {
			if _, twice := kept.LoadOrStore(m, true); twice {
				t.Errorf("%d was done twice", m)
			}
		}
		return nil
	})
	for i, err := range doAll(shared, upTo(100)) {
		if (err != nil) != poison[i] || poison[i] && err.Error() != fmt.Sprintf("%d is poison", i) {
			t.Errorf("%d: %v", i, err)
		}
		if _, ok := kept.Load(i); ok == poison[i] {
			t.Errorf("%d: kept is %t", i, ok)
		}
	}
	if n := runs.Load(); n > 100 {
		t.Errorf("%d runs for 100 members", n)
	}
}

// What cannot work for now is not tried again for each member, and what may have worked is not tried again at all.
func TestTogetherUnavailable(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{ErrNoConnection, ErrInDoubt} {
		hold := make(chan struct{})
		var runs atomic.Int32
		shared := NewTogether(TogetherBounds{}, func(_ context.Context, _ []int) error {
			runs.Add(1)
			<-hold
			return failure
		})
		first := make(chan error)
		go func() { first <- shared.Do(t.Context(), -1) }()
		await(t, "one runs", func() bool { return runs.Load() == 1 })
		rest := make(chan []error)
		go func() { rest <- doAll(shared, upTo(50)) }()
		await(t, "50 wait", func() bool { return shared.waits(50) })
		close(hold)
		for _, err := range append(<-rest, <-first) {
			if !errors.Is(err, failure) {
				t.Errorf("%v, want %v", err, failure)
			}
		}
		if n := runs.Load(); n != 2 {
			t.Errorf("%v: %d runs, want 2", failure, n)
		}
	}
}

// A member that cannot go on holds up those that share its run until that has ended, and nobody else.
func TestTogetherStalled(t *testing.T) {
	t.Parallel()
	stuck, entered, begun, release := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	shared := NewTogether(TogetherBounds{}, func(_ context.Context, members []int) error {
		if len(members) > 1 && slices.Contains(members, 0) {
			return errors.New("0 is held by another")
		}
		if slices.Contains(members, 0) {
			close(entered)
			<-stuck
		}
		if slices.Contains(members, -1) {
			close(begun)
			<-release
		}
		return nil
	})
	go shared.Do(context.Background(), -1)
	<-begun
	all := make(chan error, 10)
	for i := range 10 {
		go func() { all <- shared.Do(context.Background(), i) }()
	}
	await(t, "10 wait", func() bool { return shared.waits(10) })
	close(release)
	<-entered
	for range 9 {
		if err := <-all; err != nil {
			t.Error(err)
		}
	}
	if err := shared.Do(t.Context(), 11); err != nil {
		t.Error(err)
	}
	close(stuck)
	if err := <-all; err != nil {
		t.Error(err)
	}
}

func TestTogetherBounds(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var running, most, largest atomic.Int32
	shared := NewTogether(TogetherBounds{Runs: 2, Members: 3, Waiting: 10, Wait: time.Minute}, func(_ context.Context, members []int) error {
		now := running.Add(1)
		defer running.Add(-1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		for was := largest.Load(); int32(len(members)) > was && !largest.CompareAndSwap(was, int32(len(members))); was = largest.Load() {
		}
		<-hold
		return nil
	})
	held := make(chan []error)
	go func() { held <- doAll(shared, upTo(12)) }()
	await(t, "two run and ten wait", func() bool { return running.Load() == 2 && shared.waits(10) })
	if err := shared.Do(t.Context(), 12); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	close(hold)
	for _, err := range <-held {
		if err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 2 || largest.Load() != 3 {
		t.Errorf("at most %d runs of %d members, want 2 of 3", most.Load(), largest.Load())
	}
}

// Who has waited for too long is told so, and is not worked for after that.
func TestTogetherWaitedTooLong(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var done atomic.Int32
	shared := NewTogether(TogetherBounds{Wait: 50 * time.Millisecond}, func(_ context.Context, members []int) error {
		<-hold
		done.Add(int32(len(members)))
		return nil
	})
	first, second := make(chan error), make(chan error)
	go func() { first <- shared.Do(context.Background(), 1) }()
	await(t, "one runs", func() bool { shared.mu.Lock(); defer shared.mu.Unlock(); return shared.running == 1 })
	go func() { second <- shared.Do(context.Background(), 2) }()
	await(t, "one waits", func() bool { return shared.waits(1) })
	time.Sleep(60 * time.Millisecond) // that it waits too long is what is tested
	close(hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; !errors.Is(err, ErrBusy) || done.Load() != 1 {
		t.Errorf("%v, %d done; want that it was refused", err, done.Load())
	}
	if err := shared.Do(t.Context(), 3); err != nil {
		t.Error(err)
	}
}

func TestTogetherPanic(t *testing.T) {
	t.Parallel()
	shared := NewTogether(TogetherBounds{}, func(_ context.Context, members []int) error {
		if slices.Contains(members, 7) {
			panic("seven")
		}
		return nil
	})
	for i, err := range doAll(shared, upTo(10)) {
		if (err != nil) != (i == 7) || err != nil && !strings.Contains(err.Error(), "seven") {
			t.Errorf("%d: %v", i, err)
		}
	}
}
