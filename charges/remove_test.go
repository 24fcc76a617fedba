package charges

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

const (
	retention = 400 * 24 * time.Hour
	longAgo   = `410 days`
)

// lapse has so much time pass since a charge's attempts were made and it changed.
func (f *fixture) lapse(t *testing.T, id uuid.UUID, by string) {
	t.Helper()
	for _, sql := range []string{
		`UPDATE charge SET updated_at = updated_at - $2::interval, created_at = created_at - $2::interval WHERE id = $1`,
		`UPDATE attempt SET sent_at = sent_at - $2::interval, stripe_sent_at = stripe_sent_at - $2::interval, ended_at = ended_at - $2::interval,
		        id = overlay(id::text PLACING lpad(to_hex((extract(epoch FROM sent_at - $2::interval) * 1000)::bigint >> 16), 8, '0') FROM 1)::uuid WHERE charge_id = $1`,
	} {
		if _, err := f.pool.Exec(t.Context(), sql, id, by); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// Attempts go where the charge itself says for good that it is not sent again, and where nothing about it is open.
func TestRemoveAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	sent := func(r Result) uuid.UUID {
		id := f.create(t, request())
		f.settle(t, f.begin(t, id, Send), r)
		f.exec(t, `INSERT INTO look (charge_id, operation, complete, seen) VALUES ($1, 'charge', true, 3)`, id)
		return id
	}
	n := 0
	intent := func() string { n++; return fmt.Sprintf("pi_%d", n) }
	kept, gone := map[string]uuid.UUID{}, map[string]uuid.UUID{}

	gone["succeeded"] = sent(answered("succeeded", intent()))
	gone["canceled at Stripe"] = sent(answered("canceled", intent()))
	gone["its receipt delivered"] = sent(answered("succeeded", intent()))
	f.exec(t, `INSERT INTO receipt (charge_id, recipient, status) VALUES ($1, 'a@b.example', 'delivered')`, gone["its receipt delivered"])
	kept["not final"] = sent(answered("requires_action", intent()))
	gone["declined"] = sent(declined(intent()))
	kept["a payment of it may still change"] = sent(answered("succeeded", intent()))
	f.exec(t, `UPDATE payment SET followed = true WHERE charge_id = $1`, kept["a payment of it may still change"])
	kept["refused, without a payment"] = sent(Result{Outcome: Invalid, Code: "amount_too_small", Change: Change{To: Failed, Failure: &Failure{Code: "amount_too_small", Advice: DoNotRetry}}})
	kept["a person's"] = sent(answered("succeeded", intent()))
	f.exec(t, `UPDATE charge SET status = 'needs_review', review_reason = 'duplicate_payment' WHERE id = $1`, kept["a person's"])
	kept["in doubt"] = sent(answered("succeeded", intent()))
	f.exec(t, `UPDATE attempt SET outcome = 'unknown' WHERE charge_id = $1`, kept["in doubt"])
	kept["its receipt in doubt"] = sent(answered("succeeded", intent()))
	f.exec(t, `INSERT INTO receipt (charge_id, recipient, status) VALUES ($1, 'a@b.example', 'unknown')`, kept["its receipt in doubt"])
	kept["its refunds to be read"] = sent(answered("succeeded", intent()))
	f.exec(t, `INSERT INTO refund_reading (charge_id) VALUES ($1)`, kept["its refunds to be read"])
	for _, id := range gone {
		f.lapse(t, id, longAgo)
	}
	for _, id := range kept {
		f.lapse(t, id, longAgo)
	}
	kept["sent lately"] = sent(answered("succeeded", intent()))
	f.exec(t, `UPDATE charge SET updated_at = updated_at - $2::interval WHERE id = $1`, kept["sent lately"], longAgo)
	kept["sent again lately"] = sent(answered("succeeded", intent()))
	f.lapse(t, kept["sent again lately"], longAgo)
	f.exec(t, `UPDATE attempt SET sent_at = now() WHERE charge_id = $1`, kept["sent again lately"])
	kept["changed lately"] = sent(answered("succeeded", intent()))
	f.lapse(t, kept["changed lately"], longAgo)
	f.exec(t, `UPDATE charge SET updated_at = now() WHERE id = $1`, kept["changed lately"])

	removed := must[int64](t)(f.RemoveAttempts(t.Context(), retention))
	if removed != int64(len(gone)) {
		t.Errorf("%d were removed, want %d", removed, len(gone))
	}
	for want, charges := range map[int]map[string]uuid.UUID{0: gone, 1: kept} {
		for name, id := range charges {
			for _, table := range []string{"attempt", "look"} {
				if n := f.count(t, `SELECT count(*) FROM `+table+` WHERE charge_id = $1`, id); n != want {
					t.Errorf("%s: %d rows of %s, want %d", name, n, table, want)
				}
			}
		}
	}
	if again := must[int64](t)(f.RemoveAttempts(t.Context(), retention)); again != 0 {
		t.Errorf("%d more were removed", again)
	}
}

// What is cut short by its bound is no failure, and the next one goes on where it was.
func TestRemoveAttemptsGoesOnWhereItWasCutShort(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	sent := func(r Result) uuid.UUID {
		id := f.create(t, request())
		f.settle(t, f.begin(t, id, Send), r)
		return id
	}
	first, kept, last := sent(answered("succeeded", "pi_1")), sent(answered("requires_action", "pi_2")), sent(answered("succeeded", "pi_3"))
	f.exec(t, `UPDATE payment SET followed = true WHERE charge_id = $1`, first)
	f.exec(t, `INSERT INTO attempt (id, charge_id, operation, number, provider_key, stripe_account, livemode, request, stripe_sent_at, ended_at, outcome)
		SELECT overlay(id::text PLACING lpad(to_hex(g), 12, '0') FROM 25)::uuid, charge_id, operation, g, provider_key || g, stripe_account, livemode, request, now(), now(), 'refused'
		  FROM attempt, generate_series(2, $2) AS g WHERE charge_id = $1`, kept, removeBatch)
	for id, by := range map[uuid.UUID]string{first: "430 days", kept: "420 days", last: longAgo} {
		f.lapse(t, id, by)
	}
	holding, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holding.Rollback(context.Background()) }()
	if _, err := holding.Exec(t.Context(), `SELECT FROM attempt WHERE charge_id = $1 FOR UPDATE`, last); err != nil {
		t.Fatal(err)
	}
	bound, cancel := context.WithTimeout(t.Context(), 2*time.Second) // it waits up to 5 s for a lock
	defer cancel()
	if n, err := f.RemoveAttempts(bound, retention); n != 0 || err != nil {
		t.Fatalf("cut short: %d were removed, %v", n, err)
	}
	if err := holding.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.exec(t, `UPDATE payment SET followed = false`)
	for _, next := range []struct{ gone, stays uuid.UUID }{{last, first}, {first, kept}} {
		n := must[int64](t)(f.RemoveAttempts(t.Context(), retention))
		if n != 1 || f.count(t, `SELECT count(*) FROM attempt WHERE charge_id = $1`, next.gone) != 0 || f.count(t, `SELECT count(*) FROM attempt WHERE charge_id = $1`, next.stays) == 0 {
			t.Errorf("%d were removed, not the next", n)
		}
	}
}

// I2: a charge whose attempts were removed is not sent again, whoever asks, and wherever its status goes.
func TestI2NothingIsSentForLackOfAttempts(t *testing.T) {
	t.Parallel()
	rekey := DefaultPolicy
	rekey.Rekey = true
	for name, end := range map[string]Result{"succeeded": answered("succeeded", "pi_1"), "canceled": answered("canceled", "pi_1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{Policy: rekey})
			create := CreateCharge{Caller: "shop", Key: uuid.New(), Request: request()}
			id := f.Create(t.Context(), create).ChargeID
			f.settle(t, f.begin(t, id, Send), end)
			f.lapse(t, id, longAgo)
			f.exec(t, `DELETE FROM river_job`)
			if n := must[int64](t)(f.RemoveAttempts(t.Context(), retention)); n != 1 {
				t.Fatalf("%d were removed", n)
			}

			f.begin(t, id, Nothing)
			if a := f.Create(t.Context(), create); a.Err != nil || a.ChargeID != id {
				t.Errorf("the key again: %+v", a)
			}
			report := must[outbox.Report](t)(f.box.Sweep(t.Context(), f))
			report2 := must[outbox.Report](t)(f.box.Replay(t.Context(), f, outbox.Filter{}, "operator:ada", nil))
			if report.Enqueued+report2.Enqueued != 0 || f.count(t, `SELECT count(*) FROM river_job`) != 0 {
				t.Errorf("jobs: %+v, %+v", report, report2)
			}
			must[Restoration](t)(f.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:ada", "a test"))
			f.begin(t, id, Nothing)

			// A second payment asks for a person, who cannot have it sent.
			f.hear(t, id, said("succeeded", "pi_2"))
			if f.status(t, id) == NeedsReview {
				for _, newKey := range []bool{false, true} {
					if _, err := f.tryRule(t, id, Ruling{As: Processing, NewKey: newKey, Because: "again", Actor: "operator:ada"}); err == nil {
						t.Errorf("a person had it sent (new key: %t)", newKey)
					}
				}
			}
			f.begin(t, id, Nothing)
			for _, status := range []Status{Pending, Processing} { // wherever its status goes
				f.exec(t, `UPDATE charge SET status = $2, review_reason = NULL WHERE id = $1`, id, status)
				f.begin(t, id, Nothing)
			}
			if n := f.count(t, `SELECT count(*) FROM attempt`); n != 0 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

// While rows are being removed, and the removal has not been committed, nobody who accepts or asks waits for it.
func TestRemovalIsInNobodysWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	create := CreateCharge{Caller: "shop", Key: uuid.New(), Request: request()}
	first := f.Create(t.Context(), create)
	f.settle(t, f.begin(t, first.ChargeID, Send), paid)
	f.lapse(t, first.ChargeID, longAgo)
	f.exec(t, `UPDATE idempotency_key SET expires_at = now() - interval '1 second'`)

	removing, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = removing.Rollback(context.Background()) }()
	var n, seen int64
	var at time.Time
	var last uuid.UUID
	if err := removing.QueryRow(t.Context(), expireKeysSQL, time.Unix(0, 0), expireBatch).Scan(&n, &at); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := removing.QueryRow(t.Context(), removeAttemptsSQL, uuid.Nil, firstID(time.Now().Add(-retention)), retention, removeBatch).Scan(&n, &seen, &last); err != nil || n != 1 {
		t.Fatal(n, err)
	}

	began := time.Now() // a wait for a lock would end after 5 s, with an error
	if a := f.Create(t.Context(), create); a.Err != nil || a.Status != 200 || a.ChargeID != first.ChargeID {
		t.Errorf("the same key: %+v", a)
	}
	f.create(t, request())
	must[KeyUse](t)(f.Key(t.Context(), "shop", create.Key))
	f.begin(t, first.ChargeID, Nothing)
	f.hear(t, first.ChargeID, said("succeeded", "pi_1"))
	if others := must[int64](t)(f.ExpireKeys(t.Context())); others != 0 {
		t.Errorf("another worker removed %d that are being removed", others)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("they waited: %s", took)
	}
	if err := removing.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := f.Create(t.Context(), create); a.Err != nil || a.Status != 200 || a.ChargeID != first.ChargeID {
		t.Errorf("the same key afterwards: %+v", a)
	}
}

// acceptBound is for how long a charge may take to be accepted while much is removed.
const acceptBound = time.Second

// Twenty thousand answers are removed while charges are accepted, and none of those waits beyond the bound.
func TestRemovalWhileChargesCome(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const expired = 20_000
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil { // they need no charges
			return err
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO idempotency_key (key, caller, operation, charge_id, response_status, response_body, expires_at)
			SELECT gen_random_uuid(), 'shop', 'charge', gen_random_uuid(), 202, convert_to(repeat('x', 600), 'UTF8'), now() - g * interval '1 millisecond' FROM generate_series(1, $1) AS g`, expired)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	accepted := 0
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				began := time.Now()
				a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: request()})
				took := time.Since(began)
				mu.Lock()
				longest = max(longest, took)
				accepted++
				mu.Unlock()
				if a.Err != nil {
					t.Error(a.Err)
					return
				}
			}
		})
	}
	began := time.Now()
	n, err := f.ExpireKeys(t.Context())
	took := time.Since(began)
	close(done)
	clients.Wait()
	if err != nil || n != expired {
		t.Errorf("%d were removed, %v", n, err)
	}
	t.Logf("%d removed in %s while %d were accepted, the slowest in %s", n, took, accepted, longest)
	if longest > 3*acceptBound || accepted == 0 {
		t.Errorf("%d accepted, the slowest in %s", accepted, longest)
	}
}
