package workers

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// A worker whose connections are all at work is ready: what tells so has one of its own.
func TestReadyWhileBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	config := r.pool.Config()
	config.MaxConns = 1
	own, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	if r.ready, err = outbox.New(own); err != nil {
		t.Fatal(err)
	}
	r.start()
	for range r.pool.Config().MaxConns {
		conn, err := r.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if notes, err := r.workers.Status(ctx); err != nil || len(notes) != 0 {
		t.Errorf("%v, %v", notes, err)
	}
}
