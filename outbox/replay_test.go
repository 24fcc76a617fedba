package outbox_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

type fixture struct {
	*outbox.Outbox
	src  *charges.Service
	pool *pgxpool.Pool
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	pool := pgtest.New(t)
	box, err := outbox.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{box, charges.New(pool, box, charges.Options{}), pool}
}

func (f fixture) create(t *testing.T, n int) (ids []uuid.UUID) {
	t.Helper()
	for range n {
		a := f.src.Create(t.Context(), charges.CreateCharge{Caller: "shop", Key: uuid.New(),
			Request: charges.Request{Amount: 500, Currency: "jpy", PaymentMethod: "pm_card_visa", CaptureMethod: "automatic", ReceiptEmail: "buyer@example.com"}})
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		ids = append(ids, a.ChargeID)
	}
	return ids
}

func (f fixture) send(t *testing.T, id uuid.UUID, r charges.Result) {
	t.Helper()
	b, err := f.src.Begin(t.Context(), id, charges.Here{Account: charges.Account{ID: "acct_1"}, Clock: time.Now(), Fresh: true,
		Encode: func(charges.Charge) (string, error) { return "amount=500", nil }})
	if err != nil || b.Action != charges.Send {
		t.Fatalf("begin: %q, %v", b.Action, err)
	}
	if _, err := f.src.Settle(t.Context(), b.Attempt, r); err != nil {
		t.Fatal(err)
	}
}

func answered(status, payment string) charges.Result {
	return charges.Result{Outcome: charges.Answered, News: &charges.News{AsOf: time.Now(),
		Payment: charges.Payment{ID: payment, Status: status, Amount: 500, Currency: "jpy"}}}
}

func (f fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (f fixture) liveJobs(t *testing.T) (n int) {
	t.Helper()
	err := f.pool.QueryRow(t.Context(), `SELECT count(*) FROM river_job WHERE state = 'available'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// every makes one charge of each class, and removes every job of River's.
func (f fixture) every(t *testing.T) map[outbox.Class]int64 {
	t.Helper()
	ids := f.create(t, 9)
	f.send(t, ids[1], charges.Result{Outcome: charges.Unknown})
	f.send(t, ids[2], charges.Result{Outcome: charges.Unknown})
	f.exec(t, `UPDATE attempt SET sent_at = sent_at - interval '24 hours' WHERE charge_id = $1`, ids[2])
	f.exec(t, `UPDATE charge SET send_before = now() - interval '1 second' WHERE id = $1`, ids[3])
	for i, id := range ids[4:7] {
		f.send(t, id, answered("succeeded", fmt.Sprint("pi_", i)))
	}
	f.exec(t, `UPDATE receipt SET status = 'unknown' WHERE charge_id = $1`, ids[5])
	f.exec(t, `UPDATE receipt SET status = 'sent' WHERE charge_id = $1`, ids[6])
	f.send(t, ids[7], answered("requires_action", "pi_a"))
	f.send(t, ids[8], charges.Result{Outcome: charges.Refused, Code: "idempotency_error", Change: charges.Change{To: charges.NeedsReview, Reason: "idempotency_error"}})
	f.exec(t, `DELETE FROM river_job`)
	return map[outbox.Class]int64{
		outbox.NeverSent: 1, outbox.InWindow: 1, outbox.PastWindow: 1, outbox.PastSendBefore: 1, outbox.ReceiptWaiting: 1,
		outbox.ReceiptUnknown: 1, outbox.AtProvider: 1, outbox.NeedsReview: 1, outbox.Settled: 1,
	}
}

// A dry run counts by class and writes nothing; a replay then does just that, River's rows or not.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := f.every(t)
	const wanted = 6
	preview, err := f.Preview(t.Context(), f.src, outbox.Filter{})
	if err != nil || !maps.Equal(preview.Counts, want) || preview.Enqueued != wanted {
		t.Errorf("preview %+v, %v; want %v", preview, err, want)
	}
	if n := f.liveJobs(t); n != 0 {
		t.Fatalf("the dry run wrote %d jobs", n)
	}
	replay, err := f.Replay(t.Context(), f.src, outbox.Filter{}, "operator:ada", nil)
	if err != nil || !maps.Equal(replay.Counts, want) || replay.Enqueued != wanted {
		t.Errorf("replay %+v, %v; want %v", replay, err, want)
	}
	again, err := f.Replay(t.Context(), f.src, outbox.Filter{}, "operator:ada", nil)
	if err != nil || again.Enqueued != 0 || again.Counts[outbox.Live] != wanted {
		t.Errorf("replay again %+v, %v", again, err)
	}
	if n := f.liveJobs(t); n != wanted {
		t.Errorf("%d live jobs, want %d", n, wanted)
	}
	var finished, enqueued int
	if err := f.pool.QueryRow(t.Context(), `SELECT count(finished_at), sum(enqueued) FROM replay WHERE actor = 'operator:ada' AND counts <> '{}'`).Scan(&finished, &enqueued); err != nil || finished != 2 || enqueued != wanted {
		t.Errorf("audit: %d finished, %d enqueued, %v", finished, enqueued, err)
	}
}

// Pressed by many at once, over more than one page, a replay gives each charge one job.
func TestReplayAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 1203
	f.create(t, n)
	f.exec(t, `UPDATE river_job SET state = 'discarded', finalized_at = now()`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := f.Replay(context.Background(), f.src, outbox.Filter{}, "operator:ada", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		if _, err := f.Sweep(context.Background(), f.src); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if got := f.liveJobs(t); got != n {
		t.Errorf("%d live jobs for %d charges", got, n)
	}
}

func TestReplayFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.create(t, 3)
	f.exec(t, `DELETE FROM river_job`)
	f.exec(t, `UPDATE charge SET created_at = now() - interval '2 days' WHERE id = $1`, ids[0])
	f.exec(t, `UPDATE charge SET caller = 'rival' WHERE id = $1`, ids[1])
	for _, tc := range []struct {
		filter outbox.Filter
		want   int64
	}{
		{outbox.Filter{Until: time.Now().Add(-time.Hour)}, 1},
		{outbox.Filter{Since: time.Now().Add(-time.Hour)}, 2},
		{outbox.Filter{Caller: "rival"}, 1},
		{outbox.Filter{ChargeIDs: ids[1:]}, 2},
		{outbox.Filter{Caller: "nobody"}, 0},
	} {
		if r, err := f.Preview(t.Context(), f.src, tc.filter); err != nil || r.Enqueued != tc.want {
			t.Errorf("%+v: %d, %v; want %d", tc.filter, r.Enqueued, err, tc.want)
		}
	}
}

// A sweep finds what River has lost or given up, and leaves alone what is alive.
func TestSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(t, f.create(t, 1)[0], answered("requires_action", "pi_a"))
	f.exec(t, `DELETE FROM river_job WHERE kind = 'payment_follow'`)
	ids := f.create(t, 4)
	f.exec(t, `DELETE FROM river_job WHERE args ->> 'charge_id' = $1`, ids[0].String())
	f.exec(t, `UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE args ->> 'charge_id' = $1`, ids[1].String())
	f.exec(t, `UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour' WHERE args ->> 'charge_id' = $1`, ids[2].String())
	for _, want := range []int64{3, 0} {
		if r, err := f.Sweep(t.Context(), f.src); err != nil || r.Enqueued != want {
			t.Errorf("%+v, %v; want %d", r, err, want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.create(t, 3)
	f.exec(t, `DELETE FROM river_job WHERE args ->> 'charge_id' = $1`, ids[1].String())
	lines, last, err := f.List(t.Context(), f.src, outbox.Filter{}, uuid.Nil, 2)
	if err != nil || len(lines) != 2 || lines[0].JobState != "available" || lines[1].JobState != "" || last != ids[1] {
		t.Fatalf("%+v, %v, %v", lines, last, err)
	}
	lines, last, err = f.List(t.Context(), f.src, outbox.Filter{}, last, 2)
	if err != nil || len(lines) != 1 || lines[0].ChargeID != ids[2] || last != uuid.Nil {
		t.Errorf("%+v, %v, %v", lines, last, err)
	}
}
