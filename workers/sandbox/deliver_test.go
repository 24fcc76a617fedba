package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// recordedEvents makes payments whose events are recorded, and returns the events' ids and a receiver for them.
func recordedEvents(t *testing.T, payments int) (*sandbox.Sandbox, string, []string, *receiver) {
	t.Helper()
	sb, url, _ := open(t, "")
	for i := range payments {
		payWith(t, url, fmt.Sprint("k-", i), "pm_card_visa")
	}
	r := receive(t, nil)
	toStripe(t, sb, r)
	var ids []string
	for _, e := range sb.Events() {
		ids = append(ids, e.ID)
	}
	return sb, url, ids, r
}

// order is the ids in which a receiver got Stripe's events.
func (r *receiver) order(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, request := range r.all() {
		ids = append(ids, request.event(t).ID)
	}
	return ids
}

func TestOrderOfDelivery(t *testing.T) {
	t.Parallel()
	seed := uint64(7)
	for name, c := range map[string]struct {
		dispatch func(ids []string) sandbox.Dispatch
		want     func(ids []string) []string
	}{
		"all":     {func([]string) sandbox.Dispatch { return sandbox.Dispatch{All: true} }, func(ids []string) []string { return ids }},
		"reverse": {func([]string) sandbox.Dispatch { return sandbox.Dispatch{All: true, Reverse: true} }, func(ids []string) []string { return slicesReversed(ids) }},
		"twice": {func(ids []string) sandbox.Dispatch { return sandbox.Dispatch{Events: ids[1:3], Times: 2} },
			func(ids []string) []string { return slices.Repeat(ids[1:3], 2) }},
		"as named": {func(ids []string) sandbox.Dispatch {
			return sandbox.Dispatch{Events: []string{ids[3], ids[0], ids[3]}}
		}, func(ids []string) []string { return []string{ids[3], ids[0], ids[3]} }},
		"shuffled": {func([]string) sandbox.Dispatch { return sandbox.Dispatch{All: true, Shuffle: &seed} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sb, _, ids, r := recordedEvents(t, 5)
			d := c.dispatch(ids)
			sent, err := sb.Deliver(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			got := r.order(t)
			for i, s := range sent {
				if s.ID != got[i] || s.Status != 200 || s.Error != "" {
					t.Errorf("%+v, and the receiver got %s", s, got[i])
				}
			}
			if c.want != nil {
				if !slices.Equal(got, c.want(ids)) {
					t.Errorf("got %v", got)
				}
				return
			}
			if _, err := sb.Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			again := r.order(t)[len(got):]
			if !slices.Equal(got, again) || slices.Equal(got, ids) || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(ids))) {
				t.Errorf("shuffled to %v and %v", got, again)
			}
		})
	}
}

func slicesReversed(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

// TestManyAtOnce lets each request wait for the others.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	payWith(t, url, "k-1", "pm_card_visa")
	all := make(chan struct{})
	r := receive(t, func(nth int) int {
		if nth == 20 {
			close(all)
		}
		<-all
		return 200
	})
	toStripe(t, sb, r)
	sent, err := sb.Deliver(t.Context(), sandbox.Dispatch{Events: []string{sb.Events()[1].ID}, Times: 20, Parallel: true})
	if err != nil || len(sent) != 20 || slices.ContainsFunc(sent, func(s sandbox.Sent) bool { return s.Status != 200 }) {
		t.Fatalf("%+v, %v", sent, err)
	}
}

func TestTamperedDelivery(t *testing.T) {
	t.Parallel()
	sb, _, ids, r := recordedEvents(t, 1)
	for _, c := range []struct {
		dispatch sandbox.Dispatch
		err      error // of Stripe's library; nil for one that is taken
	}{
		{sandbox.Dispatch{}, nil},
		{sandbox.Dispatch{Tamper: sandbox.Flip}, webhook.ErrNoValidSignature},
		{sandbox.Dispatch{Tamper: sandbox.Old}, webhook.ErrTooOld},
		{sandbox.Dispatch{Tamper: sandbox.Unsigned}, webhook.ErrNotSigned},
		{sandbox.Dispatch{Tamper: sandbox.WrongKey}, webhook.ErrNoValidSignature},
		{sandbox.Dispatch{Tamper: sandbox.TwoSignatures}, nil},
		{sandbox.Dispatch{Tamper: sandbox.Future}, nil}, // it is for the receiver to refuse: the library does not
	} {
		c.dispatch.Events = ids[:1]
		if _, err := sb.Deliver(t.Context(), c.dispatch); err != nil {
			t.Fatal(err)
		}
		got := r.all()[len(r.all())-1]
		header := got.header.Get("Stripe-Signature")
		_, err := webhook.ConstructEvent(got.body, header, secret)
		if !errors.Is(err, c.err) || !json.Valid(got.body) {
			t.Errorf("%q: %v, want %v", c.dispatch.Tamper, err, c.err)
		}
		if n := strings.Count(header, "v1="); (n == 2) != (c.dispatch.Tamper == sandbox.TwoSignatures) {
			t.Errorf("%q: %s", c.dispatch.Tamper, header)
		}
	}
}

// An event that was only sent spoilt or changed has not been delivered.
func TestOnlyTheTruthIsDelivered(t *testing.T) {
	t.Parallel()
	sb, _, ids, _ := recordedEvents(t, 1)
	for _, d := range []sandbox.Dispatch{
		{Tamper: sandbox.Old}, {NewIDs: true}, {APIVersion: "2020-08-27"}, {Set: map[string]any{"data.object.amount": 1}},
	} {
		d.Events = ids[:1]
		if _, err := sb.Deliver(t.Context(), d); err != nil || sb.Events()[0].State != sandbox.Recorded {
			t.Errorf("%+v: %s, %v", d, sb.Events()[0].State, err)
		}
	}
	if _, err := sb.Deliver(t.Context(), sandbox.Dispatch{Events: ids[:1]}); err != nil || sb.Events()[0].State != sandbox.Delivered {
		t.Errorf("%s, %v", sb.Events()[0].State, err)
	}
}

func TestChangedDelivery(t *testing.T) {
	t.Parallel()
	sb, _, ids, r := recordedEvents(t, 1)
	send := func(d sandbox.Dispatch) received {
		t.Helper()
		d.Events = ids[1:2]
		if _, err := sb.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return r.all()[len(r.all())-1]
	}
	old := send(sandbox.Dispatch{APIVersion: "2020-08-27"})
	e, err := webhook.ConstructEventWithOptions(old.body, old.header.Get("Stripe-Signature"), secret, webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	if err != nil || e.APIVersion != "2020-08-27" || e.ID != ids[1] {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := webhook.ConstructEvent(old.body, old.header.Get("Stripe-Signature"), secret); err == nil {
		t.Error("another version was taken for ours")
	}
	if e := send(sandbox.Dispatch{NewIDs: true}).event(t); e.ID == ids[1] || !strings.HasPrefix(e.ID, "evt_") || e.Data.Object["object"] != "payment_intent" {
		t.Errorf("%+v", e)
	}
	large := strings.Repeat("x", 300_000)
	e = send(sandbox.Dispatch{Set: map[string]any{
		"type": "payment_intent.never_heard_of", "livemode": true, "account": "acct_other", "data.object.amount": 1, "data.object.description": large,
	}}).event(t)
	if e.Type != "payment_intent.never_heard_of" || !e.Livemode || e.Account != "acct_other" || e.Data.Object["amount"] != 1.0 || e.Data.Object["description"] != large ||
		e.Data.Object["currency"] != "usd" {
		t.Errorf("%+v", e.Data.Object)
	}
	// What is kept stays as it was.
	if e := send(sandbox.Dispatch{}).event(t); e.Data.Object["amount"] != 1099.0 || e.ID != ids[1] {
		t.Errorf("%+v", e)
	}
}

func TestDeliverOverHTTP(t *testing.T) {
	t.Parallel()
	sb, url, ids, r := recordedEvents(t, 1)
	for body, want := range map[string]struct {
		status  int
		message string
	}{
		`{"events":["evt_none"]}`: {404, "no such event"},
		`{}`:                      {400, "events or all"},
		`{"all":true,"events":["` + ids[0] + `"]}`:          {400, "events or all"},
		`{"all":true,"reverse":true,"shuffle":1}`:           {400, "reverse or shuffle"},
		`{"all":true,"provider":"paypal"}`:                  {400, "provider"},
		`{"events":["` + ids[0] + `"],"provider":"stripe"}`: {400, "provider"},
		`{"all":true,"times":-1}`:                           {400, "times"},
		`{"all":true,"times":10000}`:                        {400, "10000 requests"},
		`{"all":true,"tamper":"eat"}`:                       {400, "unknown tamper"},
		`{"all":true,"tamper":"no_crlf"}`:                   {400, "CRLF"},
		`{"all":true,"set":{"data.subject.amount":1}}`:      {400, "no object"},
		`{"all":true,"shuffle":-1}`:                         {400, "shuffle"},
		`{"all":true,"All":true}`:                           {400, "All"},
	} {
		got := call(t, "POST", url+"/_sandbox/webhooks/deliver", body)
		if got.status != want.status || !strings.Contains(string(got.body), want.message) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if n := len(r.all()); n != 0 {
		t.Fatalf("%d refused deliveries were sent", n)
	}
	got := call(t, "POST", url+"/_sandbox/webhooks/deliver", `{"events":["`+ids[1]+`","`+ids[0]+`"],"times":2}`)
	var body struct{ Sent []sandbox.Sent }
	if err := json.Unmarshal(got.body, &body); err != nil || len(body.Sent) != 4 || body.Sent[1] != (sandbox.Sent{ID: ids[0], Status: 200}) {
		t.Fatalf("%s, %v", got.body, err)
	}
	var list struct{ Events []map[string]any }
	if err := json.Unmarshal(call(t, "GET", url+"/_sandbox/events", "").body, &list); err != nil || len(list.Events) != 2 {
		t.Fatal(list, err)
	}
	for _, name := range strings.Fields("id provider type about batch account created payload state attempts") {
		if _, has := list.Events[0][name]; !has {
			t.Errorf("no %s in %v", name, list.Events[0])
		}
	}
	if err := sb.SetWebhooks(sandbox.Webhooks{}); err != nil {
		t.Fatal(err)
	}
	if got := call(t, "POST", url+"/_sandbox/webhooks/deliver", `{"all":true}`); got.status != 409 {
		t.Errorf("without a URL: %d %s", got.status, got.body)
	}
}
