package charges

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// The walk follows the ids, which are in the order of their time, so that a batch costs the same however many attempts there are and however many
// of the old ones stay. With OFFSET 0 each of its charges is asked about by itself: PostgreSQL takes a batch for one charge, for which it would read all
// payments that are followed. What was sent is judged by the database's own clock.
const removeAttemptsSQL = `
WITH old AS MATERIALIZED (
    SELECT id, charge_id FROM attempt WHERE id > $1 AND id < $2 ORDER BY id LIMIT $4
), done AS MATERIALIZED (
    SELECT c.id
      FROM charge c
     WHERE c.id = ANY (ARRAY(SELECT charge_id FROM old))
       AND c.status IN ('succeeded', 'failed', 'canceled') AND c.payment_intent IS NOT NULL
       AND c.updated_at < clock_timestamp() - $3::interval
       AND NOT EXISTS (SELECT FROM attempt a WHERE a.charge_id = c.id
                          AND (a.sent_at >= clock_timestamp() - $3::interval OR a.outcome IS NULL OR a.outcome IN ('unknown', 'stored_failure')))
       AND NOT EXISTS (SELECT FROM payment p WHERE p.charge_id = c.id AND p.followed OFFSET 0)
       AND NOT EXISTS (SELECT FROM receipt r WHERE r.charge_id = c.id AND r.status IN ('pending', 'sending', 'unknown') OFFSET 0)
       AND NOT EXISTS (SELECT FROM refund_reading w WHERE w.charge_id = c.id OFFSET 0)
), looks AS (
    DELETE FROM look WHERE charge_id = ANY (ARRAY(SELECT id FROM done))
), gone AS (
    DELETE FROM attempt WHERE charge_id = ANY (ARRAY(SELECT id FROM done)) RETURNING id
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old), coalesce((SELECT id FROM old ORDER BY id DESC LIMIT 1), $1)`

// RemoveAttempts removes the attempts of charges that have been final for longer than age, and the looks for them, a batch to a transaction, until it
// has come to the last that is as old as that or ctx's time is over. That is no error where it has come anywhere: the next call in this process goes
// on there, and after the last at the beginning. It returns how many attempts it removed. The charges stay, with their keys, events and payments.
//
// That a charge may not be sent is read off its attempts ([Allow]), and no attempt is what allows to send. So it removes only those of charges which
// say the same themselves: one that has its payment is never sent again, whatever its attempts say and wherever its status goes from there, and it
// never loses its payment. A charge that ended without one keeps its attempts for good; they are few. So does one about which
// something is still open: an attempt whose outcome is in doubt, a payment that may still change, a receipt that was not sent for sure, refunds
// that are to be read.
//
// What is lost is what only attempts tell, which is the account and mode in which the charge was sent. News of a payment that is on record are taken
// whatever account and mode they name, and refunds and disputes that have to be read are read at the worker's own account: those of a connected
// one are not found there. A second payment for such a charge raises no duplicate_payment and asks for no person: news of it wait as
// no_attempt and are then ignored, or are ignored at once as another_account where they name one.
func (s *Service) RemoveAttempts(ctx context.Context, age time.Duration) (removed int64, err error) {
	after, before := s.removal.begin(), firstID(time.Now().Add(-age))
	for came := false; ; came = true {
		var gone, seen int64
		began := time.Now()
		err := outbox.InTx(ctx, s.pool, "attempt.remove", func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, removeAttemptsSQL, after, before, age, removeBatch).Scan(&gone, &seen, &after)
		})
		switch {
		case err != nil && came && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return removed, nil
		case err != nil:
			return removed, fmt.Errorf("remove attempts: %w", err)
		}
		removed += gone
		if seen < removeBatch {
			s.removal.reached(uuid.Nil)
			return removed, nil
		}
		s.removal.reached(after)
		switch err := rest(ctx, time.Since(began)); {
		case errors.Is(err, context.DeadlineExceeded):
			return removed, nil
		case err != nil:
			return removed, err
		}
	}
}

// removal is how far this process has come with removing attempts.
type removal struct {
	mu    sync.Mutex
	after uuid.UUID // zero: the next one begins at the beginning
}

// begin returns where to begin. If that gets nowhere the next one begins at the beginning.
func (r *removal) begin() (after uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after, r.after = r.after, uuid.Nil
	return after
}

func (r *removal) reached(after uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = after
}

// rest leaves the database to others for as long as a batch took.
func rest(ctx context.Context, took time.Duration) error {
	select {
	case <-time.After(took):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
