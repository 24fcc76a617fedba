package workers

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// followRig asks Stripe about waiting payments all the time. No webhook comes in any of these tests.
func followRig(t *testing.T, actionTTL time.Duration) *rig {
	t.Helper()
	r := newRig(t, charges.Options{})
	r.follow, r.actionTTL = 200*time.Millisecond, actionTTL
	r.start()
	return r
}

// waiting is a charge whose buyer must authenticate, and its payment.
func (r *rig) waiting(change ...func(*charges.Request)) (id uuid.UUID, payment string) {
	r.t.Helper()
	id = r.create(append(change, card("pm_card_authenticationRequired"), mailed)...)
	return id, *r.awaitStatus(id, charges.RequiresAction).PaymentIntent
}

func (r *rig) authenticate(payment string, passed bool) {
	r.t.Helper()
	if err := r.sandbox.Authenticate(payment, passed); err != nil {
		r.t.Fatal(err)
	}
}

// onCancel is a fault for payments that are canceled, times over.
func onCancel(payment string, f sandbox.Fault, times int) sandbox.Fault {
	f.Method, f.Path, f.Times = "POST", "/v1/payment_intents/"+payment+"/cancel", times
	return f
}

// cancels are the requests to cancel a payment, by the status of their answers.
func (r *rig) cancels(payment string) (statuses []int) {
	for _, q := range r.sandbox.Ledger().Requests {
		if q.Method == "POST" && q.Path == "/v1/payment_intents/"+payment+"/cancel" {
			statuses = append(statuses, q.Status)
		}
	}
	return statuses
}

// atStripe is the status of a payment there.
func (r *rig) atStripe(payment string) string {
	for _, p := range r.sandbox.Ledger().PaymentIntents {
		if p.ID == payment {
			return p.Status
		}
	}
	return ""
}

// buyer posts to a payment as somebody with its client secret can, and returns the status of the answer.
func (r *rig) buyer(path string, form url.Values, key string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.url+path, strings.NewReader(form.Encode()))
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
	return res.StatusCode
}

// confirm is what an old browser tab does with another card.
func (r *rig) confirm(payment string) int {
	r.t.Helper()
	return r.buyer("/v1/payment_intents/"+payment+"/confirm", url.Values{"payment_method": {"pm_card_visa"}, "return_url": {"https://shop.example/back"}}, uuid.NewString())
}

// path is the statuses that the charge went through.
func (r *rig) path(id uuid.UUID) (statuses []charges.Status) {
	r.t.Helper()
	events, _, err := r.charges.Events(r.t.Context(), "", id, 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		if len(statuses) == 0 || statuses[len(statuses)-1] != e.To {
			statuses = append(statuses, e.To)
		}
	}
	return statuses
}

func (r *rig) wantPath(id uuid.UUID, want ...charges.Status) {
	r.t.Helper()
	if got := r.path(id); !slices.Equal(got, want) {
		r.t.Errorf("the charge went through %v, want %v", got, want)
	}
}

// I3: a buyer who comes back is noticed, even if no webhook says so.
func TestBuyerAuthenticates(t *testing.T) {
	t.Parallel()
	r := followRig(t, 0)
	id, payment := r.waiting()
	r.authenticate(payment, true)
	r.awaitStatus(id, charges.Succeeded)
	r.awaitReceipt(id, charges.ReceiptSent)
	r.await("nothing to be followed any more", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'payment_follow' AND state <> 'completed'`) == 0
	})
	if got := r.cancels(payment); got != nil {
		t.Errorf("canceled: %v", got)
	}
	r.wantPath(id, charges.Pending, charges.Processing, charges.RequiresAction, charges.Succeeded)
	r.wantPayments(id, 1)
	r.unburned()
}

// I2: a charge has failed only when whoever holds its client secret can pay it no more.
func TestBuyerFailsToAuthenticate(t *testing.T) {
	t.Parallel()
	r := followRig(t, 0)
	id, payment := r.waiting()
	r.fail(onCancel(payment, sandbox.Fault{Kind: sandbox.Status, Status: 503}, sandbox.Forever))
	r.authenticate(payment, false)
	r.await("two vain cancels", func() bool { return len(r.cancels(payment)) >= 2 })
	if n := r.count(`SELECT count(*) FROM river_job WHERE kind = 'payment_follow'`); n != 1 {
		t.Errorf("%d jobs follow one payment", n)
	}
	if c := r.get(id); c.Status != charges.Processing || c.NextAction != nil {
		t.Errorf("the payment can still be paid, and the charge is %s, %v", c.Status, c.NextAction)
	}
	r.sandbox.ClearFaults()
	c := r.awaitStatus(id, charges.Failed)
	if c.Failure == nil || c.Failure.Code != "payment_intent_authentication_failure" {
		t.Errorf("failure %+v", c.Failure)
	}
	if status := r.atStripe(payment); status != "canceled" {
		t.Errorf("at Stripe it is %s", status)
	}
	if status := r.confirm(payment); status != http.StatusBadRequest {
		t.Errorf("the old tab's confirm: %d", status)
	}
	r.wantPath(id, charges.Pending, charges.Processing, charges.RequiresAction, charges.Processing, charges.Failed)
	r.unburned()
}

// A declined payment whose client secret nobody has is over, for us.
func TestDeclinedIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := followRig(t, 0)
	id := r.create(card("pm_card_chargeDeclined"))
	payment := *r.awaitStatus(id, charges.Failed).PaymentIntent
	r.tell(payment, "")
	r.await("nothing to be followed", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'payment_follow' AND state <> 'completed'`) == 0
	})
	if got := r.cancels(payment); got != nil {
		t.Errorf("canceled: %v", got)
	}
	r.unburned()
}

// I3: a buyer who does not come back is waited for no longer than was set.
func TestBuyerStaysAway(t *testing.T) {
	t.Parallel()
	r := followRig(t, time.Second)
	id, payment := r.waiting()
	c := r.awaitStatus(id, charges.Canceled)
	if c.Failure != nil || c.NextAction != nil {
		t.Errorf("%+v, %+v", c.Failure, c.NextAction)
	}
	if status := r.atStripe(payment); status != "canceled" {
		t.Errorf("at Stripe it is %s", status)
	}
	if got := r.cancels(payment); !slices.Equal(got, []int{200}) {
		t.Errorf("cancels: %v", got)
	}
	r.wantPath(id, charges.Pending, charges.Processing, charges.RequiresAction, charges.Canceled)
}

// I2: what became of a cancel whose answer was lost is read, not guessed.
func TestCancelAnswerLost(t *testing.T) {
	t.Parallel()
	r := followRig(t, time.Second)
	id, payment := r.waiting()
	r.fail(onCancel(payment, sandbox.Fault{Kind: sandbox.DropAfter}, sandbox.Forever))
	r.awaitStatus(id, charges.Canceled)
	if status := r.atStripe(payment); status != "canceled" {
		t.Errorf("at Stripe it is %s", status)
	}
	r.wantPath(id, charges.Pending, charges.Processing, charges.RequiresAction, charges.Canceled)
	if n := r.count(`SELECT count(*) FROM attempt WHERE operation = 'cancel' AND outcome = 'unknown'`); n != 1 {
		t.Errorf("%d cancels of unknown outcome, want 1", n)
	}
	r.unburned()
}

// I2: the buyer who pays just before the cancel arrives has paid.
func TestBuyerPaysJustBeforeTheCancel(t *testing.T) {
	t.Parallel()
	for name, comeBack := range map[string]struct {
		ttl time.Duration
		pay func(r *rig, payment string)
	}{
		"late": {time.Second, func(r *rig, payment string) { r.authenticate(payment, true) }},
		"another card after a failure": {0, func(r *rig, payment string) {
			if status := r.confirm(payment); status != http.StatusOK {
				r.t.Errorf("confirm: %d", status)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			r.follow, r.actionTTL = 200*time.Millisecond, comeBack.ttl
			// Long before the workers give up on the call, and long enough for the buyer.
			r.fail(sandbox.Fault{Kind: sandbox.Delay, DelayMS: 3000, Method: "POST", Path: "/v1/payment_intents/*"})
			r.start()
			id, payment := r.waiting()
			if comeBack.ttl == 0 {
				r.authenticate(payment, false)
			}
			r.await("the cancel to be on its way", func() bool { return len(r.cancels(payment)) == 1 })
			comeBack.pay(r, payment)
			r.awaitStatus(id, charges.Succeeded)
			r.awaitReceipt(id, charges.ReceiptSent)
			r.await("the cancel to be refused", func() bool { return slices.Equal(r.cancels(payment), []int{http.StatusBadRequest}) })
			path := r.path(id)
			if slices.IndexFunc(path, charges.Status.Final) != len(path)-1 {
				t.Errorf("the charge went through %v", path)
			}
			r.unburned()
		})
	}
}

// second makes another payment at Stripe that names the charge, and has Stripe tell of it.
func (r *rig) second(id uuid.UUID, method string) (payment string) {
	r.t.Helper()
	c := r.get(id)
	form := url.Values{
		"amount": {"1099"}, "currency": {"usd"}, "payment_method": {method}, "confirm": {"true"}, "return_url": {"https://shop.example/back"},
		"metadata[oncepay_key]": {c.IdempotencyKey.String()}, "metadata[oncepay_charge]": {id.String()}, "automatic_payment_methods[enabled]": {"true"},
	}
	if status := r.buyer("/v1/payment_intents", form, uuid.NewString()); status != http.StatusOK {
		r.t.Fatalf("second payment: %d", status)
	}
	for _, payment = range r.payments(id) {
		if payment != *c.PaymentIntent {
			break
		}
	}
	r.tell(payment, charges.EventNote(charges.DuplicatePayment))
	return payment
}

// tell brings all events of a payment to the charges, last first.
func (r *rig) tell(payment string, want charges.EventNote) {
	r.t.Helper()
	for _, e := range slices.Backward(r.sandbox.Events()) {
		if !strings.Contains(string(e.Payload), `"`+payment+`"`) {
			continue
		}
		taken, err := r.charges.TakeStripeEvent(r.t.Context(), e.Payload)
		if err != nil {
			r.t.Fatal(err)
		}
		if !taken.Duplicate && (taken.Status != charges.EventApplied || taken.Note != want) {
			r.t.Errorf("%s: %s, %q", taken.Type, taken.Status, taken.Note)
		}
	}
}

// I2: a second payment that could still be paid is canceled, and changes nothing.
func TestSecondPaymentIsCanceled(t *testing.T) {
	t.Parallel()
	r := followRig(t, 0)
	id := r.create()
	first := *r.awaitStatus(id, charges.Succeeded).PaymentIntent
	second := r.second(id, "pm_card_authenticationRequired")
	r.await("the second payment to be canceled", func() bool { return r.atStripe(second) == "canceled" })
	r.await("nothing to be followed any more", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'payment_follow' AND state <> 'completed'`) == 0
	})
	if c := r.get(id); c.Status != charges.Succeeded || *c.PaymentIntent != first {
		t.Errorf("%s, %s", c.Status, *c.PaymentIntent)
	}
	if status := r.atStripe(first); status != "succeeded" {
		t.Errorf("the first payment is %s", status)
	}
	r.unburned()
}

// I2: a second payment that took money is for a person to see. The first is never overwritten, and can take none any more.
func TestSecondPaymentSucceeded(t *testing.T) {
	t.Parallel()
	for name, firstPaid := range map[string]bool{"the first, too": true, "the first is open": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := followRig(t, 0)
			id, first := r.waiting()
			if firstPaid {
				r.authenticate(first, true)
				r.awaitStatus(id, charges.Succeeded)
			}
			second := r.second(id, "pm_card_visa")
			want := func() {
				t.Helper()
				c := r.get(id)
				if c.Status != charges.NeedsReview || c.Review == nil || c.Review.Reason != string(charges.DuplicatePayment) || *c.PaymentIntent != first {
					t.Errorf("%s, %+v, %s", c.Status, c.Review, *c.PaymentIntent)
				}
			}
			want()
			if !firstPaid {
				r.await("the first payment to be canceled", func() bool { return r.atStripe(first) == "canceled" })
			}
			r.tell(first, "")
			r.tell(second, charges.EventNote(charges.DuplicatePayment))
			want()
			if status := r.atStripe(second); status != "succeeded" {
				t.Errorf("the second payment is %s", status)
			}
			r.unburned()
		})
	}
}

// I2: a payment at another Stripe account is neither read nor canceled here.
func TestFollowedWithTheKeyOfAnotherAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{}) // Stripe is asked when the test says so
	r.actionTTL = time.Second
	r.start()
	id, payment := r.waiting()
	r.stop()
	r.start("sk_test_other")
	hurry := func() {
		t.Helper()
		if _, err := r.pool.Exec(t.Context(), `UPDATE river_job SET scheduled_at = now() WHERE kind = 'payment_follow' AND state = 'scheduled'`); err != nil {
			t.Fatal(err)
		}
	}
	hurry()
	r.await("the job to have been put off", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE kind = 'payment_follow' AND state = 'scheduled' AND scheduled_at > now() + interval '5 seconds'`) == 1
	})
	r.stop()
	for _, q := range r.sandbox.Ledger().Requests {
		if q.Account == "acct_other" && strings.HasPrefix(q.Path, "/v1/payment_intents") {
			t.Errorf("asked the other account: %s %s", q.Method, q.Path)
		}
	}
	if c := r.get(id); c.Status != charges.RequiresAction {
		t.Errorf("the charge is %s", c.Status)
	}
	r.authenticate(payment, true)
	r.start("sk_test_home_rolled")
	hurry()
	r.awaitStatus(id, charges.Succeeded)
	r.unburned()
}

// A hold that is captured at Stripe for less than was asked for shows, and puts on the receipt, what the buyer was charged.
func TestCapturedForLess(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.follow = 100 * time.Millisecond
	r.start()
	id := r.create(mailed, func(q *charges.Request) { q.CaptureMethod = charges.CaptureManual })
	c := r.awaitStatus(id, charges.RequiresCapture)
	if c.AmountCaptured != 0 {
		t.Errorf("%d are captured before the capture", c.AmountCaptured)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/payment_intents/"+*c.PaymentIntent+"/capture", strings.NewReader("amount_to_capture=700"))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("sk_test_home", "")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	if c := r.awaitStatus(id, charges.Succeeded); c.AmountCaptured != 700 || c.Amount != 1099 {
		t.Errorf("captured %d of %d", c.AmountCaptured, c.Amount)
	}
	r.awaitReceipt(id, charges.ReceiptSent)
	if m := r.sandbox.Ledger().Mails[0]; !strings.Contains(m.Text, "$7.00") || strings.Contains(m.Text, "$10.99") {
		t.Errorf("the receipt says %s", m.Text)
	}
}

// I3: a payment that was adopted after the database had been restored, without an attempt on record, is followed to its end.
func TestFollowsWithoutAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.follow = 100 * time.Millisecond
	r.start()
	id := r.create(card("pm_usBankAccount"))
	r.await("the bank debit's payment", func() bool { return r.get(id).PaymentIntent != nil })
	r.stop()
	if _, err := r.pool.Exec(t.Context(), `DELETE FROM attempt`); err != nil {
		t.Fatal(err)
	}
	if err := r.sandbox.Advance(4 * 24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitStatus(id, charges.Succeeded)
	r.wantPayments(id, 1)
}
