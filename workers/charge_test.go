package workers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// A charge is paid once under the caller's own key, and its buyer gets one receipt with the amount as people write it.
func TestPaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	yen := func(q *charges.Request) { q.Amount, q.Currency = 500, "jpy" }
	id := r.create(mailed, yen)
	c := r.awaitStatus(id, charges.Succeeded)
	r.awaitReceipt(id, charges.ReceiptSent)

	ledger := r.sandbox.Ledger()
	if len(ledger.PaymentIntents) != 1 || len(ledger.Mails) != 1 {
		t.Fatalf("%d payments, %d mails", len(ledger.PaymentIntents), len(ledger.Mails))
	}
	p, m, key := ledger.PaymentIntents[0], ledger.Mails[0], c.IdempotencyKey.String()
	if p.IdempotencyKey != key || p.Metadata["oncepay_key"] != key || p.Amount != 500 || p.Currency != "jpy" || *c.PaymentIntent != p.ID {
		t.Errorf("payment %+v of charge %+v", p, c)
	}
	if m.To != "buyer@example.com" || m.IdempotencyKey != key || !strings.Contains(m.Text, "¥500") || !strings.Contains(m.HTML, "¥500") {
		t.Errorf("mail %+v", m)
	}
	r.unburned()
}

// Declines are final, made in one call, and say what may help.
func TestDeclined(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	for _, tc := range []struct {
		pm, code, decline string
		advice            charges.Advice
	}{
		{"pm_card_chargeDeclinedStolenCard", "card_declined", "stolen_card", charges.DoNotRetry},
		{"pm_card_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds", ""},
		{"pm_sandbox_declined_do_not_try_again", "card_declined", "do_not_try_again", charges.DoNotRetry},
		{"pm_sandbox_declined_never_heard_of", "card_declined", "never_heard_of", charges.NewPaymentMethod},
	} {
		id := r.create(card(tc.pm), mailed)
		c := r.awaitStatus(id, charges.Failed)
		f := c.Failure
		if f.Code != tc.code || f.DeclineCode == nil || *f.DeclineCode != tc.decline || tc.advice != "" && f.Advice != tc.advice || f.Advice == "" {
			t.Errorf("%s: %+v", tc.pm, f)
		}
		if c.Receipt != nil {
			t.Errorf("%s: a receipt is due", tc.pm)
		}
		r.wantPayments(id, 1)
	}
	if n := len(r.posts()); n != 4 {
		t.Errorf("%d calls for four declines", n)
	}
}

// What Stripe refuses although we accepted it fails the charge with Stripe's code, in one call and without a receipt.
func TestRefusedByStripe(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	id := r.create(mailed, func(q *charges.Request) { q.Amount = 1 })
	if c := r.awaitStatus(id, charges.Failed); c.Failure.Code != "amount_too_small" || c.Receipt != nil {
		t.Errorf("%+v", c)
	}
	r.wantPayments(id, 0)
	if n := len(r.posts()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// States in which the next word is the buyer's, the caller's or the bank's are shown as they are, with no receipt.
func TestWaitsAtStripe(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	action := r.create(mailed, card("pm_card_authenticationRequired"), func(q *charges.Request) { q.ReturnURL = "https://shop.example/back" })
	capture := r.create(mailed, func(q *charges.Request) { q.CaptureMethod = charges.CaptureManual })
	debit := r.create(mailed, card("pm_usBankAccount"))
	r.awaitStatus(action, charges.RequiresAction)
	r.awaitStatus(capture, charges.RequiresCapture)
	r.await("the bank debit's payment", func() bool { return r.get(debit).PaymentIntent != nil })
	if c := r.get(debit); c.Status != charges.Processing {
		t.Errorf("bank debit: %s", c.Status)
	}
	r.await("the jobs to end", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND state <> 'completed'`) == 0
	})
	if n := r.count(`SELECT count(*) FROM river_job WHERE kind = 'payment_follow'`); n != 3 {
		t.Errorf("%d payments are followed, want 3", n)
	}
	if n := r.count(`SELECT count(*) FROM receipt`); n != 0 {
		t.Errorf("%d receipts", n)
	}
	report, err := r.box.Preview(t.Context(), r.charges, outbox.Filter{})
	if err != nil || report.Counts[outbox.Live] != 3 || report.Enqueued != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// I2: however an answer is lost, the same key and the same bytes go again, and one payment is made.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault sandbox.Fault
	}{
		{"connection closed before", sandbox.Fault{Kind: sandbox.DropBefore}},
		{"connection closed after", sandbox.Fault{Kind: sandbox.DropAfter}},
		{"half an answer", sandbox.Fault{Kind: sandbox.Truncate}},
		{"a page of HTML", sandbox.Fault{Kind: sandbox.HTML}},
		{"500", sandbox.Fault{Kind: sandbox.Status, Status: 500}},
		{"503", sandbox.Fault{Kind: sandbox.Status, Status: 503}},
		{"after our timeout", sandbox.Fault{Kind: sandbox.Delay, DelayMS: 6000}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			r.fail(onCreate(tc.fault, 2))
			r.start()
			id := r.create(mailed)
			r.awaitStatus(id, charges.Succeeded)
			r.awaitReceipt(id, charges.ReceiptSent)
			r.wantPayments(id, 1)
			keys := r.posts()
			if len(keys) < 3 || len(slices.Compact(keys)) != 1 {
				t.Errorf("keys %v: want at least three calls under one key", keys)
			}
			if n := r.count(`SELECT count(DISTINCT request) FROM attempt`); n != 1 {
				t.Errorf("%d different requests were sent", n)
			}
			if n := len(r.sandbox.Ledger().Mails); n != 1 {
				t.Errorf("%d mails", n)
			}
			r.unburned()
		})
	}
}

// Answers that ask for patience are given it: the charge stays on its way, and none of River's attempts is used up.
func TestToldToWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault sandbox.Fault
	}{
		{"lock timeout", sandbox.Fault{Kind: sandbox.Status, Status: 429, Code: "lock_timeout"}},
		{"rate limit", sandbox.Fault{Kind: sandbox.Status, Status: 429, Code: "rate_limit", RetryAfter: 2}},
		{"key in use", sandbox.Fault{Kind: sandbox.Status, Status: 409, Code: "idempotency_key_in_use"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			r.fail(onCreate(tc.fault, 3))
			r.start()
			id := r.create()
			r.awaitStatus(id, charges.Succeeded)
			r.wantPayments(id, 1)
			if n := r.count(`SELECT count(*) FROM attempt WHERE outcome = 'refused'`); n != 3 {
				t.Errorf("%d refused attempts, want 3", n)
			}
			if n := r.count(`SELECT count(*) FROM charge_event WHERE to_status NOT IN ('pending', 'processing', 'succeeded')`); n != 0 {
				t.Error("the charge looked otherwise in between")
			}
			r.unburned()
		})
	}
}

// I6: while our secret key is refused nothing fails and nothing is used up; the worker says why it is not ready, and goes on
// by itself.
func TestBrokenCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(sandbox.Fault{Path: "/v1/*", Kind: sandbox.Status, Status: 401, Times: sandbox.Forever})
	r.start()
	id := r.create()
	r.await("the worker to say why", func() bool {
		err := r.workers.Ready()
		return err != nil && strings.Contains(err.Error(), "401")
	})
	if n := len(r.posts()); n != 0 {
		t.Errorf("%d payments were asked for with a key that is refused", n)
	}
	if c := r.get(id); c.Status != charges.Pending {
		t.Errorf("the charge is %s", c.Status)
	}
	r.sandbox.ClearFaults()
	r.awaitStatus(id, charges.Succeeded)
	if err := r.workers.Ready(); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
	r.unburned()
}

// A charge that alone is forbidden among good ones waits for a person; the others go through.
func TestForbiddenAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	bad, good := r.create(), r.create()
	f := onCreate(sandbox.Fault{Kind: sandbox.Status, Status: 403}, sandbox.Forever)
	f.IdempotencyKey = r.get(bad).IdempotencyKey.String()
	r.fail(f)
	r.start()
	r.awaitStatus(good, charges.Succeeded)
	if c := r.awaitStatus(bad, charges.NeedsReview); c.Review.Reason != "forbidden" {
		t.Errorf("%+v", c.Review)
	}
	r.wantPayments(bad, 0)
}

// A failure that Stripe stored under the key is looked up: what was made is adopted, and where nothing was made a person decides.
func TestStoredFailure(t *testing.T) {
	t.Parallel()
	quick := charges.Options{Policy: charges.Policy{Window: 23 * time.Hour, LookDelays: []time.Duration{0, 100 * time.Millisecond}}}
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, quick)
			r.fail(onCreate(sandbox.Fault{Kind: sandbox.StoredStatus, Status: 500, Done: done}, 1))
			r.start()
			id := r.create()
			if done {
				r.awaitStatus(id, charges.Succeeded)
				r.wantPayments(id, 1)
				return
			}
			if c := r.awaitStatus(id, charges.NeedsReview); c.Review.Reason != "stored_failure" {
				t.Errorf("%+v", c.Review)
			}
			r.wantPayments(id, 0)
			if n := r.count(`SELECT count(*) FROM look WHERE complete`); n < 1 || n > 2 { // one serves all delays that have passed
				t.Errorf("%d looks, want one for each delay at most", n)
			}
		})
	}
}

// With rekey, one new key is recorded after the last look, and carries the same bytes.
func TestStoredFailureRekeyed(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{Policy: charges.Policy{Window: 23 * time.Hour, LookDelays: []time.Duration{0}, Rekey: true}})
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.StoredStatus, Status: 500}, 1))
	r.start()
	id := r.create()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
	if keys := r.posts(); len(slices.Compact(keys)) != 2 {
		t.Errorf("keys %v", keys)
	}
	if n := r.count(`SELECT count(DISTINCT request) FROM attempt`); n != 1 {
		t.Errorf("%d different requests", n)
	}
}

// A refusal that is stored nowhere does not fail a charge whose first answer was lost: it is looked up and adopted.
func TestInvalidAfterLostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.DropAfter}, 1))
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.Status, Status: 400, Code: "payment_method_detached"}, 1))
	r.start()
	id := r.create()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
	if n := r.count(`SELECT count(*) FROM charge_event WHERE to_status = 'failed'`); n != 0 {
		t.Error("it was failed in between")
	}
}

// A key that Stripe knows for another request is for a person: never again, and never under a new key.
func TestIdempotencyError(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.create()
	r.foreign(r.get(id).IdempotencyKey.String())
	r.start()
	if c := r.awaitStatus(id, charges.NeedsReview); c.Review.Reason != "idempotency_error" {
		t.Errorf("%+v", c.Review)
	}
	if n := len(r.posts()); n != 2 { // the foreign one and ours
		t.Errorf("%d calls", n)
	}
}

// foreign makes a payment at Stripe that is not ours.
func (r *rig) foreign(key string) { r.t.Helper(); r.foreignOf("", key) }

func (r *rig) foreignOf(customer, key string) {
	r.t.Helper()
	form := "amount=4200&currency=eur&payment_method=pm_card_visa&confirm=true&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never"
	if customer != "" {
		form += "&customer=" + customer
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.url+"/v1/payment_intents", strings.NewReader(form))
	if err != nil {
		r.t.Fatal(err)
	}
	req.SetBasicAuth("sk_test_home", "")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("foreign payment: %s", res.Status)
	}
}

// lostThenAway makes a charge whose answers are all lost, and leaves it to 25 h without a worker.
func (r *rig) lostThenAway(f sandbox.Fault, others int, change ...func(*charges.Request)) uuid.UUID {
	r.t.Helper()
	r.fail(onCreate(f, sandbox.Forever))
	r.start()
	id := r.create(change...)
	r.await("a first attempt", func() bool { return r.count(`SELECT count(*) FROM attempt WHERE outcome IS NOT NULL`) > 0 })
	r.stop()
	r.sandbox.ClearFaults()
	for range others {
		r.foreign(uuid.NewString())
	}
	r.away(25 * time.Hour)
	return id
}

// away lets Stripe's time go by.
func (r *rig) away(d time.Duration) {
	r.t.Helper()
	if err := r.sandbox.Advance(d); err != nil {
		r.t.Fatal(err)
	}
}

// I2: Stripe has forgotten the key and 250 other payments were made meanwhile: ours is found among them and adopted, also when
// a page of the list fails at first, and when replay is pressed.
func TestAdoptedPastTheWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 250)
	r.fail(sandbox.Fault{Method: "GET", Path: "/v1/payment_intents", Kind: sandbox.Truncate, Times: 1})
	before := len(r.posts())
	r.start()
	if _, err := r.box.Replay(t.Context(), r.charges, outbox.Filter{}, "operator:test", nil); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
	if after := len(r.posts()); after != before {
		t.Errorf("%d payments were asked for past the window", after-before)
	}
	if n := r.count(`SELECT count(*) FROM look WHERE complete AND seen > 250`); n != 1 {
		t.Errorf("%d complete looks over all pages, want 1", n)
	}
	cut := 0
	for _, q := range r.sandbox.Ledger().Requests {
		if q.Fault == sandbox.Truncate {
			cut++
		}
	}
	if cut != 1 {
		t.Errorf("%d pages were cut short, want 1", cut)
	}
}

// I2, I3: past the window and nothing was made: a complete look allows one more send.
func TestSentPastTheWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropBefore}, 3)
	r.start()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
	if n := r.count(`SELECT count(*) FROM attempt WHERE outcome = 'absent'`); n == 0 {
		t.Error("the look did not close what it had settled")
	}
}

// I2: Stripe's clock jumps while a worker is at it: the age is judged by a clock that was read for the purpose.
func TestClockJumpsUnderTheWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.DropAfter}, 1))
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.DropBefore}, sandbox.Forever))
	r.start()
	id := r.create()
	r.await("a lost answer", func() bool { return r.count(`SELECT count(*) FROM attempt WHERE outcome IS NOT NULL`) > 0 })
	if err := r.sandbox.Advance(25 * time.Hour); err != nil {
		t.Fatal(err)
	}
	r.sandbox.ClearFaults()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
}

// I2: attempts at another Stripe account are neither repeated here nor looked up here.
func TestSecretKeyOfAnotherAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.lostThenAway(sandbox.Fault{Kind: sandbox.DropAfter}, 0)
	before := len(r.posts())
	r.start("sk_test_other")
	fine := r.create()
	r.awaitStatus(fine, charges.Succeeded)
	r.await("the job to have been put off", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE args ->> 'charge_id' = $1 AND state = 'scheduled' AND scheduled_at > now() + interval '5 seconds'`, id.String()) == 1
	})
	r.stop()
	if got := len(r.posts()); got != before+1 {
		t.Errorf("%d payments were asked for, want the other charge's alone", got-before)
	}
	if n := r.count(`SELECT count(*) FROM look`); n != 0 {
		t.Errorf("%d looks at the wrong account", n)
	}
	r.start("sk_test_home_rolled")
	if _, err := r.pool.Exec(t.Context(), `UPDATE river_job SET scheduled_at = now() WHERE state = 'scheduled'`); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
}

// Stopping lets a call in flight end, and saves what came of it.
func TestStopSavesTheCallInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.Delay, DelayMS: 2000}, 1))
	r.start()
	id := r.create()
	r.await("the call", func() bool { return len(r.posts()) == 1 })
	r.stop()
	if c := r.get(id); c.Status != charges.Succeeded {
		t.Errorf("after the stop the charge is %s", c.Status)
	}
	if n := r.count(`SELECT count(*) FROM attempt`); n != 1 {
		t.Errorf("%d attempts", n)
	}
	r.unburned()
}

// I3: a charge whose job is gone is given another by the sweep.
func TestSweptUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.create()
	if _, err := r.pool.Exec(t.Context(), `DELETE FROM river_job`); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
}

// I2: Stripe's clock was set just before an attempt, which is dated by the old one: its payment is found all the same
// when another day has passed and its key is forgotten.
func TestClockJumpsBeforeTheAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	r.awaitStatus(r.create(), charges.Succeeded)
	if err := r.sandbox.Advance(25 * time.Hour); err != nil {
		t.Fatal(err)
	}
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.DropAfter}, sandbox.Forever))
	id := r.create()
	r.await("an attempt", func() bool { return r.count(`SELECT count(*) FROM attempt WHERE outcome = 'unknown'`) > 0 })
	r.stop()
	r.sandbox.ClearFaults()
	if err := r.sandbox.Advance(25 * time.Hour); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
}

// I6: waiting charges are taken up at once when a worker starts, and a job that is cancelled while it reads the account does not
// stop the others.
func TestStartsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	id := r.create()
	r.start()
	if _, _, err := r.workers.probe.State(); err != nil {
		t.Errorf("the workers started without knowing their account: %v", err)
	}
	r.awaitStatus(id, charges.Succeeded)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.workers.probe.here(gone, true); err != nil {
		t.Errorf("a cancelled job's reading: %v", err)
	}
	if err := r.workers.Ready(); err != nil {
		t.Error(err)
	}
}

// I2: a database restored from a backup does not know what was sent since. What Stripe may have forgotten by now is looked for.
func TestRestoredFromBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	sent := r.create()
	r.awaitStatus(sent, charges.Succeeded)
	r.stop()
	never := r.create()
	// Back to before the send, a day later by both clocks.
	for _, sql := range []string{
		`DELETE FROM attempt`, `DELETE FROM river_job`,
		`UPDATE charge SET status = 'pending', payment_intent = NULL, created_at = created_at - interval '25 hours'`,
	} {
		if _, err := r.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sandbox.Advance(25 * time.Hour); err != nil {
		t.Fatal(err)
	}
	r.start()
	for _, id := range []uuid.UUID{sent, never} {
		r.awaitStatus(id, charges.Succeeded)
		r.wantPayments(id, 1)
	}
	if n := len(r.posts()); n != 2 {
		t.Errorf("%d payments were asked for, want one each", n)
	}
}
