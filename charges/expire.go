package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// expireBatch keeps each transaction short, so that the removal of a day's answers is never in a request's way.
const expireBatch = 500

// A batch goes on where the one before it ended: what that has removed stays in the index until it is vacuumed, and is not read again and again.
// Rows that somebody holds are left to the next run.
const expireKeysSQL = `
WITH gone AS (
    DELETE FROM idempotency_key
     WHERE key = ANY (ARRAY(
           SELECT key FROM idempotency_key WHERE expires_at >= $1 AND expires_at <= now() ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING expires_at
)
SELECT count(*), coalesce(max(expires_at), now()) FROM gone`

// ExpireKeys removes stored answers whose time is over, a batch to a transaction, until there are none or ctx ends, and
// returns how many it removed. The charges keep their keys: a key makes one charge, at any age. A request with a key whose answer is being removed
// does not wait for that.
func (s *Service) ExpireKeys(ctx context.Context) (removed int64, err error) {
	return inBatches(ctx, expireBatch, func(from time.Time) (n int64, to time.Time, err error) {
		err = outbox.InTx(ctx, s.pool, "keys.expire", func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, expireKeysSQL, from, expireBatch).Scan(&n, &to)
		})
		if err != nil {
			return 0, to, fmt.Errorf("expire idempotency keys: %w", err)
		}
		return n, to, nil
	})
}

// inBatches calls remove, which removes at most size rows that are of a time or younger and says of what time the last of them was, until it finds
// fewer, and rests between two batches for as long as one takes. It returns how many were removed.
func inBatches(ctx context.Context, size int64, remove func(from time.Time) (n int64, to time.Time, err error)) (removed int64, err error) {
	from := time.Unix(0, 0)
	for {
		began := time.Now()
		n, to, err := remove(from)
		if err != nil {
			return removed, err
		}
		removed, from = removed+n, to
		if n < size {
			return removed, nil
		}
		if err := rest(ctx, time.Since(began)); err != nil {
			return removed, err
		}
	}
}
