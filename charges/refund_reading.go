package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

func wantReading(ctx context.Context, tx pgx.Tx, charge uuid.UUID) error {
	_, err := tx.Exec(ctx, `
INSERT INTO refund_reading (charge_id) VALUES ($1)
    ON CONFLICT (charge_id) DO UPDATE SET wanted_at = clock_timestamp()`, charge)
	if err != nil {
		return fmt.Errorf("want the refunds of charge %s read: %w", charge, err)
	}
	return nil
}

// RefundsRead writes down that all refunds and disputes of a charge were listed and taken, by a reading that began at since by PostgreSQL's clock
// ([Following.Now]). What an event has said since then wants another.
func (s *Service) RefundsRead(ctx context.Context, charge uuid.UUID, since time.Time) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "refund.read", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM refund_reading WHERE charge_id = $1 AND wanted_at <= $2`, charge, since); err != nil {
			return fmt.Errorf("settle the reading of refunds of charge %s: %w", charge, err)
		}
		return nil
	})
}
