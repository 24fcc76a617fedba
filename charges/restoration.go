package charges

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Restoration is a moment at which the database was found to be older than it had been: restored from a backup, or a replica that was
// behind and was made the primary. What had been written after LostFrom may be missing: whole charges, and attempts at Stripe. Their callers may
// come back with the same keys, so that "no attempt" proves nothing.
type Restoration struct {
	ID             int64
	DetectedAt     time.Time // by PostgreSQL's clock
	LostFrom       time.Time // by PostgreSQL's clock
	LostFromStripe time.Time // the same by Stripe's clock; zero: unknown
	Actor          string    // worker, or who declared it
	Reason         string
	Readings       []int64   // the complete ones that tell what it has lost
	ReadAt         time.Time // when all that it may have lost had been read at Stripe, for good; zero: not yet
	Suspected      bool      // nothing proves it: the server was started anew, and its files may have been replaced by an older copy before
}

// Report says aloud that it was noticed: an error, or a warning where it is only suspected.
func (r Restoration) Report(log *slog.Logger) {
	level, msg := slog.LevelError, "restoration.detected"
	if r.Suspected {
		level, msg = slog.LevelWarn, "restoration.suspected"
	}
	log.Log(context.Background(), level, msg, "restoration_id", r.ID, "reason", r.Reason, "lost_from", r.LostFrom, "lost_from_stripe", r.LostFromStripe,
		"detected_at", r.DetectedAt)
}

// restoredFor is how long after a restoration "no attempt" is not trusted. A charge that was lost is unknown here until its caller comes back
// with its key. Callers retry for days: clients, their queues, and people who press a button again; a month is far above that.
const restoredFor = 30 * 24 * time.Hour

// suspectedFor is the same where nothing proves that there was one: most often there was none, and each look costs a little.
const suspectedFor = 7 * 24 * time.Hour

func (r Restoration) matters(now time.Time) bool {
	if r.Suspected {
		return now.Sub(r.DetectedAt) <= suspectedFor
	}
	return now.Sub(r.DetectedAt) <= restoredFor
}

// settledBy tells whether a reading of the lost stretch that began then says, by now, all that must be known. Everything that was lost was
// sent before the restoration was detected. What is at least inDoubt older than the reading is in it for sure. What was sent after that
// may not have been listed yet, but then Stripe remembers its key: sending under it again gets the first answer, or is refused; it cannot charge
// again. So an early reading is good for nearly as long as Stripe is trusted, and a later one for ever.
func (r Restoration) settledBy(begun time.Time, now Clocks, p Policy) bool {
	return !begun.Before(r.DetectedAt.Add(inDoubt)) || now.Database.Sub(begun) < p.Window-inDoubt
}

// unlessRestored holds back a send that rests on there being no attempt, until the stretch that each restoration may have lost was looked at
// for this charge: the charge may be older than the backup and its attempts lost, or it may be new here while a lost charge was sent
// under the same key. The latter would have had another id, and so another request: to send it, even while Stripe remembers the key, would be
// an idempotency_error.
func unlessRestored(send Permit, h History, now Clocks, p Policy) Permit {
	var unsettled []Restoration
	for _, r := range h.Restorations {
		settled := slices.ContainsFunc(h.Looks, func(l Look) bool {
			return l.Complete && l.Restoration >= r.ID && r.settledBy(l.begun(), now, p)
		})
		if settled || !r.matters(now.Database) {
			continue
		}
		if now.Database.Before(r.DetectedAt) {
			return Permit{Action: WaitFor, Until: r.DetectedAt} // somebody has just found out, and a reading must begin after that
		}
		if proven := r.DetectedAt.Add(inDoubt); p.Window <= inDoubt && now.Database.Before(proven) {
			return Permit{Action: WaitFor, Until: proven} // no earlier reading would do
		}
		unsettled = append(unsettled, r)
	}
	if len(unsettled) == 0 {
		return send
	}
	return Permit{Action: LookFirst, Restored: unsettled, Final: true}
}
