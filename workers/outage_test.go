package workers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe"
)

func (r *rig) health(p outbox.Provider) outbox.Health {
	r.t.Helper()
	h, err := r.box.Health(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// awaitOutage waits until nobody calls the provider any more, after so many trials at least.
func (r *rig) awaitOutage(p outbox.Provider, kind outbox.Outage, trials int) {
	r.t.Helper()
	r.await(fmt.Sprintf("an outage of %s", p), func() bool {
		h := r.health(p)
		return h.Outage == kind && h.Stopped() && h.FailedTrials >= trials
	})
}

// createMany makes n charges, in few transactions.
func (r *rig) createMany(n int, change ...func(*charges.Request)) []uuid.UUID {
	r.t.Helper()
	request := charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", CaptureMethod: charges.CaptureAutomatic}
	for _, c := range change {
		c(&request)
	}
	ids := make([]uuid.UUID, n)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			a := r.charges.Create(r.t.Context(), charges.CreateCharge{Caller: "shop", Key: uuid.New(), Request: request})
			if a.Err != nil {
				r.t.Error(a.Err)
			}
			ids[i] = a.ChargeID
		})
	}
	all.Wait()
	if r.t.Failed() {
		r.t.FailNow()
	}
	return ids
}

// awaitAllPaid waits until every charge is paid, and fails the test unless Stripe holds one payment for each.
func (r *rig) awaitAllPaid() {
	r.t.Helper()
	r.await("all to be paid", func() bool { return r.count(`SELECT count(*) FROM charge WHERE status <> 'succeeded'`) == 0 })
	paid := map[string]int{}
	for _, p := range r.sandbox.Ledger().PaymentIntents {
		paid[p.IdempotencyKey]++
	}
	if all := r.count(`SELECT count(*) FROM charge`); len(paid) != all {
		r.t.Errorf("%d of %d charges have a payment", len(paid), all)
	}
	for key, n := range paid {
		if n != 1 {
			r.t.Errorf("%d payments under key %s", n, key)
		}
	}
}

// jobs are all jobs that call Stripe, as they are in River's table, but for the state of those whose time has come.
func (r *rig) jobs() (all string) {
	r.t.Helper()
	err := r.pool.QueryRow(r.t.Context(), `
		SELECT string_agg(concat_ws(' ', id, queue, attempt, scheduled_at, metadata, errors), E'\n' ORDER BY id)
		  FROM river_job WHERE kind = 'charge_send'`).Scan(&all)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// gauges are the present values of all metrics, by name and labels.
func (r *rig) gauges(registry *prometheus.Registry) map[string]float64 {
	r.t.Helper()
	families, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// I6: while Stripe is away, what waits is left alone: no attempt of ours or of River's, no snooze. It goes on by itself, and everything is paid
// once.
func TestI6StripeAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(sandbox.Fault{Path: "/v1/*", Kind: sandbox.DropBefore, Times: sandbox.Forever})
	r.createMany(300)
	before := r.jobs()
	r.start()
	r.awaitOutage(outbox.Stripe, outbox.Down, 1)
	if after := r.jobs(); after != before {
		t.Errorf("jobs were touched in the outage")
	}
	if n := r.count(`SELECT count(*) FROM attempt`); n != 0 || len(r.posts()) != 0 {
		t.Errorf("%d attempts and %d calls in the outage", n, len(r.posts()))
	}
	if err := r.workers.Ready(); err == nil || !strings.Contains(err.Error(), "stripe is down: ") || !strings.Contains(err.Error(), "(since 20") {
		t.Errorf("ready: %v", err)
	}
	r.sandbox.ClearFaults()
	r.awaitAllPaid()
	if err := r.workers.Ready(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n := r.count(`SELECT count(*) FROM attempt`); n != 300 {
		t.Errorf("%d attempts for 300 charges", n)
	}
	if n := r.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND (attempt <> 1 OR metadata ? 'snoozes')`); n != 0 {
		t.Errorf("%d jobs ran more than once", n)
	}
	r.unburned()
}

// I6: an outage of payments alone is one, although our account can be read: a few calls show it, and each trial costs one more.
func TestI6PaymentsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.rate = 20
	r.start()
	r.awaitStatus(r.create(), charges.Succeeded)
	r.await("its success to be known", func() bool {
		return r.count(`SELECT count(*) FROM provider WHERE name = 'stripe' AND succeeded_at IS NOT NULL`) == 1
	})
	r.exec(`UPDATE provider SET succeeded_at = now() - interval '1 minute'`)
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.Status, Status: 500}, sandbox.Forever))
	r.createMany(80)
	r.awaitOutage(outbox.Stripe, outbox.Down, 0)
	r.await("the calls in flight to end", func() bool { return r.count(`SELECT count(*) FROM attempt WHERE ended_at IS NULL`) == 0 })
	first := len(r.posts())
	settled := func(trials int) (calls int) { // once so many have failed
		r.awaitOutage(outbox.Stripe, outbox.Down, trials)
		r.await("the trial's calls to end", func() bool { return r.count(`SELECT count(*) FROM attempt WHERE ended_at IS NULL`) == 0 })
		return len(r.posts())
	}
	before := settled(1) // with those that had been let through before the outage was noticed, and were late
	trials := r.health(outbox.Stripe).FailedTrials
	n := settled(trials+1) - before
	if trials = r.health(outbox.Stripe).FailedTrials - trials; n < trials || n > trials+1 { // and perhaps one of the next
		t.Errorf("%d calls in %d trials", n, trials)
	}
	if first > 60 { // those that were in flight when the fifth had failed, with what this process had leased
		t.Errorf("%d calls until the outage was noticed", first)
	}
	r.sandbox.ClearFaults()
	r.awaitAllPaid()
	r.unburned()
}

// I6: a trial goes on at once after calls that say nothing of the provider. Each would hold it up for longer than a call can take, if their ends
// were not told.
func TestI6TrialGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(sandbox.Fault{Path: "/v1/*", Kind: sandbox.DropBefore, Times: sandbox.Forever})
	r.start()
	r.createMany(4)
	r.awaitOutage(outbox.Stripe, outbox.Down, 0)
	r.sandbox.ClearFaults()
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.Status, Status: 409}, 2))
	r.awaitAllPaid()
	if n := len(r.posts()); n != 6 {
		t.Errorf("%d calls for 4 charges, want 2 more", n)
	}
	r.unburned()
}

// I6: credentials that are refused at both providers are shown as such, and heal by themselves.
func TestI6Misconfigured(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(sandbox.Fault{Path: "/v3/mail/send", Kind: sandbox.Status, Status: 401, Times: sandbox.Forever})
	w, registry := r.launch("sk_test_home", r.url)
	r.workers = w
	r.createMany(12, mailed)
	r.awaitOutage(outbox.SendGrid, outbox.Misconfigured, 0)
	r.awaitAllPaid()
	r.exec(`UPDATE provider SET succeeded_at = now() - interval '1 minute'`)
	r.fail(sandbox.Fault{Path: "/v1/*", Kind: sandbox.Status, Status: 401, Times: sandbox.Forever})
	r.createMany(12, mailed)
	r.awaitOutage(outbox.Stripe, outbox.Misconfigured, 0)
	why := fmt.Sprint(w.Ready())
	for _, want := range []string{"stripe is misconfigured: stripe: HTTP 401", "sendgrid is misconfigured: sendgrid: HTTP 401"} {
		if !strings.Contains(why, want) {
			t.Errorf("it is not ready because %s; want %s", why, want)
		}
	}
	for _, p := range outbox.Providers {
		g := r.gauges(registry)
		if g["oncepay_provider_up "+string(p)] != 0 || g["oncepay_provider_outage_seconds misconfigured "+string(p)] <= 0 || g["oncepay_provider_outage_seconds down "+string(p)] != 0 {
			t.Errorf("%s: %v", p, g)
		}
	}
	if n := r.count(`SELECT count(*) FROM charge WHERE status IN ('failed', 'needs_review')`); n != 0 {
		t.Errorf("%d charges failed", n)
	}
	r.sandbox.ClearFaults()
	r.awaitAllPaid()
	r.await("the receipts", func() bool { return r.count(`SELECT count(*) FROM receipt WHERE status <> 'sent'`) == 0 })
	if n := len(r.sandbox.Ledger().Mails); n != 24 {
		t.Errorf("%d mails for 24 receipts", n)
	}
	r.await("it to be ready", func() bool { return w.Ready() == nil })
	r.await("the trial to be over", func() bool { return r.gauges(registry)["oncepay_provider_up stripe"] == 1 })
	r.unburned()
}

// I5, I6: while SendGrid is away charges are paid, receipts wait, and later each is mailed once.
func TestI6SendGridAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(onMail(sandbox.Fault{Kind: sandbox.Status, Status: 503}, sandbox.Forever))
	r.start()
	r.createMany(60, mailed)
	r.awaitOutage(outbox.SendGrid, outbox.Down, 0)
	r.awaitAllPaid()
	if n := r.count(`SELECT count(*) FROM river_job WHERE kind = 'receipt_send' AND attempt = 0`); n < 30 {
		t.Errorf("only %d of 60 receipts were left alone", n)
	}
	r.awaitOutage(outbox.SendGrid, outbox.Down, 1) // the mail of a trial tells
	r.sandbox.ClearFaults()
	r.await("the receipts", func() bool { return r.count(`SELECT count(*) FROM receipt WHERE status = 'sent'`) == 60 })
	if n := len(r.sandbox.Ledger().Mails); n != 60 {
		t.Errorf("%d mails for 60 receipts", n)
	}
	r.unburned()
}

// I5, I6: a SendGrid that takes mails and never answers costs one receipt a trial, however many workers there are.
func TestI6SendGridHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(onMail(sandbox.Fault{Kind: sandbox.DropBefore, DelayMS: 2000}, sandbox.Forever))
	r.start()
	other, _ := r.launch("sk_test_home", r.url)
	defer func() {
		if err := other.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	r.createMany(60, mailed)
	ended := func() (unknown int) {
		r.await("the mails in flight to end", func() bool { return r.count(`SELECT count(*) FROM receipt WHERE status = 'sending'`) == 0 })
		return r.count(`SELECT count(*) FROM receipt WHERE status = 'unknown'`)
	}
	r.awaitOutage(outbox.SendGrid, outbox.Down, 1) // by then those have come that were let through before the outage was noticed
	first := ended()
	r.awaitOutage(outbox.SendGrid, outbox.Down, 2)
	if n := ended() - first; n != 1 {
		t.Errorf("a trial has left %d receipts unknown", n)
	}
	r.unburned()
}

// I6: an operator's pause outlasts the provider's recovery and the workers that heard it, and burns nothing.
func TestI6OperatorsPause(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(sandbox.Fault{Path: "/v1/*", Kind: sandbox.DropBefore, Times: sandbox.Forever})
	r.start()
	r.awaitOutage(outbox.Stripe, outbox.Down, 0)
	if _, err := r.box.PauseProvider(t.Context(), outbox.Stripe, "operator:ada", "wrong prices"); err != nil {
		t.Fatal(err)
	}
	r.createMany(20)
	before := r.jobs()
	r.sandbox.ClearFaults()
	r.await("the trial to begin", func() bool { return r.health(outbox.Stripe).Trial() })
	r.stop()
	r.start()
	looked := r.count(`SELECT count(*) FROM river_job WHERE kind = 'provider_probe' AND state = 'completed'`)
	r.await("two more looks at the queues", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'provider_probe' AND state = 'completed'`) >= looked+2
	})
	if len(r.posts()) != 0 || r.jobs() != before {
		t.Errorf("%d calls, or jobs were touched", len(r.posts()))
	}
	if err := r.workers.Ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
	if notes, err := r.workers.Status(t.Context()); err != nil || !strings.Contains(fmt.Sprint(notes), "stripe is paused by operator:ada: wrong prices (since 20") {
		t.Errorf("notes %s, %v", notes, err)
	}
	if _, _, err := r.box.ResumeProvider(t.Context(), outbox.Stripe, "operator:ada", ""); err != nil {
		t.Fatal(err)
	}
	r.awaitAllPaid()
	r.unburned()
}

// I6: a worker whose own network is broken stops nobody else, and burns nothing.
func TestI6OneBrokenWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.exec(`CREATE TABLE stopped (at timestamptz DEFAULT now())`)
	r.exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO stopped DEFAULT VALUES; RETURN NEW; END'`)
	r.exec(`CREATE TRIGGER note AFTER UPDATE ON provider FOR EACH ROW WHEN (NEW.outage IS NOT NULL) EXECUTE FUNCTION note()`)
	r.start()
	r.awaitStatus(r.create(), charges.Succeeded)
	r.await("the others to hear of it", func() bool { h := r.health(outbox.Stripe); return h.Now.Sub(h.SucceededAt) < time.Minute })
	broken, _ := r.launch("sk_test_home", "http://127.0.0.1:1")
	defer func() {
		if err := broken.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := broken.Ready(); err == nil || !strings.Contains(err.Error(), "as this worker alone sees it") {
		t.Errorf("the broken one: %v", err)
	}
	first := r.createMany(60)
	// There is always something to do, so that the others are heard of.
	for r.count(`SELECT count(*) FROM charge WHERE status <> 'succeeded' AND id = ANY($1)`, first) > 0 {
		r.exec(`UPDATE provider SET succeeded_at = now()`) // however slow this machine is
		r.create()
		tick := time.NewTimer(100 * time.Millisecond)
		<-tick.C
		if r.count(`SELECT count(*) FROM charge`) > 900 {
			t.Fatal("charges are not paid")
		}
	}
	r.awaitAllPaid()
	if n := r.count(`SELECT count(*) FROM stopped`); n != 0 {
		t.Errorf("all were stopped %d times", n)
	}
	if n := r.count(`SELECT coalesce(sum((metadata ->> 'snoozes')::int), 0) FROM river_job`); n > 48 { // what it had taken before it knew
		t.Errorf("%d snoozes", n)
	}
	r.unburned()
}

// The kinds of evidence, and what says nothing.
func TestOutageOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]outbox.Outage{
		&stripe.Error{HTTPStatus: http.StatusUnauthorized}: outbox.Misconfigured,
		&stripe.Error{HTTPStatus: http.StatusForbidden}:    outbox.Misconfigured,
		&stripe.Error{HTTPStatus: 500}:                     outbox.Down,
		errors.New("no route to host"):                     outbox.Down,
	} {
		if got := outageOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
