package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// crowdCut has fn done for all at once, through a service whose connection is cut at the COMMIT that the cutter waits for, and fails the
// test unless several shared it. first is done before, for a charge that is over and whose rows are locked: the others come while it waits for them.
func (r *rig) crowdCut(c *cutter, transaction string, n int, first func(*charges.Service, uuid.UUID) error, fn func(s *charges.Service, i int)) {
	r.t.Helper()
	over := r.create(mailed)
	r.exec(`UPDATE charge SET status = 'canceled' WHERE id = $1`, over)
	r.exec(`INSERT INTO receipt (charge_id, recipient, status, error) VALUES ($1, 'buyer@example.com', 'failed', 'for the test')`, over)
	lock, err := r.pool.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer lock.Rollback(context.WithoutCancel(r.t.Context()))
	for _, sql := range []string{`SELECT FROM charge WHERE id = $1 FOR UPDATE`, `SELECT FROM receipt WHERE charge_id = $1 FOR UPDATE`} {
		if _, err := lock.Exec(r.t.Context(), sql, over); err != nil {
			r.t.Fatal(err)
		}
	}
	pool := r.cut(c)
	box, err := outbox.New(pool)
	if err != nil {
		r.t.Fatal(err)
	}
	var mu sync.Mutex
	largest := 0
	s := charges.New(pool, box, charges.Options{Runs: 1, Observe: func(name string, members int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if name == transaction {
			largest = max(largest, members)
		}
	}})
	ended := make(chan error, 1)
	go func() { ended <- first(s, over) }()
	r.await("the first waits", func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fn(s, i) })
	}
	all.Wait()
	if err := lock.Rollback(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := <-ended; err != nil && !outbox.Unavailable(err) && !errors.Is(err, outbox.ErrBusy) { // it may have come while there was no database
		r.t.Errorf("the first: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cuts == 0 || largest < 2 {
		r.t.Errorf("cut %d times, and no more than %d shared a transaction", c.cuts, largest)
	}
}

func (r *rig) here() charges.Here {
	return charges.Here{Account: charges.Account{ID: "acct_home"}, Clock: time.Now(), Fresh: true,
		Encode: func(c charges.Charge) (string, error) { return "amount=" + fmt.Sprint(c.Amount), nil }}
}

// I2: after a COMMIT in doubt, none of the charges that shared it is told to send. The next question reads what is there, and either waits, since
// somebody may be in that call, or sends.
func TestI2BeginTogetherInDoubt(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 20
			r := newRig(t, charges.Options{})
			ids := make([]uuid.UUID, n)
			for i := range ids {
				ids[i] = r.create()
			}
			begun, errs := make([]charges.Begun, n), make([]error, n)
			r.crowdCut(&cutter{statement: []byte("INSERT INTO attempt"), after: after}, "attempt.begin", n, func(s *charges.Service, id uuid.UUID) error {
				_, err := s.Begin(t.Context(), id, r.here())
				return err
			}, func(s *charges.Service, i int) { begun[i], errs[i] = s.Begin(t.Context(), ids[i], r.here()) })
			doubts := 0
			for i, b := range begun {
				switch {
				case errs[i] == nil && b.Action == charges.Send:
				case errors.Is(errs[i], outbox.ErrInDoubt) && b.Action == "":
					doubts++
				default:
					t.Errorf("%d: %q, %v", i, b.Action, errs[i])
				}
				on := r.count(`SELECT count(*) FROM attempt WHERE charge_id = $1`, ids[i])
				if want := errs[i] == nil || after; (on == 1) != want {
					t.Errorf("%d: %v, and %d attempts are on record", i, errs[i], on)
				}
				next, err := r.charges.Begin(t.Context(), ids[i], r.here())
				want := charges.WaitFor
				if errs[i] != nil && !after {
					want = charges.Send
				}
				if err != nil || next.Action != want {
					t.Errorf("%d: then %q, %v, want %q", i, next.Action, err, want)
				}
			}
			if doubts < 2 {
				t.Errorf("%d were in doubt", doubts)
			}
			if all := r.count(`SELECT count(*) FROM attempt`); all != n {
				t.Errorf("%d attempts, want one for each of %d", all, n)
			}
		})
	}
}

// I1, I2: results and claims whose COMMIT was in doubt, or for which there was no database for a while, are written down all the same, once; and each
// claim is its own.
func TestI1SettleTogetherInDoubt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after bool
		away  time.Duration
	}{
		"committed":                    {after: true},
		"not committed":                {},
		"not committed, and then away": {away: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 20
			r := newRig(t, charges.Options{})
			ids, attempts, claims := make([]uuid.UUID, n), make([]charges.Attempt, n), make([]uuid.UUID, n)
			for i := range ids {
				ids[i] = r.create(mailed)
				begun, err := r.charges.Begin(t.Context(), ids[i], r.here())
				if err != nil {
					t.Fatal(err)
				}
				attempts[i] = begun.Attempt
			}
			settling := &cutter{statement: []byte("INSERT INTO payment"), after: tc.after, away: tc.away}
			claiming := &cutter{statement: []byte("claim_id = claim.id"), after: tc.after} // a claim that finds no database has claimed nothing
			r.crowdCut(settling, "attempt.settle", n, func(s *charges.Service, id uuid.UUID) error {
				_, err := s.Settle(t.Context(), charges.Attempt{ID: uuid.New(), ChargeID: id}, charges.Result{})
				return err
			}, func(s *charges.Service, i int) {
				news := charges.News{Payment: charges.Payment{ID: "pi_" + ids[i].String(), Status: "succeeded", Amount: 1099, Currency: "usd"}, AsOf: time.Now()}
				if held, err := s.Settle(t.Context(), attempts[i], charges.Result{Outcome: charges.Answered, HTTPStatus: 200, News: &news}); held || err != nil {
					t.Errorf("settle %d: held %t, %v", i, held, err)
				}
			})
			for sql, want := range map[string]int{
				`SELECT count(*) FROM charge WHERE status = 'succeeded' AND payment_intent = 'pi_' || id::text`: n,
				`SELECT count(*) FROM payment WHERE id = 'pi_' || charge_id::text`:                              n,
				`SELECT count(*) FROM attempt WHERE outcome = 'answered'`:                                       n,
				`SELECT count(*) FROM attempt`:                                                                  n,
				`SELECT count(*) FROM charge_event WHERE type = 'charge.succeeded'`:                             n,
				`SELECT count(*) FROM river_job WHERE kind = 'receipt_send'`:                                    n,
				`SELECT count(DISTINCT args ->> 'charge_id') FROM river_job WHERE kind = 'receipt_send'`:        n,
			} {
				if got := r.count(sql); got != want {
					t.Errorf("%s: %d, want %d", sql, got, want)
				}
			}
			r.crowdCut(claiming, "receipt.claim", n, func(s *charges.Service, id uuid.UUID) error {
				_, err := s.ClaimReceipt(t.Context(), id)
				return err
			}, func(s *charges.Service, i int) {
				claim, err := s.ClaimReceipt(t.Context(), ids[i])
				if claims[i] = claim.ID; err != nil || !claim.Send || claim.Charge.ID != ids[i] {
					t.Errorf("claim %d: send %t for %s, %v", i, claim.Send, claim.Charge.ID, err)
				}
			})
			for i, id := range ids {
				if r.count(`SELECT count(*) FROM receipt WHERE charge_id = $1 AND claim_id = $2 AND status = 'sending' AND doubts = 0`, id, claims[i]) != 1 {
					t.Errorf("%d: its receipt is not under its claim", i)
				}
			}
		})
	}
}
