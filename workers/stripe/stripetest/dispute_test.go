package stripetest_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/stripe/stripetest"
)

func (s shop) dispute(t *testing.T, paymentIntent string, c sandbox.Challenge) {
	t.Helper()
	if err := s.sb.Dispute(paymentIntent, c); err != nil {
		t.Fatal(err)
	}
}

func (s shop) wantBalance(t *testing.T, want int64) {
	t.Helper()
	if balance, err := s.Balance.Get(nil); err != nil || balance.Available[0].Amount != want {
		t.Errorf("balance %+v, %v, want %d", balance.Available, err, want)
	}
}

func TestDisputes(t *testing.T) {
	t.Parallel()
	const opened, decided = "charge.dispute.created", " charge.dispute.updated charge.dispute.closed"
	for name, c := range map[string]struct {
		steps   []sandbox.Challenge
		wait    time.Duration
		status  string
		told    string
		balance int64
	}{
		"open":          {[]sandbox.Challenge{{Reason: "product_not_received", Amount: 500}}, 0, "needs_response", opened, 599},
		"won":           {[]sandbox.Challenge{{}, {Outcome: "won"}}, 0, "won", opened + decided, 1099},
		"lost":          {[]sandbox.Challenge{{}, {Outcome: "lost"}}, 0, "lost", opened + decided, 0},
		"at once":       {[]sandbox.Challenge{{Outcome: "lost"}}, 0, "lost", opened + decided, 0},
		"not contested": {[]sandbox.Challenge{{}}, 10 * 24 * time.Hour, "lost", opened + " charge.dispute.closed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			pi := s.pay(t, "k-1")
			for _, step := range c.steps {
				s.dispute(t, pi.ID, step)
			}
			if c.wait > 0 {
				if err := s.sb.Advance(c.wait); err != nil {
					t.Fatal(err)
				}
			}
			d := s.sb.Ledger().Disputes[0]
			if d.Status != c.status || d.PaymentIntent != pi.ID || d.Charge != pi.LatestCharge.ID || len(s.sb.Ledger().Disputes) != 1 {
				t.Fatalf("%+v", d)
			}
			s.wantTold(t, d.ID, c.told)
			s.wantBalance(t, c.balance)
			_, err := s.Refunds.New(refund("r-1", pi.ID, 0))
			refused(t, err, 400, stripe.ErrorCodeChargeDisputed)
		})
	}
}

func TestDisputeCreatedEvent(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi := s.pay(t, "k-1")
	before := s.sb.Now()
	s.dispute(t, pi.ID, sandbox.Challenge{})
	events := s.sb.Events()
	var e stripe.Event
	if err := json.Unmarshal(events[len(events)-1].Payload, &e); err != nil {
		t.Fatal(err)
	}
	var d stripe.Dispute
	if err := json.Unmarshal(e.Data.Raw, &d); err != nil {
		t.Fatal(err)
	}
	if e.Type != "charge.dispute.created" || d.Reason != "fraudulent" || d.Amount != 1099 || d.Charge.ID != pi.LatestCharge.ID || d.PaymentIntent.ID != pi.ID ||
		d.EvidenceDetails.DueBy < before.Add(8*24*time.Hour).Unix() || d.Status != "needs_response" {
		t.Errorf("%s", events[len(events)-1].Payload)
	}
	if charge, err := s.Charges.Get(pi.LatestCharge.ID, nil); err != nil || !charge.Disputed {
		t.Errorf("%+v, %v", charge, err)
	}
}

func TestRefusedDisputes(t *testing.T) {
	t.Parallel()
	s := start(t)
	paid, waiting, closed := s.pay(t, "k-1"), s.payWith(t, "k-2", "pm_card_authenticationRequired"), s.pay(t, "k-3")
	s.dispute(t, closed.ID, sandbox.Challenge{Outcome: "won"})
	for _, c := range []struct {
		id        string
		challenge sandbox.Challenge
		err       error
	}{
		{"pi_none", sandbox.Challenge{}, stripetest.ErrNotFound},
		{waiting.ID, sandbox.Challenge{}, stripetest.ErrWrongState},
		{closed.ID, sandbox.Challenge{}, stripetest.ErrWrongState},
		{closed.ID, sandbox.Challenge{Outcome: "lost"}, stripetest.ErrWrongState},
		{paid.ID, sandbox.Challenge{Amount: 1100}, stripetest.ErrBadControl},
		{paid.ID, sandbox.Challenge{Amount: -1}, stripetest.ErrBadControl},
		{paid.ID, sandbox.Challenge{Reason: "angry"}, stripetest.ErrBadControl},
		{paid.ID, sandbox.Challenge{Outcome: "drawn"}, stripetest.ErrBadControl},
	} {
		if err := s.sb.Dispute(c.id, c.challenge); !errors.Is(err, c.err) {
			t.Errorf("%+v: %v, want %v", c.challenge, err, c.err)
		}
	}
	if n := len(s.sb.Ledger().Disputes); n != 1 {
		t.Errorf("%d disputes", n)
	}
}

func TestListDisputes(t *testing.T) {
	t.Parallel()
	s := start(t)
	first, second := s.pay(t, "k-1"), s.pay(t, "k-2")
	s.pay(t, "k-3")
	s.dispute(t, first.ID, sandbox.Challenge{})
	s.dispute(t, second.ID, sandbox.Challenge{Outcome: "won"})
	s.dispute(t, first.ID, sandbox.Challenge{Outcome: "lost"})
	for want, p := range map[string]*stripe.DisputeListParams{
		second.ID + " won " + first.ID + " lost ": {},
		first.ID + " lost ":                       {PaymentIntent: &first.ID},
		second.ID + " won ":                       {Charge: &second.LatestCharge.ID},
		"":                                        {PaymentIntent: stripe.String("pi_none")},
	} {
		got := ""
		list := s.Disputes.List(p)
		for list.Next() {
			got += list.Dispute().PaymentIntent.ID + " " + string(list.Dispute().Status) + " "
		}
		if err := list.Err(); err != nil || got != want {
			t.Errorf("got %q, want %q, %v", got, want, err)
		}
	}
}
