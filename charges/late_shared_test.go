package charges

import (
	"fmt"
	"testing"
	"time"
)

// Successes that come late and together, in one transaction, do not take the same last item: what is left goes to as many as there is, and a person
// is asked about the others.
func TestLateSuccessesTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const n, left = 10, 3
	if _, err := f.SetInventory(t.Context(), "tee", n, "operator:ann"); err != nil {
		t.Fatal(err)
	}
	one := func(r *Request) { r.Items = []Item{{SKU: "tee", Quantity: 1}} }
	begun := make([]Begun, n)
	for i := range begun {
		id := f.create(t, request(one))
		begun[i] = f.begin(t, id, Send)
		declined := said("requires_payment_method", fmt.Sprintf("pi_%d", i))
		declined.Failure, declined.AsOf = &Failure{Code: "card_declined", Advice: NewPaymentMethod}, declined.AsOf.Add(-time.Second)
		f.hear(t, id, declined)
		if got := f.status(t, id); got != Failed {
			t.Fatalf("declined: %s", got)
		}
	}
	for range n - left {
		f.create(t, request(one)) // others buy what was given back
	}
	c := f.shareAll(n)
	for i, err := range c.do(t, n, func(i int) error {
		_, err := f.Settle(t.Context(), begun[i].Attempt, answered("succeeded", fmt.Sprintf("pi_%d", i)))
		return err
	}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	statuses := map[Status]int{}
	for _, b := range begun {
		statuses[f.status(t, b.Attempt.ChargeID)]++
	}
	if statuses[Succeeded] != left || statuses[NeedsReview] != n-left {
		t.Errorf("they are %v", statuses)
	}
	v, err := f.Inventory(t.Context(), "tee")
	if err != nil || v.Taken != left || v.Held != n-left || v.Available != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
