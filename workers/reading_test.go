package workers

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// gets is how often something was read at Stripe.
func (r *rig) gets(path string) (n int) {
	for _, q := range r.sandbox.Ledger().Requests {
		if q.Method == "GET" && q.Path == path {
			n++
		}
	}
	return n
}

// lists is how many pages of Stripe's list of payments were asked for.
func (r *rig) lists() int { return r.gets("/v1/payment_intents") }

// beside is another worker process on the same database and providers.
func (r *rig) beside() *rig {
	other := *r
	other.workers = nil
	r.t.Cleanup(other.stop)
	return &other
}

// lose makes n charges whose answers are lost, and leaves them without a worker.
func (r *rig) lose(n int) (ids []uuid.UUID) {
	r.t.Helper()
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.DropAfter}, sandbox.Forever))
	for range n {
		ids = append(ids, r.create())
	}
	r.start()
	r.await("every answer to be lost", func() bool {
		// Another worker's calls go well, or these would be taken for an outage after some of them.
		if _, err := r.pool.Exec(r.t.Context(), `UPDATE provider SET succeeded_at = clock_timestamp() WHERE name = 'stripe'`); err != nil {
			r.t.Fatal(err)
		}
		return r.count(`SELECT count(DISTINCT charge_id) FROM attempt WHERE outcome IS NOT NULL AND charge_id = ANY ($1)`, ids) == n
	})
	r.stop()
	r.sandbox.ClearFaults()
	return ids
}

func (r *rig) awaitSucceeded(ids []uuid.UUID) {
	r.t.Helper()
	r.await("all to have succeeded", func() bool {
		return r.count(`SELECT count(*) FROM charge WHERE status = 'succeeded' AND id = ANY ($1)`, ids) == len(ids)
	})
	for _, id := range ids {
		r.wantPayments(id, 1)
	}
}

// I2, I3: after an outage that lost 300 answers, Stripe's list is read once for all of them, by whichever of two workers comes first, and not
// once for each.
func TestLostTogether(t *testing.T) {
	t.Parallel()
	const lost, others = 300, 250
	r := newRig(t, charges.Options{})
	ids := r.lose(lost)
	for range others {
		r.foreign(uuid.NewString())
	}
	r.away(25 * time.Hour)
	sent := len(r.posts())
	other := r.beside()
	r.start()
	other.start()
	r.awaitSucceeded(ids)
	if n := len(r.posts()); n != sent {
		t.Errorf("%d payments were asked for past the window", n-sent)
	}
	pages := (lost+others)/100 + 1
	if n := r.lists(); n > 2*pages { // where a quarter of an hour begins just then, there are two stretches
		t.Errorf("%d pages were asked for; one reading has %d", n, pages)
	}
	if n := r.count(`SELECT count(*) FROM look WHERE complete AND readings IS NOT NULL AND cardinality(string_to_array(found, ' ')) = 1`); n != lost {
		t.Errorf("%d looks say which readings they rest on, want %d", n, lost)
	}
	r.unburned()
}

// I3: a reading that a killed worker left is gone on with by another one when the dead one's time is over; what was read is not read
// again, and the dead one cannot write any more.
func TestReadingIsGoneOnWith(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 250)
	dead, alive := r.looker(1), r.looker(10)
	begun := dead.begin(id, charges.LookFirst)
	hold := dead.take(begun, charges.ReadOn)
	died := make(chan error, 1)
	go func() {
		ctx, cancel := dead.bounded()
		defer cancel()
		stopped, err := dead.chargeWorker.read(ctx, &hold)
		died <- errors.Join(stopped, err)
	}()
	r.await("the first page to be saved as soon as it was read", func() bool {
		return r.count(`SELECT count(*) FROM reading WHERE seen = 100 AND held_until > clock_timestamp()`) == 1
	})
	begun = alive.begin(id, charges.LookFirst)
	alive.take(begun, charges.Elsewhere)
	if _, err := r.pool.Exec(t.Context(), `UPDATE reading SET held_until = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	other := alive.take(begun, charges.ReadOn)
	if other.Seen != 100 || other.After == "" {
		t.Fatalf("went on with %+v", other.Reading)
	}
	before := r.lists()
	if err := alive.read(&other); err != nil || !other.Complete || other.Seen != 251 {
		t.Fatalf("%+v, %v", other.Reading, err)
	}
	if n := r.lists() - before; n != 2 {
		t.Errorf("%d pages were read, want the two that were left", n)
	}
	if err := <-died; !errors.Is(err, charges.ErrLostHold) {
		t.Errorf("the dead worker woke up and saved: %v", err)
	}
	r.start()
	r.awaitSucceeded([]uuid.UUID{id})
	if n := r.lists() - before; n != 2 {
		t.Errorf("%d pages were read again", n-2)
	}
}

// I2: a page that fails leaves the reading where it was, and no answer; neither does one that was cut short by time.
func TestReadingCutShortIsNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 150)
	w := r.looker(1)
	hold := w.take(w.begin(id, charges.LookFirst), charges.ReadOn)
	if err := w.read(&hold); err == nil || hold.Complete || hold.Seen != 100 {
		t.Fatalf("out of time: %+v, %v", hold.Reading, err)
	}
	w = r.looker(1)
	begun := w.begin(id, charges.LookFirst)
	r.fail(sandbox.Fault{Method: "GET", Path: "/v1/payment_intents", Kind: sandbox.Truncate, Times: 1})
	hold = w.take(begun, charges.ReadOn)
	if err := w.read(&hold); err == nil || hold.Complete || hold.Seen != 100 {
		t.Fatalf("half a page: %+v, %v", hold.Reading, err)
	}
	w.begin(id, charges.LookFirst)
	if n := r.count(`SELECT count(*) FROM look WHERE complete`); n != 0 {
		t.Error("it was taken for an answer")
	}
	r.start()
	r.awaitSucceeded([]uuid.UUID{id})
}

// I2: what is sent after a reading began is not in it, although it was created in its stretch.
func TestReadingIsOlderThanTheAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	first := r.lose(1)
	r.away(25 * time.Hour)
	r.start()
	r.awaitSucceeded(first)
	r.stop()
	second := r.lose(1)
	r.away(25 * time.Hour)
	if _, err := r.pool.Exec(t.Context(), `UPDATE reading SET to_at = to_at + interval '26 hours'`); err != nil {
		t.Fatal(err)
	}
	sent := len(r.posts())
	r.start()
	r.awaitSucceeded(second)
	if n := len(r.posts()); n != sent {
		t.Errorf("%d payments were asked for past the window", n-sent)
	}
	if n := r.count(`SELECT count(*) FROM reading`); n != 2 {
		t.Errorf("%d readings, want one for each", n)
	}
}

// I2: what another account's list, or the other mode's, does not hold proves nothing here; nor does a reading that is being removed, or that
// began before the clock was set back.
func TestReadingsThatAreNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 0)
	_, err := r.pool.Exec(t.Context(), `
INSERT INTO reading (stripe_account, livemode, from_at, to_at, begun_at, stripe_begun_at, complete, keep_until)
SELECT account, livemode, now() - interval '10 days', now() + interval '10 days', clock_timestamp() + begun, clock_timestamp() + interval '25 hours', true, now() + keep
  FROM (VALUES ('acct_other', false, interval '0', interval '1 day'), ('acct_home', true, '0', '1 day'), ('acct_home', false, '0', '50 minutes'),
               ('acct_home', false, '10 minutes', '1 day')) AS of_no_use (account, livemode, begun, keep)`)
	if err != nil {
		t.Fatal(err)
	}
	sent := len(r.posts())
	r.start()
	r.await("the charge to be settled", func() bool { return r.get(id).Status.Final() })
	r.wantPayments(id, 1)
	if n := len(r.posts()); n != sent {
		t.Errorf("%d payments were asked for past the window", n-sent)
	}
}

// I2: charges that were never sent, of an outage of 30 hours, may be older than a backup that nobody spoke of: what Stripe may have forgotten is
// looked for, in one reading for all.
func TestNeverSentTogether(t *testing.T) {
	t.Parallel()
	const waiting = 60
	r := newRig(t, charges.Options{})
	var ids []uuid.UUID
	for range waiting {
		ids = append(ids, r.create())
	}
	// The newest comes first, so that the first reading must reach back further than its own charge asks.
	_, err := r.pool.Exec(t.Context(), `
WITH old AS (
    UPDATE charge c SET created_at = created_at - interval '23 hours 10 minutes' - interval '6 minutes' * n.n
      FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS n FROM charge) n WHERE n.id = c.id
    RETURNING c.id, n.n
)
UPDATE river_job j SET scheduled_at = now() - interval '1 hour' + interval '1 second' * old.n FROM old WHERE j.args ->> 'charge_id' = old.id::text`)
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitSucceeded(ids)
	if n := r.count(`SELECT count(*) FROM reading`); n != 1 {
		t.Errorf("%d readings, want one for all", n)
	}
	if n := len(r.posts()); n != waiting {
		t.Errorf("%d payments were asked for, want %d", n, waiting)
	}
}

// Readings that nothing uses any more are removed with what they found, and no others.
func TestReadingsAreRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	r.awaitSucceeded([]uuid.UUID{r.create()})
	_, err := r.pool.Exec(t.Context(), `
WITH made AS (
    INSERT INTO reading (stripe_account, livemode, from_at, to_at, begun_at, stripe_begun_at, complete, keep_until)
    SELECT 'acct_home', false, now() - interval '1 hour', now(), now(), now(), true, now() + age
      FROM unnest(ARRAY['-1 second', '1 hour']::interval[]) AS ages (age)
    RETURNING id)
INSERT INTO reading_payment (reading_id, payment, key) SELECT id, 'pi_' || n, gen_random_uuid() FROM made, generate_series(1, 700) n`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.charges.RemoveReadings(t.Context()); err != nil {
		t.Fatal(err)
	}
	if readings, payments := r.count(`SELECT count(*) FROM reading`), r.count(`SELECT count(*) FROM reading_payment`); readings != 1 || payments != 700 {
		t.Errorf("%d readings with %d payments are left", readings, payments)
	}
}
