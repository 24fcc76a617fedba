package workers

import (
	"context"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe"
)

// I3: a list that is too long for one look is read to its end by several, each from where the one before was cut short.
func TestLookGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 250)
	gateway, err := stripe.New(stripe.Config{SecretKey: "sk_test_home", BaseURL: r.url})
	if err != nil {
		t.Fatal(err)
	}
	log := r.logger()
	probe := NewProbe(gateway, log)
	look := func(pages int) (charges.Begun, charges.Look) {
		t.Helper()
		here, err := probe.here(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		begun, err := r.charges.Begin(t.Context(), id, here)
		if err != nil || begun.Action != charges.LookFirst {
			t.Fatalf("%q, %v", begun.Action, err)
		}
		w := &chargeWorker{charges: r.charges, gateway: gateway, probe: probe, pace: NewPace(float64(pages)), log: log}
		// So many pages, and then a pace that outlasts the look.
		w.pace.bucket.SetLimit(1e-6)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
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
