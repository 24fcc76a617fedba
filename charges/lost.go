package charges

import (
	"context"
	"errors"
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
// [Nothing] as long as there is nothing to read. here must be fresh. What was read late enough is written down with the restoration.
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
		if late {
			policy.Window = inDoubt // so that no earlier reading will do
		}
		permit := Permit{Action: LookFirst, Restored: []Restoration{r}, Final: true}
		begun := Begun{Permit: permit, Here: here.Account, Clocks: clocks, lookup: lookup{permit: permit, now: clocks, here: here.Account, policy: policy}}
		served, err := servedFor(ctx, s.reads, begun.lookup)
		switch {
		case err != nil:
			return Begun{}, err
		case !complete(served):
			return begun, nil
		case late:
			if err := s.lostRead(ctx, r); err != nil {
				return Begun{}, err
			}
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

func (s *Service) lostRead(ctx context.Context, r Restoration) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "restoration.read", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE restoration SET read_at = clock_timestamp() WHERE id = $1 AND read_at IS NULL`, r.ID); err != nil {
			return fmt.Errorf("note that what restoration %d has lost was read: %w", r.ID, err)
		}
		return nil
	})
}

// markLost finds out of the claims that are to be refused, and whose keys are unknown here, whether that is because a restored database has forgotten
// them: a payment under the key was found at Stripe, or what was lost is not known yet.
func (s *Service) markLost(ctx context.Context, claims []*claim) error {
	refused := slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return c.used || len(c.short) == 0 && !c.late })
	if len(refused) == 0 {
		return nil
	}
	if err := s.noticeRestored(ctx); err != nil {
		return err
	}
	all, err := listRestorations(ctx, s.reads)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r Restoration) bool { return !r.matters(time.Now()) })
	if len(all) == 0 {
		return nil
	}
	keys := make([]uuid.UUID, len(refused))
	for i, c := range refused {
		keys[i] = c.Key
	}
	found, err := findLost(ctx, s.reads, keys)
	if err != nil {
		return err
	}
	for _, c := range refused {
		c.lost, c.restored = found[c.Key], time.Time{}
		for _, r := range all {
			if r.ReadAt.IsZero() && r.DetectedAt.After(c.restored) {
				c.restored = r.DetectedAt
			}
		}
	}
	return nil
}

// noticeRestored writes down that the database was restored, where no worker has run on it yet who would have.
func (s *Service) noticeRestored(ctx context.Context) error {
	if s.Blind() {
		return nil
	}
	w, err := readWhereabouts(ctx, s.reads)
	switch err = noIdentity(err); {
	case errors.Is(err, errNoIdentity):
		s.blind.Store(true)
		return nil
	case err != nil:
		return err
	case w.known == (identity{}) || w.known == w.server && !w.suspect():
		return nil
	}
	_, err = s.ConfirmIdentity(ctx)
	return err
}

// findLost tells under which of the keys a payment was found in any list of Stripe's that is still kept.
func findLost(ctx context.Context, db querier, keys []uuid.UUID) (found map[uuid.UUID]bool, err error) {
	rows, err := db.Query(ctx, `SELECT DISTINCT key FROM reading_payment WHERE key = ANY ($1)`, keys)
	if err != nil {
		return nil, fmt.Errorf("find lost payments: %w", err)
	}
	found = map[uuid.UUID]bool{}
	var key uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&key}, func() error {
		found[key] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find lost payments: %w", err)
	}
	return found, nil
}
