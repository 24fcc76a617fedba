package outbox_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncepay/oncepay/outbox"
)

func TestFigure(t *testing.T) {
	t.Parallel()
	var f outbox.Figure[int]
	n := 0
	count := func(takes time.Duration, err error) func() (int, error) {
		return func() (int, error) {
			time.Sleep(takes)
			n++
			return n, err
		}
	}
	want := func(what string, takes time.Duration, err error, figure int) {
		t.Helper()
		if got, gotErr := f.Of(t.Context(), count(takes, err)); got != figure || !errors.Is(gotErr, err) {
			t.Errorf("%s: %d, %v, want %d", what, got, gotErr, figure)
		}
	}
	want("what is quickly counted", 0, nil, 1)
	want("is counted each time", 0, nil, 2)
	want("what took long", 60*time.Millisecond, nil, 3)
	want("is kept", 0, nil, 3) // for more than a second
	if n != 3 {
		t.Error("it was counted all the same")
	}
}

// While the database is away one asks, whoever waits for it waits no longer than it wants, and all are told what came of it.
func TestFigureThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	var f outbox.Figure[int]
	away := errors.New("away")
	asks, fails := make(chan struct{}), make(chan struct{})
	var asked atomic.Int64
	count := func() (int, error) {
		if asked.Add(1) == 1 {
			close(asks)
		}
		<-fails
		return 0, away
	}
	var all sync.WaitGroup
	ask := func() {
		if _, err := f.Of(t.Context(), count); !errors.Is(err, away) {
			t.Errorf("told %v", err)
		}
	}
	all.Go(ask)
	<-asks
	for range 8 {
		all.Go(ask)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Of(impatient, count); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who did not wait is told %v", err)
	}
	close(fails)
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d asked", n)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		n, err := f.Of(t.Context(), func() (int, error) { return 7, nil })
		if n == 7 && err == nil {
			break
		}
		if time.Since(began) > 3*time.Second {
			t.Fatalf("it is not asked again: %d, %v", n, err)
		}
	}
}

// Who gives up does not speak for others.
func TestFigureThatSomebodyGaveUp(t *testing.T) {
	t.Parallel()
	var f outbox.Figure[int]
	gone, leave := context.WithCancel(t.Context())
	if _, err := f.Of(gone, func() (int, error) { leave(); return 0, gone.Err() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n, err := f.Of(t.Context(), func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
