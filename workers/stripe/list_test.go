package stripe_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

// all reads a list to its end or its error.
func all(t *testing.T, g *stripe.Gateway, q stripe.Query) ([]charges.News, error) {
	t.Helper()
	var got []charges.News
	for p, err := range g.List(t.Context(), q) {
		if err != nil {
			noSecrets(t, err)
			return got, err
		}
		got = append(got, p)
	}
	return got, nil
}

func around(sb *sandbox.Sandbox) stripe.Query {
	return stripe.Query{From: sb.Now().Add(-time.Minute), To: sb.Now().Add(time.Minute)}
}

func TestListReadsEveryPage(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	const n = 205
	want := map[string]bool{}
	for i := range n {
		c := charge("pm_card_visa")
		if i%2 == 0 {
			c.Customer = "cus_1"
		}
		if _, _, err := send(t, g, attempt(t, g, c)); err != nil {
			t.Fatal(err)
		}
		want[c.IdempotencyKey.String()] = true
	}
	got, err := all(t, g, around(sb))
	if err != nil || len(got) != n {
		t.Fatalf("read %d, %v", len(got), err)
	}
	for _, p := range got {
		if !want[p.Key] || p.Status != "succeeded" || p.Amount != 1099 || p.Currency != "usd" || p.Livemode || p.Failure != nil {
			t.Fatalf("read %+v", p)
		}
		delete(want, p.Key)
	}

	q := around(sb)
	q.Customer = "cus_1"
	if got, err := all(t, g, q); err != nil || len(got) != (n+1)/2 {
		t.Errorf("of the customer: %d, %v", len(got), err)
	}
	q = stripe.Query{From: sb.Now().Add(time.Hour), To: sb.Now().Add(2 * time.Hour)}
	if got, err := all(t, g, q); err != nil || len(got) != 0 {
		t.Errorf("of another hour: %d, %v", len(got), err)
	}
	for p, err := range g.List(t.Context(), around(sb)) {
		if err != nil || p.ID == "" {
			t.Fatalf("first: %+v, %v", p, err)
		}
		break // and no further page is read
	}

	// A page that fails ends the list with an error, whatever was read before. Three pages there are.
	for _, f := range []sandbox.Fault{
		{Kind: sandbox.Status, Status: 500}, {Kind: sandbox.Status, Status: 429}, {Kind: sandbox.Truncate}, {Kind: sandbox.HTML}, {Kind: sandbox.DropAfter},
	} {
		seen, failed := 0, false
		for _, err := range g.List(t.Context(), around(sb)) {
			if failed {
				t.Fatalf("%s: the list went on after its error", f.Kind)
			}
			if err != nil {
				failed = true
				continue
			}
			if seen++; seen == 150 {
				f.Method, f.Times = http.MethodGet, 2 // net/http may read a page a second time by itself
				fail(t, sb, f)
			}
		}
		sb.ClearFaults()
		if !failed || seen != 200 {
			t.Errorf("%s: failed is %t after %d", f.Kind, failed, seen)
		}
	}
}

func TestListTellsOfFailures(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	if _, _, err := send(t, g, attempt(t, g, charge("pm_card_chargeDeclinedStolenCard"))); err == nil {
		t.Fatal("not declined")
	}
	got, err := all(t, g, around(sb))
	if err != nil || len(got) != 1 || got[0].Status != "requires_payment_method" {
		t.Fatalf("got %+v, %v", got, err)
	}
	f := got[0].Failure
	if f == nil || *f.DeclineCode != "stolen_card" || f.Advice != charges.DoNotRetry || *f.Message != "The payment was declined." {
		t.Fatalf("failure %+v", f)
	}
}

// I2: an answer that is not a whole list must not read as a list without our payment.
func TestListsThatAreNotBelieved(t *testing.T) {
	t.Parallel()
	c := charge("pm_card_visa")
	q := stripe.Query{From: time.Unix(1, 0), To: time.Unix(2, 0)}
	for name, body := range map[string]string{
		"empty":              ``,
		"no list":            `{}`,
		"null":               `null`,
		"no data":            `{"object":"list","has_more":false}`,
		"data is null":       `{"object":"list","has_more":false,"data":null}`,
		"no has_more":        `{"object":"list","data":[]}`,
		"another object":     `{"object":"search_result","data":[],"has_more":false}`,
		"endless":            `{"object":"list","data":[],"has_more":true}`,
		"moves in a circle":  `{"object":"list","data":[` + intent(c) + `],"has_more":true}`,
		"not a payment":      `{"object":"list","data":[{}],"has_more":false}`,
		"null for a payment": `{"object":"list","data":[null],"has_more":false}`,
		"other mode":         `{"object":"list","data":[` + strings.Replace(intent(c), `"livemode":false`, `"livemode":true`, 1) + `],"has_more":false}`,
	} {
		if got, err := all(t, answer(t, 200, nil, body), q); !errors.Is(err, transport.ErrUnknown) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := all(t, answer(t, 200, nil, `{"object":"list","data":[],"has_more":false}`), q); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %+v, %v", got, err)
	}
	for _, q := range []stripe.Query{{}, {To: time.Unix(2, 0)}, {From: time.Unix(2, 0), To: time.Unix(1, 0)}} {
		if _, err := all(t, answer(t, 200, nil, `{"object":"list","data":[],"has_more":false}`), q); err == nil {
			t.Errorf("%+v was asked", q)
		}
	}
}

func TestRetrieve(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	made, _, err := send(t, g, attempt(t, g, charge("pm_card_visa")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.Retrieve(t.Context(), made.ID); err != nil || got != made {
		t.Fatalf("got %+v, %v; want %+v", got, err, made)
	}
	if _, err := g.Retrieve(t.Context(), "pi_none"); asError(t, err).HTTPStatus != 404 {
		t.Errorf("unknown id: %v", err)
	}
	for _, id := range []string{"", "pi_", "ch_1", "pi_1/cancel", "pi_1?expand[]=x", "../account"} {
		if _, err := g.Retrieve(t.Context(), id); !errors.Is(err, transport.ErrNotSent) {
			t.Errorf("%q: %v", id, err)
		}
	}
	other := answer(t, 200, nil, intent(charge("pm_card_visa")))
	if _, err := other.Retrieve(t.Context(), "pi_2"); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("another payment: %v", err)
	}
	if got, err := other.Retrieve(t.Context(), "pi_1"); err != nil || fmt.Sprint(got.ID) != "pi_1" {
		t.Errorf("got %+v, %v", got, err)
	}
}
