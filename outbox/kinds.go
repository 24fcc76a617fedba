package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// known are all jobs of this release.
var known = []river.JobArgs{SendCharge{}, FollowPayment{}, ReadRefunds{}, SendReceipt{}, ExpireKeys{}, Sweep{}, ApplyEvents{}, RemoveEvents{}, RemoveAttempts{},
	ClearBacklog{}, ProbeProviders{}, ReadLost{}}

// The kinds are found one after the other in River's index on them, however many jobs there are of each.
const unknownKinds = `
WITH RECURSIVE kinds AS (
    (SELECT kind FROM river_job ORDER BY kind LIMIT 1)
     UNION ALL
    SELECT (SELECT j.kind FROM river_job j WHERE j.kind > k.kind ORDER BY j.kind LIMIT 1) FROM kinds k WHERE k.kind IS NOT NULL
)
SELECT k.kind, live.n
  FROM kinds k
 CROSS JOIN LATERAL (
       SELECT count(*) AS n FROM river_job j
        WHERE j.kind = k.kind AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')) live
 WHERE k.kind <> ALL ($1) AND live.n > 0
 ORDER BY k.kind
 LIMIT 20`

// UnknownKinds counts the live jobs of each kind that this release does not know, for at most twenty kinds. A newer release has written them, whose
// workers will run them, or an older one, and nobody will. Nothing is lost by that: what they are about gets jobs that this release knows.
func (o *Outbox) UnknownKinds(ctx context.Context) (map[string]int64, error) {
	kinds := make([]string, len(known))
	for i, args := range known {
		kinds[i] = args.Kind()
	}
	rows, err := NewReads(o.pool).Query(ctx, unknownKinds, kinds)
	if err != nil {
		return nil, fmt.Errorf("count jobs of unknown kinds: %w", err)
	}
	counts := map[string]int64{}
	var kind string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &n}, func() error {
		counts[kind] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs of unknown kinds: %w", err)
	}
	return counts, nil
}
