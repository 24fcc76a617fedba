package stripetest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/workers/sandbox"
)

func refund(key, paymentIntent string, amount int64) *stripe.RefundParams {
	p := &stripe.RefundParams{PaymentIntent: stripe.String(paymentIntent)}
	if amount > 0 {
		p.Amount = stripe.Int64(amount)
	}
	p.AddMetadata("oncepay_key", key)
	p.SetIdempotencyKey(key)
	return p
}

func (s shop) payWith(t *testing.T, key, method string) *stripe.PaymentIntent {
	t.Helper()
	pi, err := s.PaymentIntents.New(payment(key, method))
	if err != nil {
		t.Fatalf("pay under %s: %v", key, err)
	}
	return pi
}

// told are the types of the events about an object, oldest first.
func (s shop) told(id string) []string {
	var types []string
	for _, e := range s.sb.Events() {
		if e.About == id {
			types = append(types, e.Type)
		}
	}
	return types
}

func (s shop) wantTold(t *testing.T, id, want string) {
	t.Helper()
	if got := s.told(id); !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("%s was told of as %v, want %s", id, got, want)
	}
}

func TestRefunds(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi := s.pay(t, "k-1")
	p := refund("r-1", pi.ID, 300)
	p.Reason = stripe.String("requested_by_customer")
	first, err := s.Refunds.New(p)
	if err != nil || first.Status != stripe.RefundStatusSucceeded || first.Amount != 300 || first.Charge.ID != pi.LatestCharge.ID || first.PaymentIntent.ID != pi.ID ||
		first.Reason != "requested_by_customer" || first.Metadata["oncepay_key"] != "r-1" || first.Currency != "usd" || first.Created == 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := s.Refunds.New(p)
	if err != nil || again.ID != first.ID || again.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("%+v, %v", again, err)
	}
	_, err = s.Refunds.New(refund("r-1", pi.ID, 301))
	if e := refused(t, err, 400, ""); e.Type != "idempotency_error" {
		t.Fatalf("%v", e)
	}
	_, err = s.Refunds.New(refund("r-2", pi.ID, 800)) // 799 are left
	if e := refused(t, err, 400, ""); e.Param != "amount" || !strings.Contains(e.Msg, "greater than unrefunded amount") {
		t.Fatalf("%v", e)
	}
	if got, err := s.Charges.Get(pi.LatestCharge.ID, nil); err != nil || got.AmountRefunded != 300 || got.Refunded || !got.Captured || got.PaymentIntent.ID != pi.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	byCharge := &stripe.RefundParams{Charge: stripe.String(pi.LatestCharge.ID)} // the rest
	rest, err := s.Refunds.New(byCharge)
	if err != nil || rest.Amount != 799 {
		t.Fatalf("%+v, %v", rest, err)
	}
	_, err = s.Refunds.New(refund("r-3", pi.ID, 1))
	refused(t, err, 400, stripe.ErrorCodeChargeAlreadyRefunded)

	expand := &stripe.PaymentIntentParams{}
	expand.AddExpand("latest_charge")
	if got, err := s.PaymentIntents.Get(pi.ID, expand); err != nil || got.LatestCharge.AmountRefunded != 1099 || !got.LatestCharge.Refunded || got.AmountReceived != 1099 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := s.Refunds.Get(first.ID, nil); err != nil || got.Amount != 300 || got.Metadata["oncepay_key"] != "r-1" {
		t.Fatalf("%+v, %v", got, err)
	}
	ledger := s.sb.Ledger()
	if len(ledger.Refunds) != 2 || ledger.Refunds[0].ID != first.ID || ledger.Refunds[0].IdempotencyKey != "r-1" || ledger.PaymentIntents[0].AmountRefunded != 1099 {
		t.Fatalf("%+v", ledger)
	}
	if balance, err := s.Balance.Get(nil); err != nil || balance.Available[0].Amount != 0 {
		t.Fatalf("%+v, %v", balance, err)
	}
	s.wantTold(t, first.ID, "refund.created")
	s.wantTold(t, rest.ID, "refund.created")
	s.wantTold(t, pi.LatestCharge.ID, "charge.refunded charge.refunded")
}

// TestChargeRefundedEvent reads charge.refunded as its receiver would.
func TestChargeRefundedEvent(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi := s.pay(t, "k-1")
	for _, amount := range []int64{300, 799} {
		if _, err := s.Refunds.New(refund(fmt.Sprint("r-", amount), pi.ID, amount)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range s.sb.Events() {
		if e.Type == "charge.refunded" {
			var event stripe.Event
			if err := json.Unmarshal(e.Payload, &event); err != nil {
				t.Fatal(err)
			}
			object, was := event.Data.Object, event.Data.PreviousAttributes
			got = append(got, fmt.Sprint(object["object"], object["amount_refunded"], object["refunded"], was["amount_refunded"], was["refunded"], event.Request.IdempotencyKey))
		}
	}
	if want := []string{"charge300 false 0 <nil>r-300", "charge1099 true 300 falser-799"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPartlyCapturedIsRefundedPartly(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := payment("k-1", "pm_card_visa")
	p.CaptureMethod = stripe.String("manual")
	pi, err := s.PaymentIntents.New(p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Refunds.New(refund("r-0", pi.ID, 1))
	refused(t, err, 400, "")
	if _, err := s.PaymentIntents.Capture(pi.ID, &stripe.PaymentIntentCaptureParams{AmountToCapture: stripe.Int64(700)}); err != nil {
		t.Fatal(err)
	}
	// As at Stripe, what was let go counts as refunded on the charge.
	if got, err := s.Charges.Get(pi.LatestCharge.ID, nil); err != nil || got.AmountCaptured != 700 || got.AmountRefunded != 399 || got.Refunded {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = s.Refunds.New(refund("r-1", pi.ID, 701))
	refused(t, err, 400, "")
	if r, err := s.Refunds.New(refund("r-2", pi.ID, 0)); err != nil || r.Amount != 700 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestRefusedRefunds(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi, other, bank := s.pay(t, "k-1"), s.pay(t, "k-2"), s.payWith(t, "k-3", "pm_usBankAccount")
	for form, want := range map[string]struct {
		status int
		code   string
	}{
		"":                                       {400, "parameter_missing"},
		"payment_intent=pi_none":                 {404, "resource_missing"},
		"charge=ch_none":                         {404, "resource_missing"},
		"payment_intent=" + pi.ID + "&amount=0":  {400, "parameter_invalid_integer"},
		"payment_intent=" + pi.ID + "&amount=-1": {400, "parameter_invalid_integer"},
		"payment_intent=" + pi.ID + "&amount=x":  {400, "parameter_invalid_integer"},
		"payment_intent=" + pi.ID + "&reason=x":  {400, ""},
		"payment_intent=" + pi.ID + "&colour=x":  {400, "parameter_unknown"},
		"payment_intent=" + pi.ID + "&charge=" + other.LatestCharge.ID: {400, ""},
		"payment_intent=" + bank.ID:                                    {400, ""}, // processing
	} {
		status, body := post(t, s, "/v1/refunds", form)
		e, _ := body["error"].(map[string]any)
		code, _ := e["code"].(string)
		if status != want.status || code != want.code || e["type"] != "invalid_request_error" {
			t.Errorf("%q: %d %v, want %+v", form, status, body, want)
		}
	}
	if n := len(s.sb.Ledger().Refunds); n != 0 {
		t.Errorf("%d refunds were made", n)
	}
}

func TestRefundFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi := s.pay(t, "k-1")
	r, err := s.Refunds.New(refund("r-1", pi.ID, 0))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := post(t, s, "/_sandbox/refunds/"+r.ID+"/fail", ""); status != 400 { // not JSON
		t.Fatal(status)
	}
	if err := s.sb.FailRefund(r.ID, "expired_or_canceled_card"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Refunds.Get(r.ID, nil)
	if err != nil || got.Status != stripe.RefundStatusFailed || got.FailureReason != stripe.RefundFailureReasonExpiredOrCanceledCard {
		t.Fatalf("%+v, %v", got, err)
	}
	s.wantTold(t, r.ID, "refund.created charge.refund.updated refund.updated refund.failed")
	if charge, err := s.Charges.Get(pi.LatestCharge.ID, nil); err != nil || charge.AmountRefunded != 0 {
		t.Fatalf("%+v, %v", charge, err)
	}
	if _, err := s.Refunds.New(refund("r-2", pi.ID, 1099)); err != nil {
		t.Fatalf("the balance is not free again: %v", err)
	}
	for id, reason := range map[string]string{r.ID: "", "re_none": "", s.sb.Ledger().Refunds[1].ID: "bad luck"} {
		if err := s.sb.FailRefund(id, reason); err == nil {
			t.Errorf("%s failed for %q", id, reason)
		}
	}
}

// Some refunds end days later, by themselves.
func TestRefundsEndLater(t *testing.T) {
	t.Parallel()
	s := start(t)
	ids := map[string]string{}
	for _, method := range []string{"pm_card_pendingRefund", "pm_card_refundFail", "pm_usBankAccount"} {
		ids[method] = s.payWith(t, "k-"+method, method).ID
	}
	if err := s.sb.Advance(72 * time.Hour); err != nil { // the debit settles
		t.Fatal(err)
	}
	for method, want := range map[string][2]stripe.RefundStatus{
		"pm_card_pendingRefund": {"pending", "succeeded"}, "pm_card_refundFail": {"succeeded", "failed"}, "pm_usBankAccount": {"pending", "succeeded"},
	} {
		r, err := s.Refunds.New(refund("r-"+method, ids[method], 0))
		if err != nil || r.Status != want[0] {
			t.Errorf("%s: %+v, %v", method, r, err)
		}
		ids[method] = r.ID
	}
	if err := s.sb.Advance(72 * time.Hour); err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]string{
		"pm_card_pendingRefund": "succeeded refund.created charge.refund.updated refund.updated",
		"pm_card_refundFail":    "failed refund.created charge.refund.updated refund.updated refund.failed",
		"pm_usBankAccount":      "succeeded refund.created charge.refund.updated refund.updated",
	} {
		status, events, _ := strings.Cut(want, " ")
		if r, err := s.Refunds.Get(ids[method], nil); err != nil || string(r.Status) != status {
			t.Errorf("%s: %+v, %v", method, r, err)
		}
		s.wantTold(t, ids[method], events)
	}
}

func TestRefundList(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, b := s.pay(t, "k-1"), s.pay(t, "k-2")
	var want []string
	for i := range 13 {
		r, err := s.Refunds.New(refund(fmt.Sprint("r-", i), a.ID, 1))
		if err != nil {
			t.Fatal(err)
		}
		want = slices.Insert(want, 0, r.ID)
	}
	if _, err := s.Refunds.New(refund("r-b", b.ID, 0)); err != nil {
		t.Fatal(err)
	}
	read := func(p *stripe.RefundListParams) (ids []string, more bool) {
		t.Helper()
		it := s.Refunds.List(p)
		for it.Next() {
			ids = append(ids, it.Refund().ID)
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		return ids, it.RefundList().HasMore
	}
	first := &stripe.RefundListParams{PaymentIntent: stripe.String(a.ID)}
	first.Single = true
	if got, more := read(first); !slices.Equal(got, want[:10]) || !more {
		t.Errorf("first page: %v, %t", got, more)
	}
	if got, _ := read(&stripe.RefundListParams{PaymentIntent: stripe.String(a.ID)}); !slices.Equal(got, want) {
		t.Errorf("all: %v", got)
	}
	if got, _ := read(&stripe.RefundListParams{Charge: stripe.String(b.LatestCharge.ID)}); len(got) != 1 {
		t.Errorf("by charge: %v", got)
	}
	if err := s.sb.Fail(sandbox.Fault{Kind: sandbox.ListLag, DelayMS: time.Hour.Milliseconds(), Path: "/v1/refunds"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := read(&stripe.RefundListParams{}); len(got) != 0 {
		t.Errorf("with a lag: %v", got)
	}
}
