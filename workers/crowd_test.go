package workers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// I2, I3, I5: two workers take a crowd of charges, each of which has two jobs, and one of which PostgreSQL does not let through. The others are paid and mailed
// once each, and so is that one when it is let through.
func TestI2I5CrowdWithTwoWorkers(t *testing.T) {
	t.Parallel()
	const n, bad = 60, 31
	var mu sync.Mutex
	shared := map[string]int{} // the largest batch
	o := charges.Options{Runs: 1, Observe: func(name string, members int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		shared[name] = max(shared[name], members)
	}}
	r := newRig(t, o)
	ids := make([]uuid.UUID, n)
	var again []outbox.Entry
	for i := range ids {
		ids[i] = r.create(mailed)
		again = append(again, outbox.Entry{Kind: outbox.KindCharge, ChargeID: ids[i]})
	}
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.box.Enqueue(t.Context(), tx, again); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.exec(`CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$`)
	r.exec(fmt.Sprintf(`CREATE TRIGGER poison AFTER INSERT ON attempt FOR EACH ROW WHEN (NEW.charge_id = '%s') EXECUTE FUNCTION poison()`, ids[bad]))
	r.start()
	other, _ := r.on(r.pool, o).launch("sk_test_home", r.url)
	t.Cleanup(func() {
		if err := other.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	sent := func() int { return r.count(`SELECT count(*) FROM receipt WHERE status = 'sent'`) }
	r.await("all but one are mailed", func() bool { return sent() == n-1 })
	if got := r.get(ids[bad]).Status; got != charges.Pending || len(r.payments(ids[bad])) != 0 {
		t.Errorf("the poisoned one is %s, with %d payments", got, len(r.payments(ids[bad])))
	}
	r.exec(`DROP FUNCTION poison() CASCADE`)
	r.await("the last is mailed", func() bool { return sent() == n })
	for _, id := range ids {
		r.wantPayments(id, 1)
	}
	mails := map[string]int{}
	for _, m := range r.sandbox.Ledger().Mails {
		mails[m.CustomArgs["oncepay_charge"]]++
	}
	for _, id := range ids {
		if mails[id.String()] != 1 {
			t.Errorf("%d mails for charge %s", mails[id.String()], id)
		}
	}
	if got, posts := r.count(`SELECT count(*) FROM attempt`), len(r.posts()); got != n || posts != n {
		t.Errorf("%d attempts and %d calls for %d charges", got, posts, n)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"attempt.begin", "attempt.settle"} {
		if shared[name] < 2 {
			t.Errorf("%s was never shared", name)
		}
	}
	t.Log(shared)
}
