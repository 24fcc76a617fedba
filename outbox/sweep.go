package outbox

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sweeping is how far this process's sweeps have come.
type sweeping struct {
	mu sync.Mutex
	at uuid.UUID // where the next one begins; zero: at the beginning
}

func (s *sweeping) from() uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *sweeping) reached(at uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = at
}

// Sweep gives a live job to everything unfinished that wants one and has none: a job that River discarded, that
// somebody deleted, or whose kind an older release did not know. Rows that others hold are being worked on and are left
// out. It is the reason why nothing that was accepted can be forgotten by the queue.
//
// A sweep goes round once. The next one of this Outbox goes on where one was cut short, so that there is no end to what its bound lets it
// reach; but if that one gets nowhere the next begins at the beginning, so that one page that cannot be read does not keep it from all others.
func (o *Outbox) Sweep(ctx context.Context, src Source) (Report, error) {
	from := o.sweep.from()
	o.sweep.reached(uuid.UUID{})
	write := func(tx pgx.Tx, wanted []Entry, _ Report) error { return o.enqueue(ctx, tx, wanted, true) }
	report, err := o.walk(ctx, src, Filter{Wanting: true},
		steps{name: "outbox.sweep", lock: LockSkip, write: write, from: from, reached: o.sweep.reached})
	if err == nil {
		o.sweep.reached(uuid.UUID{})
	}
	return report, err
}
