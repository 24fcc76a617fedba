package charges

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// expireBatch keeps each transaction short, so that the removal of a day's answers is never in a request's way.
const expireBatch = 500

const expireKeysSQL = `
DELETE FROM idempotency_key
 WHERE key IN (SELECT key FROM idempotency_key WHERE expires_at <= now()
                ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`

// ExpireKeys removes stored answers whose time is over, a batch to a transaction, until there are none or ctx ends, and
// returns how many it removed. The charges keep their keys: a key makes one charge, at any age.
func (s *Service) ExpireKeys(ctx context.Context) (removed int64, err error) {
	for {
		var n int64
		err := outbox.InTx(ctx, s.pool, "keys.expire", func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, expireKeysSQL, expireBatch)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("expire idempotency keys: %w", err)
		}
		removed += n
		if n < expireBatch {
			return removed, nil
		}
	}
}
