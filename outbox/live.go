package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// job is what River knows about a live job of ours.
type job struct {
	State       string
	ScheduledAt time.Time
	Attempt     int
}

// A job is live while River will still run it. One that was discarded or cancelled, or whose row is gone, is not.
const liveJobs = `
SELECT w.kind, w.charge_id, j.state::text, j.scheduled_at, j.attempt
  FROM unnest($1::text[], $2::uuid[]) AS w (kind, charge_id)
 CROSS JOIN LATERAL (
       SELECT state, scheduled_at, attempt
         FROM river_job
        WHERE args ->> 'charge_id' = w.charge_id::text
          AND kind = w.kind
          AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
         LIMIT 1) j`

// findLive returns the live job of each entry that has one.
func findLive(ctx context.Context, tx pgx.Tx, items []Item) (map[Entry]job, error) {
	kinds := make([]string, len(items))
	ids := make([]uuid.UUID, len(items))
	for i, it := range items {
		kinds[i], ids[i] = string(it.Kind), it.ChargeID
	}
	rows, err := tx.Query(ctx, liveJobs, kinds, ids)
	if err != nil {
		return nil, fmt.Errorf("find live jobs: %w", err)
	}
	live := make(map[Entry]job, len(items))
	var e Entry
	var j job
	_, err = pgx.ForEachRow(rows, []any{&e.Kind, &e.ChargeID, &j.State, &j.ScheduledAt, &j.Attempt}, func() error {
		live[e] = j
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find live jobs: %w", err)
	}
	return live, nil
}
