package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Sweep gives a live job to everything unfinished that wants one and has none: a job that River discarded, that
// somebody deleted, or whose kind an older release did not know. Rows that others hold are being worked on and are left
// out. It is the reason why nothing that was accepted can be forgotten by the queue.
func (o *Outbox) Sweep(ctx context.Context, src Source) (Report, error) {
	return o.walk(ctx, src, Filter{Wanting: true}, steps{name: "outbox.sweep", lock: LockSkip, write: func(tx pgx.Tx, wanted []Entry, _ Report) error {
		return o.enqueue(ctx, tx, wanted, true)
	}})
}
