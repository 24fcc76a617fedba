package charges

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/oncepay/oncepay/outbox"
)

var second = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// anyNews draws news of one payment: few seconds and few failures, so that ties are common.
func anyNews(t *rapid.T) News {
	status := rapid.SampledFrom([]string{"requires_payment_method", "requires_confirmation", "requires_action", "processing",
		"requires_capture", "canceled", "succeeded", "frozen", "thawed"}).Draw(t, "status")
	n := News{Payment: Payment{ID: "pi_1", Status: status}, AsOf: second.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "s")) * time.Second)}
	if status == "requires_action" {
		n.ClientSecret = "pi_1_secret_x"
	}
	if code := rapid.SampledFrom([]string{"", "", "card_declined", "payment_intent_authentication_failure"}).Draw(t, "failure"); code != "" {
		n.Failure = &Failure{Code: code, Advice: NewPaymentMethod}
	}
	return n
}

func mergeAll(news []News) paymentState {
	var s paymentState
	for _, n := range news {
		s = s.merge(n)
	}
	return s
}

// Any news of a payment, in any order and any of them twice, say the same in the end (equal seconds included).
func TestNewsInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		news := rapid.SliceOfN(rapid.Custom(anyNews), 1, 6).Draw(t, "news")
		want := mergeAll(news)
		shuffled := rapid.Permutation(append(news, news[rapid.IntRange(0, len(news)-1).Draw(t, "again")])).Draw(t, "order")
		if got := mergeAll(shuffled); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nin another order: %+v", want, got)
		}
		if over(want.Status) {
			later := news[0]
			later.Status, later.AsOf = "processing", second.Add(time.Hour)
			if got := want.merge(later); got.Status != want.Status {
				t.Fatalf("%s became %s", want.Status, got.Status)
			}
		}
	})
}

// TestPaymentOutcome has a row for each state of a payment.
func TestPaymentOutcome(t *testing.T) {
	t.Parallel()
	declined := &Failure{Code: "card_declined", Advice: RetryLater}
	for _, tc := range []struct {
		status  string
		failure *Failure
		secret  string // handed out to the buyer
		to      Status
		cancel  bool
	}{
		{"succeeded", nil, "", Succeeded, false},
		{"succeeded", declined, "s", Succeeded, false},
		{"processing", nil, "", Processing, false},
		{"requires_action", nil, "s", RequiresAction, false},
		{"requires_capture", nil, "", RequiresCapture, false},
		{"canceled", nil, "s", Canceled, false},
		{"canceled", declined, "s", Failed, false},
		{"requires_payment_method", declined, "", Failed, false},
		{"requires_payment_method", declined, "s", Processing, true}, // whoever has the secret can still pay it
		{"requires_payment_method", nil, "", "", false},              // not tried yet
		{"requires_confirmation", nil, "", "", false},
		{"frozen", nil, "", NeedsReview, false},
	} {
		state := paymentState{News: News{Payment: Payment{ID: "pi_1", Status: tc.status, Failure: tc.failure}, ClientSecret: tc.secret}}
		change, cancel := state.outcome()
		if change.To != tc.to || cancel != tc.cancel || (change.To == Failed) != (change.Failure != nil) || (change.To == NeedsReview) != (change.Reason != "") {
			t.Errorf("%s: %+v, cancel %v; want %q, %v", tc.status, change, cancel, tc.to, tc.cancel)
		}
	}
}

// I7: the stories that Stripe tells of one payment end in the same charge, whatever the order in which they are heard, with one receipt if
// the money moved and none if not. The answer to the create call is one of the pieces.
func TestStoriesInAnyOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	failed := &Failure{Code: "payment_intent_authentication_failure", Advice: NewPaymentMethod}
	type told struct {
		status  string
		at      int // seconds
		failure *Failure
	}
	for i, story := range []struct {
		news []told
		want Status
		code string
	}{
		{[]told{{"requires_payment_method", 0, nil}, {"requires_action", 0, nil}, {"processing", 1, nil}, {"succeeded", 1, nil}}, Succeeded, ""},
		{[]told{{"requires_action", 0, nil}, {"requires_payment_method", 5, failed}, {"succeeded", 9, nil}}, Succeeded, ""},
		{[]told{{"requires_action", 0, nil}, {"requires_payment_method", 5, failed}, {"canceled", 6, nil}}, Failed, failed.Code},
		{[]told{{"requires_action", 0, nil}, {"canceled", 0, nil}}, Canceled, ""},
		{[]told{{"processing", 0, nil}, {"requires_payment_method", 3 * 24 * 3600, failed}}, Failed, failed.Code},
		{[]told{{"requires_capture", 0, nil}, {"canceled", 7 * 24 * 3600, nil}}, Canceled, ""},
		{[]told{{"requires_action", 0, nil}, {"requires_payment_method", 5, failed}, {"requires_capture", 9, nil}, {"canceled", 7 * 24 * 3600, nil}}, Failed, failed.Code},
		{[]told{{"requires_action", 0, nil}, {"requires_action", 1, nil}, {"processing", 2, nil}}, Processing, ""},
	} {
		for k, order := range permutations(len(story.news)) {
			id := f.create(t, request(func(r *Request) { r.ReceiptEmail = "buyer@example.com" }))
			b := f.begin(t, id, Send)
			payment := fmt.Sprintf("pi_story_%d_%d", i, k)
			for step, which := range order {
				n := said(story.news[which].status, payment)
				n.AsOf, n.Failure = second.Add(time.Duration(story.news[which].at)*time.Second), story.news[which].failure
				if n.Status == "requires_action" {
					n.ClientSecret = payment + "_secret_x"
				}
				if step == k%len(order) { // this piece is the answer to our own call; the others come as events
					f.settle(t, b, Result{Outcome: Answered, News: &n})
					continue
				}
				err := outbox.InTx(t.Context(), f.pool, "test", func(tx pgx.Tx) error {
					c, _, err := lockCharge(t.Context(), tx, id)
					if err != nil {
						return err
					}
					_, err = f.takeNews(t.Context(), tx, c, f.home, n, stripeSays, nil)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			c, err := f.Get(t.Context(), "shop", id)
			if err != nil {
				t.Fatal(err)
			}
			code := ""
			if c.Failure != nil {
				code = c.Failure.Code
			}
			if c.Status != story.want || code != story.code || (c.Receipt != nil) != (story.want == Succeeded) {
				t.Errorf("story %d in the order %v: %s %q, receipt %v; want %s %q", i, order, c.Status, code, c.Receipt, story.want, story.code)
			}
			if n := f.count(t, `SELECT count(*) FROM charge_event WHERE charge_id = $1 AND type = 'charge.succeeded'`, id); n > 1 {
				t.Errorf("story %d in the order %v: it succeeded %d times", i, order, n)
			}
		}
	}
}

// permutations lists all orders of n things.
func permutations(n int) (all [][]int) {
	var extend func(rest, done []int)
	extend = func(rest, done []int) {
		if len(rest) == 0 {
			all = append(all, append([]int(nil), done...))
			return
		}
		for i := range rest {
			next := append(append([]int(nil), rest[:i]...), rest[i+1:]...)
			extend(next, append(done, rest[i]))
		}
	}
	things := make([]int, n)
	for i := range things {
		things[i] = i
	}
	extend(things, nil)
	return all
}
