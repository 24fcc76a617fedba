package workers

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// refund gives a part of a payment back, as at Stripe's dashboard: nothing of ours knows of it.
func (r *rig) refund(payment string, amount int) (id string) {
	r.t.Helper()
	form := url.Values{"payment_intent": {payment}, "amount": {strconv.Itoa(amount)}}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/refunds", strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("sk_test_home", "")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := res.Body.Close(); err != nil {
			r.t.Error(err)
		}
	}()
	var made struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("refund answered %d, %v", res.StatusCode, err)
	}
	return made.ID
}

// hear takes the events of a type that Stripe has about a charge's payment, as the API does once their signature is verified.
func (r *rig) hear(kind, payment string) (taken []charges.ProviderEvent) {
	r.t.Helper()
	for _, e := range r.sandbox.Events() {
		if e.Type != kind || !strings.Contains(string(e.Payload), payment) {
			continue
		}
		event, err := r.charges.TakeStripeEvent(r.t.Context(), e.Payload)
		if err != nil {
			r.t.Fatal(err)
		}
		taken = append(taken, event)
	}
	if len(taken) == 0 {
		r.t.Fatalf("Stripe has no %s", kind)
	}
	return taken
}

func (r *rig) awaitRefunded(id uuid.UUID, want int64) {
	r.t.Helper()
	r.await("refunds of "+strconv.FormatInt(want, 10), func() bool { return r.get(id).AmountRefunded == want })
}

// charge.refunded does not say which refunds there are: they are listed at Stripe, whoever made them, and no older news undoes that.
func TestRefundsAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	id := r.create()
	payment := *r.awaitStatus(id, charges.Succeeded).PaymentIntent
	first := r.refund(payment, 300)
	r.refund(payment, 200)
	told := r.hear("charge.refunded", payment)
	r.awaitRefunded(id, 500)
	if n := r.count(`SELECT count(*) FROM charge_event WHERE charge_id = $1 AND type = 'refund.succeeded' AND actor = 'worker'`, id); n != 2 {
		t.Errorf("%d events tell of them", n)
	}

	// Days later the first one fails, and the event of that is lost.
	if err := r.sandbox.Advance(72 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := r.sandbox.FailRefund(first, "expired_or_canceled_card"); err != nil {
		t.Fatal(err)
	}
	if n, err := r.charges.RetryEvents(t.Context(), []int64{told[0].ID}); err != nil || n != 1 {
		t.Fatalf("retried %d, %v", n, err)
	}
	r.awaitRefunded(id, 200)

	// Now the events of old come, late, and again.
	for range 2 {
		r.hear("refund.created", payment)
	}
	r.awaitRefunded(id, 200)
	if n := r.count(`SELECT count(*) FROM refund WHERE id = $1 AND status = 'failed' AND failure_reason = 'expired_or_canceled_card'`, first); n != 1 {
		t.Error("its failure is forgotten")
	}
	if got := r.get(id).Status; got != charges.Succeeded {
		t.Errorf("the charge is %s", got)
	}
	r.await("nothing to be read any more", func() bool { return r.count(`SELECT count(*) FROM refund_reading`) == 0 })
	r.unburned()
}

// I6: a list that cannot be read costs nothing and is read later; what could be read is taken.
func TestI6RefundsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	id := r.create()
	payment := *r.awaitStatus(id, charges.Succeeded).PaymentIntent
	r.refund(payment, 300)
	if err := r.sandbox.Dispute(payment, sandbox.Challenge{Reason: "product_not_received"}); err != nil {
		t.Fatal(err)
	}
	r.fail(sandbox.Fault{Kind: sandbox.Status, Status: 503, Method: "GET", Path: "/v1/disputes", Times: 2}) // net/http may ask twice
	r.hear("charge.refunded", payment)
	r.awaitRefunded(id, 300)
	if d := r.get(id).Dispute; d != nil {
		t.Errorf("read in spite of the fault: %+v", d)
	}
	r.await("the dispute", func() bool { return r.get(id).Dispute != nil })
	if d := r.get(id).Dispute; d.Status != "needs_response" || d.Reason != "product_not_received" || d.Amount != 799 || d.DueBy == nil {
		t.Errorf("%+v", d)
	}
	r.hear("charge.dispute.created", payment) // says nothing new
	if n := r.count(`SELECT count(*) FROM charge_event WHERE charge_id = $1 AND type LIKE 'dispute.%'`, id); n != 1 {
		t.Errorf("%d events tell of it", n)
	}
	r.unburned()
}
