package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Bounds of one transaction, and of one look at what is due.
const (
	dueBatch    = 100
	removeBatch = 500
)

// ApplyPending applies the events that wait and are due, each in a transaction of its own, until there are none or ctx
// ends, and returns what became of them. Events that others are applying are left out, and one that fails is put off,
// so that it keeps no other from its turn. What has not been matched after three days is ignored.
func (s *Service) ApplyPending(ctx context.Context) (taken []ProviderEvent, err error) {
	for {
		due, listErr := dueEvents(ctx, s.reads, dueBatch)
		if listErr != nil {
			return taken, errors.Join(err, listErr)
		}
		before := len(taken)
		for _, id := range due {
			e, applyErr := s.applyDue(ctx, id)
			switch {
			case errors.Is(applyErr, ErrNotFound):
				continue
			case outbox.Unavailable(applyErr):
				return taken, errors.Join(err, applyErr)
			case errors.Is(applyErr, ErrBusy):
				err = errors.Join(err, s.putOff(ctx, id, e.Note))
			case applyErr != nil:
				e.Note = EventError
				err = errors.Join(err, applyErr, s.putOff(ctx, id, e.Note))
			}
			taken = append(taken, e)
			if ctx.Err() != nil {
				return taken, err
			}
		}
		if len(due) < dueBatch || len(taken) == before {
			return taken, err
		}
	}
}

func (s *Service) applyDue(ctx context.Context, id int64) (e ProviderEvent, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "webhook.pending", func(tx pgx.Tx) error {
		e, err = lockDue(ctx, tx, id)
		if err != nil {
			return err
		}
		v, err := s.applyEvent(ctx, tx, e)
		if err != nil {
			return fmt.Errorf("apply event %s of %s: %w", e.EventID, e.Provider, err)
		}
		e.Status, e.Note, e.ChargeID = v.status, v.note, v.charge
		return nil
	})
	return e, busy(err)
}

// putOff leaves an event waiting that could not be applied this time.
func (s *Service) putOff(ctx context.Context, id int64, note EventNote) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "webhook.put_off", func(tx pgx.Tx) error {
		return settleEvent(ctx, tx, id, verdict{EventPending, note, uuid.Nil})
	})
}

// As with expireKeysSQL, a batch goes on where the one before it ended. now() ends the reading of the index where clock_timestamp(), which may change
// from row to row, would not.
const removeEventsSQL = `
WITH gone AS (
    DELETE FROM webhook_event
     WHERE id = ANY (ARRAY(
           SELECT id FROM webhook_event
            WHERE status <> 'pending' AND received_at >= $1 AND received_at < now() - $2::interval
            ORDER BY received_at LIMIT $3 FOR UPDATE SKIP LOCKED))
    RETURNING received_at
)
SELECT count(*), coalesce(max(received_at), now()) FROM gone`

// RemoveEvents removes events that were received longer ago than age and do not wait, a batch to a transaction, until there
// are none or ctx ends, and returns how many it removed. One that is sent again after that has no second effect either:
// what it says is already known.
func (s *Service) RemoveEvents(ctx context.Context, age time.Duration) (removed int64, err error) {
	return inBatches(ctx, removeBatch, func(from time.Time) (n int64, to time.Time, err error) {
		err = outbox.InTx(ctx, s.pool, "webhook.remove", func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, removeEventsSQL, from, age, removeBatch).Scan(&n, &to)
		})
		if err != nil {
			return 0, to, fmt.Errorf("remove webhook events: %w", err)
		}
		return n, to, nil
	})
}
