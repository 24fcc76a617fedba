package charges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A restored database does not know what was lost, but Stripe does, and what was read there under a key is relied on for as long as it is kept,
// which is a month: a request with that key is taken for the retry that it is, and nothing is sent under it.

// markLost finds out of the claims that are to be refused, and whose keys are unknown here, whether that is because a restored database has forgotten
// them: a payment under the key was found at Stripe, or what was lost is not known yet.
func (s *Service) markLost(ctx context.Context, claims []*claim) error {
	refused := slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return c.used || len(c.short) == 0 && !c.late })
	if len(refused) == 0 {
		return nil
	}
	doubt, err := s.noticeRestored(ctx)
	if err != nil {
		return err
	}
	all, err := listRestorations(ctx, s.reads)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.ReadAt.IsZero() && r.matters(time.Now()) && r.DetectedAt.After(doubt) {
			doubt = r.DetectedAt
		}
	}
	found := map[uuid.UUID]bool{}
	if len(all) > 0 {
		if found, err = findLost(ctx, s.reads, refused); err != nil {
			return err
		}
	}
	for _, c := range refused {
		c.lost, c.restored = found[c.Key], doubt
	}
	return nil
}

// noticeEvery is how often a process that refuses looks where the database is.
const noticeEvery = 200 * time.Millisecond

// noticeRestored writes down that the database was restored, where no worker has run on it yet who would have. Where that cannot be written down
// it is the caller's to doubt, from that moment on; zero: it was written, or there is nothing to write.
func (s *Service) noticeRestored(ctx context.Context) (doubt time.Time, err error) {
	if last := s.noticed.Load(); s.Blind() || last != nil && time.Since(*last) < noticeEvery {
		return time.Time{}, nil
	}
	now := time.Now()
	w, err := readWhereabouts(ctx, s.reads)
	switch err = noIdentity(err); {
	case errors.Is(err, errNoIdentity):
		s.blind.Store(true)
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	case w.known == (identity{}) || w.known == w.server && !w.suspect():
		s.noticed.Store(&now)
		return time.Time{}, nil
	}
	detected, err := s.ConfirmIdentity(ctx)
	if errors.Is(err, errNoIdentity) { // it may be read, and not written
		s.blind.Store(false)
		return now, nil
	}
	if detected != nil && s.restored != nil {
		s.restored(*detected)
	}
	return time.Time{}, err
}

// findLost tells under which of the claims' keys a payment was found, in any list of Stripe's that is kept.
func findLost(ctx context.Context, db querier, claims []*claim) (found map[uuid.UUID]bool, err error) {
	keys := make(uuids, len(claims))
	for i, c := range claims {
		keys[i] = c.Key
	}
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

// heedSeen holds back a send that rests on there being no payment, in a database that has ever been restored, where one was seen under the charge's key after
// all: in a list that was read for others, too long ago for [Allow] to ask for it, or at another account. One of here's is read again by its id and adopted. One
// that cannot be, and a charge that was accepted for a payment which is nowhere to be found any more, are a person's.
func heedSeen(ctx context.Context, tx pgx.Tx, b *Begun, h History, p Policy) error {
	here, elsewhere, readings, err := findSeen(ctx, tx, b.Charge.IdempotencyKey, b.Here)
	if err != nil {
		return err
	}
	lost, err := acceptedAsLost(ctx, tx, b.Charge.ID)
	if err != nil {
		return err
	}
	switch {
	case len(here) > 0:
		b.Permit = Permit{Action: LookFirst, Open: b.Open, Restored: h.Restorations[len(h.Restorations)-1:], Final: true}
		b.lookup = lookup{h, b.Permit, b.Clocks, b.Here, p}
		b.Read = &Look{ID: cutShort(b.lookup).ID, Complete: true, Begun: b.Clocks.Database, Found: here, Seen: len(here), Readings: readings,
			Restoration: b.NewestRestoration()}
	case len(elsewhere) > 0 || lost:
		b.Permit = Permit{Action: Park, Reason: paymentFound, Seen: elsewhere}
	default:
		return waitForAccount(ctx, tx, b, h.Restorations)
	}
	return nil
}

// waitForAccount holds back what would be sent where the database was charging at another account, or in the other mode, when some of it was lost, until that
// account's list was read: this one's cannot tell.
func waitForAccount(ctx context.Context, tx pgx.Tx, b *Begun, restorations []Restoration) error {
	for _, r := range restorations {
		if !r.ReadAt.IsZero() || r.Suspected || !r.matters(b.Clocks.Database) { // whoever begins to charge in live mode has restarted everything
			continue
		}
		other, err := chargedElsewhere(ctx, tx, r, b.Here)
		if err != nil {
			return err
		}
		if other {
			b.Permit = Permit{Action: Misconfigured, Reason: "before the restore of " + r.DetectedAt.UTC().Format(time.RFC3339) +
				" charges were sent to another Stripe account or mode: run a worker with its key until oncepay reconcile --lost says that all was read, or give that up with oncepay reconcile --give-up"}
			return nil
		}
	}
	return nil
}

// chargedElsewhere tells whether the newest attempt that is left from before the restore was at another account.
func chargedElsewhere(ctx context.Context, db querier, r Restoration, here Account) (other bool, err error) {
	const newest = `SELECT (stripe_account, livemode) <> ($2, $3) FROM attempt WHERE id < $1 ORDER BY id DESC LIMIT 1`
	err = db.QueryRow(ctx, newest, firstID(r.DetectedAt), here.ID, here.Livemode).Scan(&other)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("read where charges were sent before restoration %d: %w", r.ID, err)
	}
	return other, nil
}

const findSeenSQL = `
SELECT p.payment, r.stripe_account = $2 AND r.livemode = $3, r.id
  FROM reading_payment p JOIN reading r ON r.id = p.reading_id
 WHERE p.key = $1
 ORDER BY p.payment, r.id`

// findSeen returns the payments that were seen under a key at an account, in which readings, and those seen elsewhere, each once.
func findSeen(ctx context.Context, db querier, key uuid.UUID, at Account) (here, elsewhere []string, readings []int64, err error) {
	rows, err := db.Query(ctx, findSeenSQL, key, at.ID, at.Livemode)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find payments that were seen: %w", err)
	}
	var payment string
	var ours bool
	var reading int64
	_, err = pgx.ForEachRow(rows, []any{&payment, &ours, &reading}, func() error {
		if ours {
			here, readings = append(here, payment), append(readings, reading)
		} else {
			elsewhere = append(elsewhere, payment)
		}
		return nil
	})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find payments that were seen: %w", err)
	}
	slices.Sort(readings)
	return slices.Compact(here), slices.Compact(elsewhere), slices.Compact(readings), nil
}

// acceptedAsLost tells whether the charge was accepted for a payment that a restored database had forgotten.
func acceptedAsLost(ctx context.Context, db querier, id uuid.UUID) (lost bool, err error) {
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM charge_event WHERE charge_id = $1 AND data ? 'lost')`, id).Scan(&lost)
	if err != nil {
		return false, fmt.Errorf("read how charge %s was accepted: %w", id, err)
	}
	return lost, nil
}
