package outbox

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Members that wait for what others hold, more of them than may wait at once, hold up nobody: not while they are alone, not in a batch, and
// not those that a batch is taken apart into.
func TestTogetherHeld(t *testing.T) {
	t.Parallel()
	stuck, begun, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var waiting atomic.Int32
	shared := NewTogether(TogetherBounds{}, func(ctx context.Context, members []int) error {
		if slices.Contains(members, -1) {
			close(begun)
			<-release
		}
		if !slices.ContainsFunc(members, func(m int) bool { return m < 10 && m >= 0 }) {
			return nil
		}
		if ctx.Value(hurry{}) != nil {
			return &pgconn.PgError{Code: "55P03"}
		}
		if len(members) > 1 {
			t.Errorf("%d wait with patience together", len(members))
		}
		waiting.Add(1)
		<-stuck
		return nil
	})
	held := make(chan error, 10)
	for i := range 2 { // each alone
		go func() { held <- shared.Do(context.Background(), i) }()
		await(t, "it waits apart", func() bool { return waiting.Load() == int32(i+1) })
	}
	go shared.Do(context.Background(), -1)
	<-begun
	all := make(chan error, 100)
	for i := range 98 {
		go func() {
			if i += 2; i < 10 {
				held <- shared.Do(context.Background(), i)
			} else {
				all <- shared.Do(context.Background(), i)
			}
		}()
	}
	await(t, "98 wait", func() bool { return shared.waits(98) })
	close(release)
	for range 90 {
		if err := <-all; err != nil {
			t.Error(err)
		}
	}
	await(t, "as many wait apart as may", func() bool { return waiting.Load() == patientMost })
	close(stuck)
	for range 10 {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
}
