package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backlog is how much waits in one status.
type Backlog struct {
	Status Status
	Count  int64
	Oldest time.Duration // age of the oldest
}

// Backlog counts what is not final, by status. It reads only what is unfinished, and what takes long to count is an [outbox.Figure].
func (s *Service) Backlog(ctx context.Context) ([]Backlog, error) {
	return s.backlog.Of(ctx, func() ([]Backlog, error) { return s.countBacklog(ctx) })
}

func (s *Service) countBacklog(ctx context.Context) ([]Backlog, error) {
	rows, err := s.reads.Query(ctx, `
SELECT status, count(*), clock_timestamp() - min(created_at)
  FROM charge
 WHERE status NOT IN ('succeeded', 'failed', 'canceled')
 GROUP BY status`)
	if err != nil {
		return nil, fmt.Errorf("count backlog: %w", err)
	}
	backlog, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Backlog])
	if err != nil {
		return nil, fmt.Errorf("count backlog: %w", err)
	}
	return backlog, nil
}

// ReceiptBacklog counts receipts that are due, in hand or in doubt, by status, as [Service.Backlog] does.
func (s *Service) ReceiptBacklog(ctx context.Context) (map[ReceiptStatus]int64, error) {
	return s.receiptBacklog.Of(ctx, func() (map[ReceiptStatus]int64, error) { return s.countReceipts(ctx) })
}

func (s *Service) countReceipts(ctx context.Context) (map[ReceiptStatus]int64, error) {
	rows, err := s.reads.Query(ctx, `
SELECT status, count(*) FROM receipt WHERE status IN ('pending', 'sending', 'unknown') GROUP BY status`)
	if err != nil {
		return nil, fmt.Errorf("count receipts: %w", err)
	}
	counts := map[ReceiptStatus]int64{}
	var status ReceiptStatus
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		counts[status] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count receipts: %w", err)
	}
	return counts, nil
}
