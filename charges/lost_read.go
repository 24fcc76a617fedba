package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LostPayment is a payment at Stripe that names a key for which there is no charge here.
type LostPayment struct {
	Payment string    `json:"payment_intent"`
	Key     uuid.UUID `json:"idempotency_key"`
	ReadAt  time.Time `json:"read_at"` // when it was seen at Stripe; its state may be any, also one in which no money has moved
}

// Payments of the time before and after the lost one have their charges.
const lostPaymentsSQL = `
SELECT payment, key, max(begun_at)
  FROM (SELECT p.payment, p.key, r.begun_at
          FROM restoration x
          JOIN reading r ON r.complete AND r.begun_at >= x.detected_at AND r.from_at < x.detected_at AND r.to_at > x.lost_from
          JOIN reading_payment p ON p.reading_id = r.id) AS found
 WHERE NOT EXISTS (SELECT FROM charge c WHERE c.idempotency_key = found.key)
 GROUP BY payment, key
 ORDER BY payment
 LIMIT $1`

// LostPayments returns, as far as it was read, what was paid for in the time that a restored database has forgotten, and nobody has come back for yet. Another
// deployment's payments at the same Stripe account are among them.
func (s *Service) LostPayments(ctx context.Context, limit int) ([]LostPayment, error) {
	rows, err := s.reads.Query(ctx, lostPaymentsSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("list lost payments: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LostPayment])
	if err != nil {
		return nil, fmt.Errorf("list lost payments: %w", err)
	}
	return lost, nil
}
