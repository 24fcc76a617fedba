package workers

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe"
)

// looker is a worker of its own that does one look at a time, with so many pages before its pace outlasts the look.
type looker struct {
	*chargeWorker
	r *rig
}

func (r *rig) looker(pages int, key ...string) looker {
	r.t.Helper()
	secret := "sk_test_home"
	if len(key) > 0 {
		secret = key[0]
	}
	gateway, err := stripe.New(stripe.Config{SecretKey: secret, BaseURL: r.url})
	if err != nil {
		r.t.Fatal(err)
	}
	log := r.logger()
	w := &chargeWorker{charges: r.charges, gateway: gateway, probe: NewProbe(gateway, log), pace: NewPace(float64(pages)), log: log}
	w.pace.bucket.SetLimit(1e-6)
	return looker{w, r}
}

func (l looker) begin(id uuid.UUID, want charges.Action) charges.Begun {
	l.r.t.Helper()
	here, err := l.probe.here(l.r.t.Context(), true)
	if err != nil {
		l.r.t.Fatal(err)
	}
	begun, err := l.charges.Begin(l.r.t.Context(), id, here)
	if err != nil || begun.Action != want {
		l.r.t.Fatalf("%q, want %q, %v (%+v)", begun.Action, want, err, begun.Permit)
	}
	return begun
}

func (l looker) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.r.t.Context(), 5*time.Second)
}

// take takes the reading that a charge's look needs.
func (l looker) take(begun charges.Begun, want charges.Turn) charges.Hold {
	l.r.t.Helper()
	hold, turn, err := l.charges.TakeReading(l.r.t.Context(), begun)
	if err != nil || turn != want {
		l.r.t.Fatalf("turn %q, want %q, %v", turn, want, err)
	}
	return hold
}

// read reads on until there is no more, or no more pages are allowed.
func (l looker) read(hold *charges.Hold) error {
	l.r.t.Helper()
	ctx, cancel := l.bounded()
	defer cancel()
	stopped, err := l.chargeWorker.read(ctx, hold)
	if err != nil {
		l.r.t.Fatal(err)
	}
	return stopped
}

// I3: a customer's list that is too long for one look is read to its end by several, each from where the one before was cut short.
func TestLookGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	customer := func(q *charges.Request) { q.Customer = "cus_sandbox" }
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 0, customer)
	for range 250 {
		r.foreignOf("cus_sandbox", uuid.NewString())
	}
	r.away(25 * time.Hour)
	look := func(pages int) (charges.Begun, charges.Look) {
		t.Helper()
		w := r.looker(pages)
		begun := w.begin(id, charges.LookFirst)
		ctx, cancel := w.bounded()
		defer cancel()
		l, ours := w.readAround(ctx, begun)
		if err := r.charges.Looked(t.Context(), id, begun.Permit, begun.Here, l, ours); err != nil {
			t.Fatal(err)
		}
		return begun, l
	}
	_, first := look(1)
	if first.Complete || first.Seen != 100 || first.Error == "" {
		t.Fatalf("%+v", first)
	}
	begun, second := look(1)
	if begun.Resume.Seen != 100 || second.Complete || second.Seen != 200 {
		t.Fatalf("resumed %+v, then %+v", begun.Resume, second)
	}
	_, last := look(5)
	if !last.Complete || last.Seen < 251 || len(last.Found) != 1 {
		t.Fatalf("%+v", last)
	}
	if c := r.get(id); c.Status != charges.Succeeded {
		t.Errorf("status %s", c.Status)
	}
	if n := r.count(`SELECT count(*) FROM look`); n != 1 {
		t.Errorf("%d rows for one look", n)
	}
	r.wantPayments(id, 1)
}
