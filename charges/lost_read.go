package charges

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// What a restored database has lost is read at Stripe without being asked for, twice for each restoration: at once, so that what can be known is, and
// again when nothing of that time can linger at Stripe any more, which is good for ever. Charges that ask meanwhile share these readings. From then
// on a key that is unknown here is known to be a new one, or to have been paid for.

// BeginLost says what a worker has to read at Stripe of what restorations may have lost, as [Service.Begin] does for a charge: [LookFirst], or
// [Nothing] as long as there is nothing to read. here must be fresh. Which readings tell of a restoration is written down with it.
func (s *Service) BeginLost(ctx context.Context, here Here) (Begun, error) {
	unread, now, err := s.Unread(ctx)
	if err != nil {
		return Begun{}, err
	}
	clocks := Clocks{Database: now, Stripe: here.Clock, Fresh: here.Fresh}
	for _, r := range unread {
		if now.Before(r.DetectedAt) {
			continue // somebody has just found out, and a reading must begin after that
		}
		policy, late := s.policy, !now.Before(r.DetectedAt.Add(inDoubt))
		policy.Window = 2 * restoredFor // any reading since will do, and
		if late {
			policy.Window = inDoubt // none that began too early
		}
		permit := Permit{Action: LookFirst, Restored: []Restoration{r}, Final: true}
		begun := Begun{Permit: permit, Here: here.Account, Clocks: clocks, lookup: lookup{permit: permit, now: clocks, here: here.Account, policy: policy}}
		served, err := servedFor(ctx, s.reads, begun.lookup)
		switch {
		case err != nil:
			return Begun{}, err
		case !complete(served):
			return begun, nil
		}
		if err := s.lostRead(ctx, r, here.Account, served, late); err != nil {
			return Begun{}, err
		}
	}
	return Begun{Permit: Permit{Action: Nothing}}, nil
}

// Unread returns the restorations of whose lost time not everything was read yet, and the time by PostgreSQL's clock.
func (s *Service) Unread(ctx context.Context) (unread []Restoration, now time.Time, err error) {
	all, err := listRestorations(ctx, s.reads)
	if err != nil || len(all) == 0 {
		return nil, now, err
	}
	if err := s.reads.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, now, fmt.Errorf("read the clock: %w", err)
	}
	return slices.DeleteFunc(all, func(r Restoration) bool { return !r.ReadAt.IsZero() || !r.matters(now) }), now, nil
}

// A reading that was made for something else is kept for as long as one for the restoration.
const keepReadingsSQL = `
UPDATE reading SET keep_until = greatest(keep_until, clock_timestamp() + $2::interval) WHERE id = ANY ($1) AND complete`

const lostReadSQL = `
UPDATE restoration
   SET readings = (SELECT array_agg(DISTINCT id ORDER BY id) FROM unnest(coalesce(readings, '{}') || $2::bigint[]) AS all_of (id)),
       read_at = CASE WHEN $3 THEN clock_timestamp() END
 WHERE id = $1 AND read_at IS NULL AND (NOT coalesce(readings, '{}') @> $2::bigint[] OR $3)`

// lostRead writes down which complete readings tell what a restoration has lost; for good, if they began late enough.
func (s *Service) lostRead(ctx context.Context, r Restoration, at Account, served []Reading, late bool) error {
	ids := make([]int64, len(served))
	for i, reading := range served {
		ids[i] = reading.ID
	}
	if !late && !slices.ContainsFunc(ids, func(id int64) bool { return !slices.Contains(r.Readings, id) }) {
		return nil
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "restoration.read", func(tx pgx.Tx) error {
		other, err := chargedElsewhere(ctx, tx, r, at) // then this account's list is not the last word
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, keepReadingsSQL, ids, restoredFor+keepReading)
		if err == nil && tag.RowsAffected() == int64(len(ids)) { // else one was just removed, and another is begun
			_, err = tx.Exec(ctx, lostReadSQL, r.ID, ids, late && !other)
		}
		if err != nil {
			return fmt.Errorf("note that what restoration %d has lost was read: %w", r.ID, err)
		}
		return nil
	})
}

// GiveUpLost says that what was not read of what restorations have lost never will be, as where nobody has the key of an account any more: from then on nothing
// is held back for it, and no refusal raises a doubt. It returns how many restorations that was about. who and because are for the record.
func (s *Service) GiveUpLost(ctx context.Context, who, because string) (n int64, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "restoration.give_up", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE restoration SET read_at = clock_timestamp(), reason = reason || $1 WHERE read_at IS NULL`,
			fmt.Sprintf("; what it has lost was given up by %s: %s", who, cleanText(because)))
		if err != nil {
			return fmt.Errorf("give up what was lost: %w", err)
		}
		n = tag.RowsAffected()
		return nil
	})
	return n, err
}

// LostPayment is a payment at Stripe that names a key for which there is no charge here.
type LostPayment struct {
	Payment  string    `json:"payment_intent"`
	Key      uuid.UUID `json:"idempotency_key"`
	Status   string    `json:"status"` // when it was read; empty: unknown
	Amount   int64     `json:"amount"` // in the currency's minor unit; 0: unknown
	Currency string    `json:"currency"`
	ReadAt   time.Time `json:"read_at"`
}

// What nobody can pay for any more is no loss.
const lostPayments = `
  FROM (SELECT DISTINCT ON (p.payment) p.payment, p.key, coalesce(p.status, '') AS status, coalesce(p.amount, 0) AS amount, coalesce(p.currency, '') AS currency, r.begun_at
          FROM restoration x CROSS JOIN LATERAL unnest(x.readings) AS told (id)
          JOIN reading r ON r.id = told.id
          JOIN reading_payment p ON p.reading_id = r.id
         ORDER BY p.payment, r.begun_at DESC) AS found
 WHERE status <> 'canceled' AND NOT EXISTS (SELECT FROM charge c WHERE c.idempotency_key = found.key)`

// LostPayments returns, as far as it was read, what was made in the time that a restored database has forgotten, and nobody has come back for yet. Another
// deployment's payments at the same Stripe account are among them.
func (s *Service) LostPayments(ctx context.Context, limit int) ([]LostPayment, error) {
	rows, err := s.reads.Query(ctx, `SELECT payment, key, status, amount, currency, begun_at`+lostPayments+` ORDER BY payment LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list lost payments: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LostPayment])
	if err != nil {
		return nil, fmt.Errorf("list lost payments: %w", err)
	}
	return lost, nil
}

// CountLost counts those of [Service.LostPayments] that have taken a buyer's money, or may have. What takes long to count is an [outbox.Figure].
func (s *Service) CountLost(ctx context.Context) (int64, error) {
	return s.lost.Of(ctx, func() (n int64, err error) {
		err = s.reads.QueryRow(ctx, `SELECT count(*)`+lostPayments+` AND status IN ('succeeded', 'processing', 'requires_capture', '')`).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("count lost payments: %w", err)
		}
		return n, nil
	})
}
