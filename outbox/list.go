package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Line is one piece of unfinished work and the job that will do it.
type Line struct {
	Item
	JobState string    // River's state of its live job; empty: there is none
	NextRun  time.Time // when that job may run
	Attempt  int       // how often River has run it
}

// List returns at most limit pieces of unfinished work on charges with an id greater than after, oldest first, and the
// id to go on from; the zero id says that there is no more.
func (o *Outbox) List(ctx context.Context, src Source, f Filter, after uuid.UUID, limit int) (lines []Line, last uuid.UUID, err error) {
	err = InTx(ctx, o.pool, "outbox.list", func(tx pgx.Tx) error {
		items, end, err := src.Unfinished(ctx, tx, f, after, limit, NoLock)
		if err != nil {
			return err
		}
		live, err := findLive(ctx, tx, items)
		if err != nil {
			return err
		}
		lines, last = make([]Line, len(items)), end
		for i, it := range items {
			j := live[it.Entry]
			lines[i] = Line{Item: it, JobState: j.State, NextRun: j.ScheduledAt, Attempt: j.Attempt}
		}
		return nil
	})
	return lines, last, err
}
