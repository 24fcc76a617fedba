package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// EventFilter narrows a list of providers' events. Empty members match all.
type EventFilter struct {
	Provider Provider
	Status   EventStatus
	Since    time.Time // received at or after it
	Limit    int       // at least 1
}

// ProviderEvents returns what providers have told, newest first and without its raw bytes, and whether there is more.
func (s *Service) ProviderEvents(ctx context.Context, f EventFilter) (list []ProviderEvent, more bool, err error) {
	rows, err := s.reads.Query(ctx, selectEventLine+`, ''::bytea FROM webhook_event
 WHERE ($1 = '' OR provider = $1) AND ($2 = '' OR status = $2) AND ($3::timestamptz IS NULL OR received_at >= $3)
 ORDER BY id DESC LIMIT $4`, f.Provider, f.Status, orNull(f.Since), f.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list webhook events: %w", err)
	}
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ProviderEvent, error) { return scanEvent(row) })
	if err != nil {
		return nil, false, fmt.Errorf("list webhook events: %w", err)
	}
	if len(list) > f.Limit {
		return list[:f.Limit], true, nil
	}
	return list, false, nil
}

// ProviderEvent returns one event. An unknown id is [ErrNotFound].
func (s *Service) ProviderEvent(ctx context.Context, id int64) (ProviderEvent, error) {
	e, err := scanEvent(s.reads.QueryRow(ctx, selectEvent+` WHERE id = $1`, id))
	if err != nil {
		return e, fmt.Errorf("find webhook event %d: %w", id, err)
	}
	return e, nil
}

// RetryEvents makes events wait again and be due at once, and returns how many of the ids there are. To apply an event a
// second time does no harm: what it says is merged with what is known.
func (s *Service) RetryEvents(ctx context.Context, ids []int64) (found int64, err error) {
	err = outbox.InTx(ctx, s.pool, "webhook.retry", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
UPDATE webhook_event
   SET status = 'pending', tries = 0, due_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE id = ANY ($1)`, ids)
		found = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("retry webhook events: %w", err)
	}
	return found, nil
}

// EventBacklog counts the events that wait, and says how long ago the oldest of them was received. Those that are about nothing that is
// here make no age: on an account that has other business as well, there are always some.
func (s *Service) EventBacklog(ctx context.Context) (waiting int64, oldest time.Duration, err error) {
	err = s.reads.QueryRow(ctx, `
SELECT count(*), coalesce(clock_timestamp() - min(received_at) FILTER (WHERE coalesce(note, '') <> 'unmatched'), '0')
  FROM webhook_event WHERE status = 'pending'`).Scan(&waiting, &oldest)
	if err != nil {
		return 0, 0, fmt.Errorf("count waiting webhook events: %w", err)
	}
	return waiting, oldest, nil
}
