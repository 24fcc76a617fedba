package charges

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// elsewhere makes the database look as if it had been seen on another server last, so long ago.
func (f *fixture) elsewhere(t *testing.T, set string) {
	t.Helper()
	tag, err := f.pool.Exec(t.Context(), `UPDATE database_identity SET `+set)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%v, %v", tag, err)
	}
}

func (f *fixture) restorations(t *testing.T) []Restoration {
	t.Helper()
	all, err := f.Restorations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// I2: what is about to be sent because nothing is on record is not sent if the database is another one than it was, which is found in that very
// transaction, by whoever comes first, and once.
func TestRestorationIsDetected(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		`timeline = '0000000F', seen_at = seen_at - interval '1 hour'`,
		`system_identifier = 42, seen_at = seen_at - interval '1 hour'`,
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{})
			before := f.begin(t, f.create(t, request()), Send)
			if before.Detected != nil {
				t.Fatal("a new database was restored")
			}
			f.elsewhere(t, set)
			const n = 8
			found := make(chan bool, n)
			var together errgroup.Group
			for range n {
				id := f.create(t, request())
				together.Go(func() error {
					b, err := f.Begin(t.Context(), id, f.here(true))
					for err == nil && b.Action == WaitFor {
						b, err = f.Begin(t.Context(), id, f.here(true))
					}
					if b.Action != LookFirst || len(b.Permit.Restored) != 1 {
						t.Errorf("%q, %+v", b.Action, b.Permit)
					}
					found <- b.Detected != nil
					return err
				})
			}
			if err := together.Wait(); err != nil {
				t.Fatal(err)
			}
			close(found)
			detected := 0
			for d := range found {
				if d {
					detected++
				}
			}
			all := f.restorations(t)
			if detected != 1 || len(all) != 1 {
				t.Fatalf("detected %d times: %+v", detected, all)
			}
			r := all[0]
			if age := r.DetectedAt.Sub(r.LostFrom); age < time.Hour || age > time.Hour+time.Minute || r.Actor != worker {
				t.Errorf("%+v", r)
			}
			if off := r.LostFromStripe.Sub(before.Attempt.StripeSentAt) + time.Hour; off.Abs() > time.Minute {
				t.Errorf("by Stripe's clock it lost what was sent from %s on; the attempt that is left was sent at %s", r.LostFromStripe, before.Attempt.StripeSentAt)
			}
		})
	}
}

// Each worker's start and minute finds it as well, and notes otherwise that all is as it was.
func TestIdentityIsConfirmed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	confirm := func() *Restoration {
		t.Helper()
		r, err := f.ConfirmIdentity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := confirm(); r != nil {
		t.Fatalf("a new database: %+v", r)
	}
	f.elsewhere(t, `seen_at = pg_postmaster_start_time() - interval '3 seconds'`)
	if r := confirm(); r != nil {
		t.Fatalf("a restart: %+v", r)
	}
	var fresh bool
	if err := f.pool.QueryRow(t.Context(), `SELECT seen_at > pg_postmaster_start_time() FROM database_identity`).Scan(&fresh); err != nil || !fresh {
		t.Errorf("it was not noted when that was so: %v", err)
	}
	f.elsewhere(t, `seen_at = pg_postmaster_start_time() - interval '1 hour'`)
	if r := confirm(); r == nil || !r.Suspected {
		t.Errorf("started an hour after it was seen last: %+v", r)
	}
	f.elsewhere(t, `charge_oid = charge_oid - 1`)
	if r := confirm(); r == nil || r.Suspected {
		t.Errorf("the table was made anew: %+v", r)
	}
	f.elsewhere(t, `timeline = '0000000F'`)
	if r := confirm(); r == nil {
		t.Error("the timeline has changed")
	}
	if r := confirm(); r != nil {
		t.Errorf("found twice: %+v", r)
	}
	// The clock of the server before may have been ahead.
	f.elsewhere(t, `timeline = '0000000F', seen_at = clock_timestamp() + interval '1 hour'`)
	if r := confirm(); r == nil || r.LostFrom.After(r.DetectedAt) {
		t.Errorf("%+v", r)
	}
}

// A server that does not tell which one it is stops no payment, and the loss of this guard is told.
func TestIdentityIsNotTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	if _, err := f.pool.Exec(t.Context(), `ALTER FUNCTION pg_catalog.pg_control_system() RENAME TO pg_control_system_gone`); err != nil {
		t.Fatal(err)
	}
	id := f.create(t, request())
	f.begin(t, id, Send)
	if !f.Blind() {
		t.Error("Begin did not say that it is blind")
	}
	if _, err := f.ConfirmIdentity(t.Context()); !errors.Is(err, errNoIdentity) {
		t.Errorf("%v", err)
	}
	if _, err := f.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:test", "snapshot"); err != nil {
		t.Fatal(err)
	}
	f.begin(t, f.create(t, request()), LookFirst) // what was declared counts all the same
	if _, err := f.pool.Exec(t.Context(), `ALTER FUNCTION pg_catalog.pg_control_system_gone() RENAME TO pg_control_system`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ConfirmIdentity(t.Context()); err != nil || f.Blind() {
		t.Errorf("still blind: %v", err)
	}
}

// A role without any rights but those on the tables may ask which server it is.
func TestIdentityForAnOrdinaryRole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, sql := range []string{`CREATE ROLE ordinary`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO ordinary`, `SET LOCAL ROLE ordinary`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if w, err := readWhereabouts(t.Context(), tx); err != nil || w.server.system == 0 || len(w.server.timeline) != 8 || w.server.charge == 0 || w.started.IsZero() {
		t.Errorf("%+v, %v", w, err)
	}
}

// A restore that leaves the server's identity as it was is declared; since when must be known.
func TestRestorationIsDeclared(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	if _, err := f.DeclareRestored(t.Context(), time.Time{}, "operator:test", "snapshot"); !errors.Is(err, ErrSinceUnknown) {
		t.Errorf("no worker has run: %v", err)
	}
	if _, err := f.DeclareRestored(t.Context(), time.Now().Add(time.Hour), "operator:test", "snapshot"); err == nil {
		t.Error("a backup of the future was accepted")
	}
	if _, err := f.ConfirmIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.elsewhere(t, `seen_at = seen_at - interval '1 hour'`)
	r, err := f.DeclareRestored(t.Context(), time.Time{}, "operator:test", "snapshot")
	if err != nil || r.DetectedAt.Sub(r.LostFrom).Round(time.Minute) != time.Hour || r.Actor != "operator:test" || r.Reason != "snapshot" {
		t.Errorf("%+v, %v", r, err)
	}
	f.begin(t, f.create(t, request()), LookFirst)
}

// Case 48: a lost charge comes back under another id. An event about its payment names the old id, and is matched by the key.
func TestEventNamesALostCharge(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	c, err := f.Get(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	m, err := matchPayment(t.Context(), tx, "pi_1", map[string]string{"oncepay_key": c.IdempotencyKey.String(), "oncepay_charge": uuid.NewString()})
	if err != nil || m.charge != id || m.differs {
		t.Errorf("%+v, %v", m, err)
	}
}
