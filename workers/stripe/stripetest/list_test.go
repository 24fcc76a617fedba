package stripetest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// page reads one page, without following has_more.
func page(t *testing.T, s shop, p *stripe.PaymentIntentListParams) ([]string, bool) {
	t.Helper()
	p.Single = true
	it := s.PaymentIntents.List(p)
	var ids []string
	for it.Next() {
		ids = append(ids, it.PaymentIntent().ID)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return ids, it.PaymentIntentList().HasMore
}

// cut is a slice of the newest-first ids, from the i-th on.
func cut(newestFirst []string, i, n int) []string { return newestFirst[i : i+n] }

func TestListPages(t *testing.T) {
	t.Parallel()
	s := start(t)
	var newest []string
	for i := range 25 {
		newest = slices.Insert(newest, 0, s.pay(t, fmt.Sprint("k-", i)).ID)
	}
	for name, c := range map[string]struct {
		params stripe.ListParams
		want   []string
		more   bool
	}{
		"default":      {stripe.ListParams{}, cut(newest, 0, 10), true},
		"limit":        {stripe.ListParams{Limit: stripe.Int64(25)}, newest, false},
		"after":        {stripe.ListParams{StartingAfter: &newest[9]}, cut(newest, 10, 10), true},
		"last page":    {stripe.ListParams{StartingAfter: &newest[19]}, cut(newest, 20, 5), false},
		"after oldest": {stripe.ListParams{StartingAfter: &newest[24]}, nil, false},
		"before":       {stripe.ListParams{EndingBefore: &newest[15]}, cut(newest, 5, 10), true},
		"before early": {stripe.ListParams{EndingBefore: &newest[4]}, cut(newest, 0, 4), false},
	} {
		got, more := page(t, s, &stripe.PaymentIntentListParams{ListParams: c.params})
		if name == "before" || name == "before early" {
			slices.Reverse(got) // stripe-go hands such a page out from its end
		}
		if !slices.Equal(got, c.want) || more != c.more {
			t.Errorf("%s: got %v, more %t; want %v, more %t", name, got, more, c.want, c.more)
		}
	}
	all := s.PaymentIntents.List(&stripe.PaymentIntentListParams{})
	var ids []string
	for all.Next() {
		ids = append(ids, all.PaymentIntent().ID)
	}
	if !slices.Equal(ids, newest) {
		t.Errorf("all pages: %d ids of %d", len(ids), len(newest))
	}
	for _, limit := range []int64{0, 101} {
		it := s.PaymentIntents.List(&stripe.PaymentIntentListParams{ListParams: stripe.ListParams{Limit: stripe.Int64(limit)}})
		refused(t, it.Err(), 400, "parameter_invalid_integer")
	}
	it := s.PaymentIntents.List(&stripe.PaymentIntentListParams{ListParams: stripe.ListParams{StartingAfter: stripe.String("pi_gone")}})
	refused(t, it.Err(), 400, stripe.ErrorCodeResourceMissing)
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	s := start(t)
	var newest []string
	var created []int64
	for i := range 3 {
		p := payment(fmt.Sprint("k-", i), "pm_card_visa")
		p.Customer = stripe.String(fmt.Sprint("cus_", i))
		pi, err := s.PaymentIntents.New(p)
		if err != nil {
			t.Fatal(err)
		}
		newest, created = slices.Insert(newest, 0, pi.ID), append(created, pi.Created)
		if err := s.sb.Advance(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	middle := created[1]
	for name, c := range map[string]struct {
		params stripe.PaymentIntentListParams
		want   []string
	}{
		"gte":      {stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: middle}}, newest[:2]},
		"gt":       {stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThan: middle}}, newest[:1]},
		"lte":      {stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{LesserThanOrEqual: middle}}, newest[1:]},
		"lt":       {stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{LesserThan: middle}}, newest[2:]},
		"between":  {stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThan: created[0], LesserThan: created[2]}}, newest[1:2]},
		"exact":    {stripe.PaymentIntentListParams{Created: &middle}, newest[1:2]},
		"customer": {stripe.PaymentIntentListParams{Customer: stripe.String("cus_2")}, newest[:1]},
	} {
		if got, more := page(t, s, &c.params); !slices.Equal(got, c.want) || more {
			t.Errorf("%s: got %v, more %t; want %v", name, got, more, c.want)
		}
	}
}

func TestListLag(t *testing.T) {
	t.Parallel()
	s := start(t)
	old := s.pay(t, "k-old").ID
	if err := s.sb.Advance(time.Hour); err != nil {
		t.Fatal(err)
	}
	recent := s.pay(t, "k-new").ID
	arm(t, s, sandbox.Fault{Kind: sandbox.ListLag, DelayMS: (10 * time.Minute).Milliseconds(), Times: 2})

	if pi, err := s.PaymentIntents.Get(recent, nil); err != nil || pi.ID != recent {
		t.Fatalf("a read by id lags: %v", err)
	}
	if got, _ := page(t, s, &stripe.PaymentIntentListParams{}); !slices.Equal(got, []string{old}) {
		t.Fatalf("the list does not lag: %v", got)
	}
	if err := s.sb.Advance(11 * time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, _ := page(t, s, &stripe.PaymentIntentListParams{}); !slices.Equal(got, []string{recent, old}) {
		t.Fatalf("the list never catches up: %v", got)
	}
}
