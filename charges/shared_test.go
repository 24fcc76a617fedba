package charges

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/outbox"
)

// crowd has fn done for all of n at once, when the first run of what they share is held until all have come: they share the next.
type crowd struct {
	came    atomic.Int32
	largest atomic.Int32 // batch, since then
}

func sharing[T any](c *crowd, n int, run func(context.Context, []T) error) *outbox.Together[T] {
	return outbox.NewTogether(outbox.TogetherBounds{Runs: 1}, func(ctx context.Context, all []T) error {
		for c.came.Load() < int32(n) {
			time.Sleep(time.Millisecond) // the pace of the poll
		}
		c.largest.Store(max(c.largest.Load(), int32(len(all))))
		return run(ctx, all)
	})
}

func (c *crowd) do(t *testing.T, n int, fn func(i int) error) []error {
	t.Helper()
	c.came.Store(0)
	c.largest.Store(0)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c.came.Add(1)
			errs[i] = fn(i)
		})
	}
	all.Wait()
	if got := c.largest.Load(); got < int32(n/2) {
		t.Errorf("no more than %d of %d shared a transaction", got, n)
	}
	return errs
}

// shareAll has what n workers write go into one transaction.
func (f *fixture) shareAll(n int) *crowd {
	c := &crowd{}
	f.begins, f.settles, f.giveBacks = sharing(c, n, f.beginTogether), sharing(c, n, f.settleTogether), sharing(c, n, f.settleTogether)
	f.claims, f.mails = sharing(c, n, f.claimTogether), sharing(c, n, f.mailedTogether)
	return c
}

// createMany accepts n charges with a receipt.
func (f *fixture) createMany(t *testing.T, n int) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, n)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = f.create(t, request(func(r *Request) { r.ReceiptEmail = "buyer@example.com" })) })
	}
	all.Wait()
	return ids
}

// poison makes PostgreSQL refuse a row of one charge; the condition is about the new row. It returns the cure.
func (f *fixture) poison(t *testing.T, table, condition string) (cure func()) {
	t.Helper()
	f.exec(t, `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$`)
	f.exec(t, fmt.Sprintf(`CREATE TRIGGER poison AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION poison()`, table, condition))
	return func() { f.exec(t, `DROP FUNCTION poison() CASCADE`) }
}

// oneFails fails the test unless it was this one alone, and by the poison.
func oneFails(t *testing.T, errs []error, i int) {
	t.Helper()
	for j, err := range errs {
		if (err != nil) != (i == j) || err != nil && !strings.Contains(err.Error(), "poison") {
			t.Errorf("%d: %v; the poison is in %d", j, err, i)
		}
	}
}

// I1, I3: of a hundred charges that share each transaction of their way, one is poison each time: it alone fails, nothing of it is left, and without
// the poison it goes on where it was.
func TestI1I3PoisonInAHundred(t *testing.T) {
	t.Parallel()
	const n, bad = 100, 41
	f := newFixture(t, Options{})
	ids := f.createMany(t, n)
	c := f.shareAll(n)
	is := fmt.Sprintf("NEW.charge_id = '%s'", ids[bad])
	want := func(step string, counts map[string]int) {
		t.Helper()
		for sql, want := range counts {
			if got := f.count(t, sql); got != want {
				t.Errorf("%s: %s: %d, want %d", step, sql, got, want)
			}
			if got := f.count(t, sql+` AND `+strings.ReplaceAll(is, "NEW.", "")); want == n-1 && got != 0 {
				t.Errorf("%s: %s: something of the poisoned one is left", step, sql)
			}
		}
	}

	begun := make([]Begun, n)
	begin := func(i int) (err error) { begun[i], err = f.Begin(t.Context(), ids[i], f.here(true)); return err }
	cure := f.poison(t, "charge_event", is+" AND NEW.to_status = 'processing'")
	oneFails(t, c.do(t, n, begin), bad)
	want("begin", map[string]int{
		`SELECT count(*) FROM attempt WHERE true`:                                                            n - 1,
		`SELECT count(*) FROM charge_event WHERE type = 'charge.processing'`:                                 n - 1,
		`SELECT count(DISTINCT charge_id) FROM attempt WHERE outcome IS NULL`:                                n - 1,
		`SELECT count(*) FROM (SELECT id AS charge_id FROM charge WHERE status = 'processing') c WHERE true`: n - 1,
	})
	if begun[bad].Action != "" {
		t.Errorf("the poisoned one is told to %s", begun[bad].Action)
	}
	cure()
	if err := begin(bad); err != nil {
		t.Fatal(err)
	}
	for i, b := range begun {
		if b.Action != Send || b.Attempt.ChargeID != ids[i] || b.Charge.ID != ids[i] || b.Attempt.Number != 1 {
			t.Fatalf("%d: %s is told %q of %s", i, ids[i], b.Action, b.Attempt.ChargeID)
		}
	}

	settle := func(i int) error {
		_, err := f.Settle(t.Context(), begun[i].Attempt, answered("succeeded", "pi_"+ids[i].String()))
		return err
	}
	cure = f.poison(t, "receipt", is)
	oneFails(t, c.do(t, n, settle), bad)
	want("settle", map[string]int{
		`SELECT count(*) FROM attempt WHERE outcome = 'answered'`:                                                                                  n - 1,
		`SELECT count(*) FROM payment WHERE id = 'pi_' || charge_id::text`:                                                                         n - 1,
		`SELECT count(*) FROM charge_event WHERE type = 'charge.succeeded'`:                                                                        n - 1,
		`SELECT count(*) FROM receipt WHERE status = 'pending'`:                                                                                    n - 1,
		`SELECT count(*) FROM (SELECT (args ->> 'charge_id')::uuid AS charge_id FROM river_job WHERE kind = 'receipt_send') j WHERE true`:          n - 1,
		`SELECT count(*) FROM (SELECT id AS charge_id FROM charge WHERE status = 'succeeded' AND payment_intent = 'pi_' || id::text) c WHERE true`: n - 1,
	})
	cure()
	if err := settle(bad); err != nil {
		t.Fatal(err)
	}

	claims := make([]ReceiptClaim, n)
	claim := func(i int) (err error) { claims[i], err = f.ClaimReceipt(t.Context(), ids[i]); return err }
	cure = f.poison(t, "receipt", is)
	oneFails(t, c.do(t, n, claim), bad)
	want("claim", map[string]int{`SELECT count(*) FROM receipt WHERE status = 'sending' AND claim_id IS NOT NULL`: n - 1})
	cure()
	if err := claim(bad); err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if !c.Send || c.Charge.ID != ids[i] {
			t.Fatalf("%d: %s claims %t the receipt of %s", i, ids[i], c.Send, c.Charge.ID)
		}
	}

	mail := func(i int) error {
		_, err := f.SettleReceipt(t.Context(), ids[i], claims[i].ID, ReceiptResult{Status: ReceiptSent, MessageID: ids[i].String()})
		return err
	}
	cure = f.poison(t, "receipt", is)
	oneFails(t, c.do(t, n, mail), bad)
	want("mail", map[string]int{`SELECT count(*) FROM receipt WHERE status = 'sent' AND message_id = charge_id::text`: n - 1})
	cure()
	if err := mail(bad); err != nil {
		t.Fatal(err)
	}
	want("end", map[string]int{`SELECT count(*) FROM receipt WHERE status = 'sent' AND message_id = charge_id::text`: n})
}

// I2: two jobs of each charge ask at once, in one process, whose batch must not let both through, and in two: one of them may send.
func TestI2TwoJobsOfOneCharge(t *testing.T) {
	t.Parallel()
	const n = 20
	f := newFixture(t, Options{})
	ids := f.createMany(t, n)
	c := f.shareAll(2 * n)
	other := *f
	other.Service = New(f.pool, f.box, Options{})
	errs := make(chan error, n)
	for _, id := range ids {
		go func() {
			_, err := other.Begin(t.Context(), id, f.here(true))
			errs <- err
		}()
	}
	begun := make([]Begun, 2*n)
	for i, err := range c.do(t, 2*n, func(i int) (err error) {
		begun[i], err = f.Begin(t.Context(), ids[i%n], f.here(true))
		return err
	}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		if b := begun[i]; b.Charge.ID != ids[i%n] || b.Action != Send && b.Action != WaitFor {
			t.Errorf("%d: %q for %s", i, b.Action, b.Charge.ID)
		}
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if all, distinct := f.count(t, `SELECT count(*) FROM attempt`), f.count(t, `SELECT count(DISTINCT charge_id) FROM attempt`); all != n || distinct != n {
		t.Errorf("%d attempts for %d of %d charges", all, distinct, n)
	}
}

// heldBound is how long others' locks may hold up a charge that does not wait for them: the hurried waits of a hundred that are taken apart.
const heldBound = 2 * time.Second

// I3: charges whose rows another transaction keeps locked do not hold up those that they come with, nor those that come after them, and
// go on when they are let go.
func TestI3LockedChargesHoldUpNobody(t *testing.T) {
	t.Parallel()
	const n, held = 60, 3
	f := newFixture(t, Options{})
	ids := f.createMany(t, n+1)
	lock, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.WithoutCancel(t.Context()))
	if _, err := lock.Exec(t.Context(), `SELECT FROM charge WHERE id = ANY ($1) FOR UPDATE`, append([]uuid.UUID{ids[n]}, ids[:held]...)); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, n)
	begin := func(i int) error {
		b, err := f.Begin(t.Context(), ids[i], f.here(true))
		if err == nil && b.Action != Send {
			err = errors.New(string(b.Action))
		}
		return err
	}
	go func() { waits <- begin(n) }() // alone
	time.Sleep(20 * time.Millisecond) // so that it is: what follows comes while it waits
	began, free := time.Now(), make(chan error, n)
	for i := range n {
		go func() {
			if i < held {
				waits <- begin(i)
			} else {
				free <- begin(i)
			}
		}()
	}
	for range n - held {
		if err := <-free; err != nil {
			t.Error(err)
		}
	}
	took := time.Since(began)
	if t.Logf("the others took %s", took); took > 3*heldBound {
		t.Errorf("the others were held up for %s", took)
	}
	if len(waits) > 0 {
		t.Fatalf("a locked one has gone on: %v", <-waits)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range held + 1 {
		if err := <-waits; err != nil {
			t.Error(err)
		}
	}
}
