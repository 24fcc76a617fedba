package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncepay/oncepay/outbox"
)

// confirmedLately is how long ago another worker may have noted where the data is, so that this one need not.
const confirmedLately = 500 * time.Millisecond

// errNoIdentity says that the server does not tell which one it is.
var errNoIdentity = errors.New("restores and failovers of this database cannot be detected: its server does not tell its system identifier and timeline")

// ConfirmIdentity notes that this data is still on the server on which it was. If it is not, it was restored or failed over: that is written
// down, and returned. What can have been lost by that was written after the last time that this was called, so workers call it every second.
//
// After an error, [Service.Blind] says whether the server does not tell, or could not be asked.
func (s *Service) ConfirmIdentity(ctx context.Context) (detected *Restoration, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "identity.confirm", func(tx pgx.Tx) error {
		w, err := readWhereabouts(ctx, tx)
		if err != nil {
			return err
		}
		if w.known == w.server && !w.suspect() && w.since >= 0 && w.since < confirmedLately {
			return nil
		}
		detected, err = moved(ctx, tx, w, time.Time{})
		return err
	})
	if err = noIdentity(err); err == nil || errors.Is(err, errNoIdentity) {
		s.blind.Store(err != nil)
	}
	return detected, err
}

// Blind tells whether restores and failovers are not detected, because the server would not tell.
func (s *Service) Blind() bool { return s.blind.Load() }

// noIdentity tells an error of a server that cannot be asked from that of one which does not tell.
func noIdentity(err error) error {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		switch pgErr.Code {
		case "42501", "42883", "0A000": // not allowed, not there, not supported: managed servers differ
			return fmt.Errorf("%w: %w", errNoIdentity, err)
		}
	}
	return err
}

// moved compares, under its lock, where the data was seen last with where it is, and writes down the difference: first that the data was
// restored, or may have been, then that it is here now. The first time ever there is nothing to compare with. now is when that was found, by
// PostgreSQL's clock; zero: now.
func moved(ctx context.Context, tx pgx.Tx, w whereabouts, now time.Time) (*Restoration, error) {
	var err error
	if w.known, w.seen, err = lockIdentity(ctx, tx); err != nil {
		return nil, err
	}
	found := Restoration{DetectedAt: now, LostFrom: w.seen, Actor: worker}
	switch known, server := w.known, w.server; {
	case known == (identity{}) || known == server && !w.suspect():
		return nil, writeIdentity(ctx, tx, server)
	case known == server:
		found.Suspected = true
		found.Reason = fmt.Sprintf("the server was started at %s; it may run on an older copy of its files", w.started.UTC().Format(time.RFC3339))
	case known.system != server.system:
		found.Reason = fmt.Sprintf("the server's system identifier was %d and is %d", known.system, server.system)
	case known.timeline != server.timeline:
		found.Reason = fmt.Sprintf("the server's timeline was %s and is %s", known.timeline, server.timeline)
	default:
		found.Reason = "the database or its tables were made anew on the same server"
	}
	r, err := insertRestoration(ctx, tx, found, w.known, w.server)
	if err != nil {
		return nil, err
	}
	return &r, writeIdentity(ctx, tx, w.server)
}

// recall returns the restorations, in the transaction that is about to rely on what is not on record. First it compares where the data is with
// where it was seen last, and writes down what it finds: then that is detected as well, unless somebody else has just written it down. For charges
// that share the transaction that is done once, and one of them has detected it.
func (s *Service) recall(ctx context.Context, tx pgx.Tx, now time.Time) (all []Restoration, detected *Restoration, err error) {
	r, first, err := outbox.Once(ctx, tx, "recall", func(ctx context.Context, tx pgx.Tx) (r recalled, err error) {
		restored := true
		if !s.Blind() { // else that was said at the start, and a metric says it
			w, err := readWhereabouts(ctx, tx)
			if err != nil {
				return r, noIdentity(err)
			}
			restored = w.restored
			if w.known != w.server || w.suspect() {
				restored = true
				if r.detected, err = moved(ctx, tx, w, now); err != nil {
					return r, err
				}
			}
		}
		if restored {
			r.all, err = listRestorations(ctx, tx)
		}
		return r, err
	})
	if first {
		detected = r.detected
	}
	return r.all, detected, err
}

// recalled are the restorations, and the one that was detected just now.
type recalled struct {
	all      []Restoration
	detected *Restoration
}

// DeclareRestored writes down that the database was restored in a way that leaves its server's identity as it was: a snapshot of its disk, or a
// dump that was read back. What was written after since may be lost. A zero since is when a worker last found the
// data where it was; that is right only if no worker has run since the restore.
func (s *Service) DeclareRestored(ctx context.Context, since time.Time, who, because string) (r Restoration, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "restoration.declare", func(tx pgx.Tx) error {
		known, seen, err := lockIdentity(ctx, tx)
		if err != nil {
			return err
		}
		if since.IsZero() {
			if known == (identity{}) {
				return ErrSinceUnknown
			}
			since = seen
		}
		if since.After(time.Now()) {
			return fmt.Errorf("%s has not come yet", since.Format(time.RFC3339))
		}
		r, err = insertRestoration(ctx, tx, Restoration{LostFrom: since, Actor: who, Reason: because}, identity{}, identity{})
		return err
	})
	return r, err
}

// ErrSinceUnknown says that no worker has ever noted where this data is.
var ErrSinceUnknown = errors.New("no worker has run on this database, so since when it may have lost something must be said")

// Restorations returns all restorations of this database, the oldest first.
func (s *Service) Restorations(ctx context.Context) ([]Restoration, error) {
	return listRestorations(ctx, s.reads)
}
