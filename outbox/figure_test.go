package outbox_test

import (
	"errors"
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
		if got, gotErr := f.Of(count(takes, err)); got != figure || !errors.Is(gotErr, err) {
			t.Errorf("%s: %d, %v, want %d", what, got, gotErr, figure)
		}
	}
	failed := errors.New("away")
	want("what is quickly counted", 0, nil, 1)
	want("is counted each time", 0, nil, 2)
	want("an error, however slow", 60*time.Millisecond, failed, 3)
	want("is not kept", 60*time.Millisecond, nil, 4)
	before := n
	want("what took long is kept", 0, nil, 4) // for more than a second
	if n != before {
		t.Error("it was counted all the same")
	}
}
