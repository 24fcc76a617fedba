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

// Turn is what a worker has to do next for the readings that a look needs.
type Turn string

// The turns.
const (
	ReadOn    Turn = "read"  // go on with Hold.Reading: nobody else is on it
	Elsewhere Turn = "wait"  // somebody else reads what is needed
	AllRead   Turn = "ready" // ask Begin again: what is needed was read
)

// Hold is a reading in the hands of one worker, for about a minute after each page that it saves.
type Hold struct {
	Reading
	by uuid.UUID
}

// ErrLostHold says that the reading was taken over by somebody else, who goes on from the last page that was saved.
var ErrLostHold = errors.New("the reading is not ours any more")

// TakeReading gives a look that Begin has allowed a reading to go on with, a new one if there is none. It lets one worker at a time be on a
// reading, so that many charges that need the same wait for one of them.
func (s *Service) TakeReading(ctx context.Context, b Begun) (hold Hold, turn Turn, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	served, err := servedFor(ctx, s.reads, b.lookup)
	if err != nil {
		return Hold{}, "", err
	}
	if complete(served) {
		return Hold{}, AllRead, nil
	}
	err = outbox.InTx(ctx, s.pool, "reading.take", func(tx pgx.Tx) error {
		hold, turn = Hold{by: uuid.New()}, Elsewhere
		locked, err := lockReadings(ctx, tx, b.Here)
		if err != nil || !locked {
			return err
		}
		// Once more, under the lock: somebody may just have begun what is needed.
		served, err := servedFor(ctx, tx, b.lookup)
		if err != nil {
			return err
		}
		turn, err = hold.take(ctx, tx, b, served)
		return err
	})
	return hold, turn, err
}

func (h *Hold) take(ctx context.Context, tx pgx.Tx, b Begun, served []Reading) (turn Turn, err error) {
	turn = AllRead
	for i, r := range served {
		switch {
		case r.Complete:
			continue
		case r.ID == 0:
			w, keep, err := b.lookup.newStretch(ctx, tx, i)
			if err != nil {
				return "", err
			}
			h.Reading, err = insertReading(ctx, tx, b.Here, w, b.Clocks, h.by, keep)
			if err == nil && !b.lookup.servedBy(h.Reading, i) {
				err = fmt.Errorf("charge %s: a reading begun now would not serve it", b.Charge.ID) // and would be begun again and again
			}
			return ReadOn, err
		}
		reading, taken, err := takeReading(ctx, tx, r.ID, h.by)
		if err != nil {
			return "", err
		}
		if taken {
			h.Reading = reading
			return ReadOn, nil
		}
		turn = Elsewhere
	}
	return turn, nil
}

func servedFor(ctx context.Context, db querier, q lookup) ([]Reading, error) {
	readings, err := listReadings(ctx, db, q.here, q.windows())
	if err != nil {
		return nil, err
	}
	return q.served(readings), nil
}

// quietTogether is by how much a reading for a charge that was quiet for long reaches back further, to the oldest charge that waits: after an
// outage there may be thousands, and one reading serves them all.
const quietTogether = 48 * time.Hour

// newStretch is what a new reading for the i-th window reads, and for how long it is kept.
func (q lookup) newStretch(ctx context.Context, tx pgx.Tx, i int) (Window, time.Duration, error) {
	w := q.windows()[i]
	switch {
	case len(q.permit.Restored) > 0:
		return w.stretch(), restoredFor + keepReading, nil
	case len(q.permit.Open) > 0:
		return w.stretch(), keepReading, nil
	}
	oldest, err := oldestWaiting(ctx, tx, q.permit.Since.Add(-quietTogether))
	if err != nil {
		return Window{}, 0, err
	}
	if oldest != nil {
		w.From = earlier(w.From, q.now.stripe(*oldest).Add(-lookBefore))
	}
	return w.stretch(), keepReading, nil
}

// SaveReading writes down what the holder has read since it saved last, in order; last says that there is no more. With why, or last, the
// holder leaves the reading. It is [ErrLostHold] if somebody else has taken it over.
func (s *Service) SaveReading(ctx context.Context, h *Hold, page []News, last bool, why error) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	r := h.Reading
	r.Seen, r.Complete = r.Seen+len(page), last
	if len(page) > 0 {
		r.After = page[len(page)-1].ID
	}
	text := ""
	if why != nil {
		text = why.Error()
	}
	err := outbox.InTx(ctx, s.pool, "reading.save", func(tx pgx.Tx) error {
		ours, err := saveReading(ctx, tx, r, h.by, text, last || why != nil)
		if err != nil {
			return err
		}
		if !ours {
			return fmt.Errorf("save reading %d: %w", r.ID, ErrLostHold)
		}
		return insertReadPayments(ctx, tx, r.ID, page)
	})
	if err == nil {
		h.Reading = r
	}
	return err
}

// DropReading removes a reading that Stripe refuses to go on with: whoever needs it begins another.
func (s *Service) DropReading(ctx context.Context, h Hold) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "reading.drop", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM reading WHERE id = $1 AND holder = $2`, h.ID, h.by); err != nil {
			return fmt.Errorf("drop reading %d: %w", h.ID, err)
		}
		return nil
	})
}

// What goes with a reading are its payments, so a batch is one reading, of which the payments go first.
const removeReadPaymentsSQL = `
DELETE FROM reading_payment
 WHERE ctid = ANY (ARRAY(
       SELECT p.ctid FROM reading_payment p JOIN reading r ON r.id = p.reading_id
        WHERE r.keep_until < now() LIMIT $1))`

const removeReadingsSQL = `
DELETE FROM reading r
 WHERE keep_until < now() AND NOT EXISTS (SELECT FROM reading_payment p WHERE p.reading_id = r.id)`

// RemoveReadings removes readings that nothing uses any more, a batch to a transaction, until there are none, and returns how many rows
// it removed.
func (s *Service) RemoveReadings(ctx context.Context) (removed int64, err error) {
	for {
		var n int64
		err := outbox.InTx(ctx, s.pool, "reading.remove", func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, removeReadPaymentsSQL, removeBatch)
			if n = tag.RowsAffected(); err != nil || n > 0 {
				return err
			}
			tag, err = tx.Exec(ctx, removeReadingsSQL)
			removed += tag.RowsAffected()
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("remove readings: %w", err)
		}
		if n == 0 {
			return removed, nil
		}
		removed += n
	}
}
