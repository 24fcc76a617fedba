package charges

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// OtherCharge is a charge of the same caller under the same reference: the same order, as far as the caller tells.
type OtherCharge struct {
	ID     uuid.UUID `json:"id"`
	Status Status    `json:"status"`
}

// GoesOn tells whether its buyer has paid, or still can: whatever it is for is sold, or will be.
func (o OtherCharge) GoesOn() bool { return o.Status != Failed && o.Status != Canceled }

// mostOthers bounds the others that are named of an order that was tried again and again.
const mostOthers = 100

// A caller's reference is on one charge that holds it and on those that have freed it, each kind in an index of its own. What goes on comes first.
const listOthersSQL = `
SELECT id, status
  FROM (SELECT id, status FROM charge WHERE caller = $1 AND reference = $2 AND NOT reference_freed
         UNION ALL
        SELECT id, status FROM charge WHERE caller = $1 AND reference = $2 AND reference_freed) o
 WHERE id <> $3
 ORDER BY status IN ('failed', 'canceled'), id DESC
 LIMIT $4`

// othersOf lists the other charges of a charge's order, those that go on first; none where it has no reference.
func (s *Service) othersOf(ctx context.Context, c Charge) ([]OtherCharge, error) {
	if c.Reference == "" {
		return []OtherCharge{}, nil
	}
	rows, err := s.reads.Query(ctx, listOthersSQL, c.Caller, c.Reference, c.ID, mostOthers)
	if err != nil {
		return nil, fmt.Errorf("list other charges of the order of %s: %w", c.ID, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[OtherCharge])
	if err != nil {
		return nil, fmt.Errorf("list other charges of the order of %s: %w", c.ID, err)
	}
	return list, nil
}
