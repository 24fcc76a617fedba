package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// create makes n charges with references order-0, order-1, ...
func create(t *testing.T, c *client.Client, n int) (charges []*client.Charge) {
	t.Helper()
	for i := range n {
		p := params()
		p.Reference = fmt.Sprintf("order-%d", i)
		charge, err := c.Create(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		charges = append(charges, charge)
	}
	return charges
}

func TestReadsAreRetried(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"dropped": dropBefore, "hanging": hang, "truncated": truncate, "html": {kind: "body", body: "<html>"},
		"500": answers(500, "internal"), "429": answers(429, ""),
		"endless":        {kind: "body", body: `{"id":"ch_1","status":"failed"}` + strings.Repeat(" ", client.MaxBody)},
		"another charge": {kind: "body", body: `{"id":"ch_2","status":"failed"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			// Written by another client: on a connection that was used before, net/http would retry in our place.
			writer, _ := connect(t, s)
			create(t, writer, 1)
			s.reads = []fault{f}
			c, clk := connect(t, s, client.WithAttemptTimeout(300*time.Millisecond))
			charge, err := c.Get(t.Context(), "ch_1")
			if err != nil {
				t.Fatal(err)
			}
			if charge.ID != "ch_1" || charge.Answer.Attempts != 2 || len(clk.waits()) != 1 {
				t.Errorf("charge %s after %d attempts, waits %v", charge.ID, charge.Answer.Attempts, clk.waits())
			}
		})
	}
}

// What is known of refunds and disputes is read, in words of later servers, too.
func TestRefundedAndDisputed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	charge := create(t, c, 1)[0]
	if charge.AmountRefunded != 0 || charge.Dispute != nil {
		t.Errorf("a new one: %d refunded, dispute %+v", charge.AmountRefunded, charge.Dispute)
	}
	for text, want := range map[string]client.Dispute{
		`{"status":"lost","reason":"fraudulent","amount":500,"currency":"eur","due_by":null}`: {Status: "lost", Reason: "fraudulent", Amount: 500, Currency: "eur"},
		`{"status":"on_the_moon","reason":"general","amount":1,"currency":"usd","due_by":"2026-11-02T10:00:00Z","later":[1]}`: {
			Status: "on_the_moon", Reason: "general", Amount: 1, Currency: "usd", DueBy: time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)},
	} {
		s.reads = []fault{{kind: "body", body: `{"id":"ch_1","status":"succeeded","amount_refunded":700,"dispute":` + text + `}`}}
		got, err := c.Get(t.Context(), "ch_1")
		if err != nil {
			t.Fatal(err)
		}
		if got.AmountRefunded != 700 || got.Dispute == nil || *got.Dispute != want {
			t.Errorf("%d refunded, dispute %+v", got.AmountRefunded, got.Dispute)
		}
	}
}

func TestGetOfNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	_, err := c.Get(t.Context(), "ch_404")
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "not_found" || refused.RequestID != "req_1" {
		t.Errorf("got %v", err)
	}
	if _, err := c.Get(t.Context(), "a/../b?c"); err == nil {
		t.Error("a strange id was found")
	}
	requests := s.requests()
	if got := requests[len(requests)-1].path; len(requests) != 2 || got != "/charges/a/../b?c" {
		t.Errorf("%d requests, the last for %q", len(requests), got)
	}
	if _, err := c.Get(t.Context(), ""); err == nil || len(s.requests()) != 2 {
		t.Errorf("empty id: got %v, %d requests", err, len(s.requests()))
	}
	for _, err := range c.Events(t.Context(), "") {
		if err == nil {
			t.Error("events of an empty id")
		}
	}
}

func TestListAndAll(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	create(t, c, 5)

	first, err := c.List(t.Context(), client.ListParams{Limit: 3, Status: client.StatusPending})
	if err != nil || len(first.Data) != 3 || first.NextCursor == "" {
		t.Fatalf("got %+v, %v", first, err)
	}
	one, err := c.List(t.Context(), client.ListParams{Reference: "order-4"})
	if err != nil || len(one.Data) != 1 || one.Data[0].Reference != "order-4" || one.NextCursor != "" {
		t.Fatalf("got %+v, %v", one, err)
	}
	none, err := c.List(t.Context(), client.ListParams{Reference: "order-5"})
	if err != nil || len(none.Data) != 0 {
		t.Fatalf("got %+v, %v", none, err)
	}
	all := c.All(t.Context(), client.ListParams{})
	for range 2 { // an iterator can be started again
		var ids []string
		for charge, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, charge.ID)
		}
		if got := fmt.Sprint(ids); got != "[ch_1 ch_2 ch_3 ch_4 ch_5]" {
			t.Errorf("got %s", got)
		}
	}
	before := len(s.requests())
	for _, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if n := len(s.requests()) - before; n != 1 {
		t.Errorf("%d pages were read for one charge", n)
	}
}

func TestAllEndsWithTheError(t *testing.T) {
	t.Parallel()
	charges := `[{"id":"ch_1","status":"pending"}]`
	for name, second := range map[string]fault{
		"refused":        answers(403, "forbidden"),
		"cursor repeats": {kind: "body", body: `{"data":` + charges + `,"next_cursor":"2"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.reads = []fault{{kind: "body", body: `{"data":` + charges + `,"next_cursor":"2"}`}, second}
			c, _ := connect(t, s)
			var errs []error
			for charge, err := range c.All(t.Context(), client.ListParams{}) {
				if (charge == nil) == (err == nil) {
					t.Fatalf("yielded %v and %v", charge, err)
				}
				errs = append(errs, err)
			}
			if last := errs[len(errs)-1]; last == nil || errs[0] != nil || len(s.requests()) != 2 {
				t.Errorf("yielded %v in %d requests", errs, len(s.requests()))
			}
		})
	}
}

func TestEventsAndKey(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	charge := create(t, c, 1)[0]
	var trail []string
	for event, err := range c.Events(t.Context(), charge.ID) {
		if err != nil {
			t.Fatal(err)
		}
		trail = append(trail, fmt.Sprintf("%d %s %s>%s", event.ID, event.Type, event.From, event.To))
	}
	if got := fmt.Sprint(trail); got != "[1 charge.created >pending 2 charge.sent pending>processing 3 charge.succeeded processing>succeeded]" {
		t.Errorf("got %s", got)
	}
	use, err := c.Key(t.Context(), charge.IdempotencyKey)
	if err != nil || use.ChargeID != charge.ID || use.Operation != "charge" || use.Charge.ID != charge.ID || use.ExpiresAt.IsZero() {
		t.Errorf("got %+v, %v", use, err)
	}
	_, err = c.Key(t.Context(), client.NewKey())
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != 404 {
		t.Errorf("unused key: got %v", err)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, clk := connect(t, s)
	create(t, c, 1)
	s.settle = 20
	charge, err := c.Wait(t.Context(), "ch_1")
	if err != nil || charge.Status != client.StatusSucceeded || !bytes.Contains(charge.Raw, []byte("succeeded")) {
		t.Fatalf("got %+v, %v", charge, err)
	}
	waits := clk.waits()
	if len(waits) != 19 || waits[0] > 100*time.Millisecond || waits[18] < time.Second || waits[18] > 2*time.Second {
		t.Errorf("waits %v", waits)
	}
}

func TestWaitGivesUpWithTheLastSeen(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, clk := connect(t, s)
	create(t, c, 1)
	s.settle = 1000
	ctx, cancel := context.WithCancel(t.Context())
	c.SetClock(clk.now, func(ctx context.Context, _ time.Duration) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	charge, err := c.Wait(ctx, "ch_1")
	if !errors.Is(err, context.Canceled) || charge == nil || charge.Status != client.StatusPending {
		t.Errorf("got %+v, %v", charge, err)
	}
	if charge, err := c.Wait(t.Context(), "ch_404"); err == nil || charge != nil {
		t.Errorf("no such charge: got %+v, %v", charge, err)
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	for status, want := range map[client.Status]bool{
		client.StatusPending: false, client.StatusProcessing: false, client.StatusRequiresAction: true,
		client.StatusRequiresCapture: true, client.StatusSucceeded: true, client.StatusFailed: true,
		client.StatusCanceled: true, client.StatusNeedsReview: true, "of_a_later_release": true,
	} {
		if got := (&client.Charge{Status: status}).Settled(); got != want {
			t.Errorf("%s: got %t", status, got)
		}
	}
}
