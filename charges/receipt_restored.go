package charges

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// mailedBefore is why a receipt that is due, as far as this database knows, may have been mailed all the same.
const mailedBefore = "it may have been mailed before the database was restored"

// perhapsMailed tells whether a receipt that is due may have been mailed in the time that a restore of the database has lost: all that is on record of it
// is older than the restore; or nobody has claimed it yet, and its charge was accepted before the restore, or was lost and found again at Stripe. It
// compares the database's identity as a send to Stripe does, and returns what it has detected by that.
func (s *Service) perhapsMailed(ctx context.Context, tx pgx.Tx, c Charge, row receiptRow) (perhaps bool, detected *Restoration, err error) {
	all, detected, err := s.recall(ctx, tx, time.Time{})
	all = slices.DeleteFunc(slices.Clone(all), func(r Restoration) bool { return r.Suspected }) // every restart would hold back what is due
	if err != nil || len(all) == 0 {
		return false, detected, err
	}
	untouched := row.claim == uuid.Nil && row.doubts == 0
	older := func(r Restoration) bool {
		return row.changed.Before(r.DetectedAt) || untouched && c.CreatedAt.Before(r.DetectedAt)
	}
	if perhaps = slices.ContainsFunc(all, older); perhaps || !untouched {
		return perhaps, detected, nil
	}
	perhaps, err = foundAfterRestore(ctx, tx, c.ID)
	return perhaps, detected, err
}

// foundAfterRestore tells whether a charge's payment was found in what a restoration had lost.
func foundAfterRestore(ctx context.Context, tx pgx.Tx, charge uuid.UUID) (found bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM look WHERE charge_id = $1 AND restoration IS NOT NULL AND found IS NOT NULL)`, charge).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("read the looks of charge %s: %w", charge, err)
	}
	return found, nil
}
