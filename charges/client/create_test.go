package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// connect returns a client of s whose waits take no time.
func connect(t *testing.T, s *server, opts ...client.Option) (*client.Client, *clock) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	opts = append([]client.Option{client.WithHTTPClient(&http.Client{Transport: transport})}, opts...)
	c, err := client.New(s.URL, testToken, opts...)
	if err != nil {
		t.Fatal(err)
	}
	clk := &clock{at: time.Now()}
	c.SetClock(clk.now, func(ctx context.Context, d time.Duration) error {
		clk.mu.Lock()
		defer clk.mu.Unlock()
		clk.at, clk.slept = clk.at.Add(d), append(clk.slept, d)
		return ctx.Err()
	})
	return c, clk
}

func params() client.CreateParams {
	return client.CreateParams{
		Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", Reference: "order-7",
		Metadata: map[string]string{"b": "2", "a": "1", "c": "<3"},
	}
}

// sameThroughout checks that every request of one logical operation was the same one.
func sameThroughout(t *testing.T, requests []seen) {
	t.Helper()
	for i, r := range requests {
		if r.key == "" || r.key != requests[0].key || r.body != requests[0].body || r.prefer != requests[0].prefer {
			t.Errorf("request %d differs from the first:\n%+v\n%+v", i+1, r, requests[0])
		}
		if r.token != "Bearer "+testToken {
			t.Errorf("request %d: Authorization is %q", i+1, r.token)
		}
	}
}

func TestI2OneChargeUnderEveryFault(t *testing.T) {
	t.Parallel()
	inUse := answers(409, "idempotency_key_in_use").with("Retry-After", "1")
	for name, faults := range map[string][]fault{
		"none":                              {},
		"dropped before":                    {dropBefore},
		"answer lost":                       {dropAfter},
		"answer lost three times":           {dropAfter, dropAfter, dropAfter},
		"no answer in time":                 {hang},
		"truncated":                         {truncate},
		"html instead of json":              {{kind: "body", body: "<html>ok</html>"}},
		"json of something else":            {{kind: "body", body: `{"ok":true}`}},
		"two json values":                   {{kind: "body", body: `{"id":"ch_1","status":"pending"} {}`}},
		"another key's charge":              {{kind: "body", body: `{"id":"ch_9","status":"pending","idempotency_key":"` + client.NewKey() + `"}`}},
		"empty 200":                         {{kind: "body"}},
		"500 before":                        {answers(500, "internal")},
		"500 after":                         {answers(500, "internal").afterDoing()},
		"503":                               {answers(503, "unavailable").with("Retry-After", "2")},
		"502 of a proxy, after":             {fault{kind: "status", status: 502, body: "<html>", done: true}},
		"429":                               {answers(429, "rate_limited").with("Retry-After", "1")},
		"key in use":                        {inUse, inUse},
		"lost, then in use, then throttled": {dropAfter, inUse, answers(429, ""), answers(503, "unavailable")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, faults...)
			c, _ := connect(t, s, client.WithAttemptTimeout(300*time.Millisecond))
			key := client.NewKey()
			p := params()
			p.IdempotencyKey = key
			charge, err := c.Create(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if charge.ID != "ch_1" || charge.IdempotencyKey != key || charge.Answer.Attempts != len(faults)+1 {
				t.Errorf("got charge %s under key %s after %d attempts", charge.ID, charge.IdempotencyKey, charge.Answer.Attempts)
			}
			if n := s.made(); n != 1 {
				t.Errorf("%d charges were made", n)
			}
			requests := s.requests()
			if len(requests) != len(faults)+1 || requests[0].key != key {
				t.Errorf("%d requests, the first with key %s; want %d with %s", len(requests), requests[0].key, len(faults)+1, key)
			}
			sameThroughout(t, requests)
		})
	}
}

// net/http sends a keyed POST again by itself when a kept-alive connection breaks.
func TestI2HiddenResendIsTheSameRequest(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	if _, err := c.Create(t.Context(), params()); err != nil {
		t.Fatal(err)
	}
	s.plan(dropAfter)
	charge, err := c.Create(t.Context(), params())
	if err != nil {
		t.Fatal(err)
	}
	requests := s.requests()[1:]
	if charge.ID != "ch_2" || s.made() != 2 || len(requests) != 2 {
		t.Errorf("charge %s, %d charges, %d requests for the second", charge.ID, s.made(), len(requests))
	}
	sameThroughout(t, requests)
}

func TestCreateTellsHowItWasAnswered(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s, client.WithUserAgent("shop/1.4"))
	p := params()
	p.Wait = 1500 * time.Millisecond
	p.SendBefore = time.Date(2026, 11, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600))
	first, err := c.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	p.IdempotencyKey = strings.ToUpper(first.IdempotencyKey)
	s.mu.Lock() // the real server takes both cases for one key
	s.stored[p.IdempotencyKey], s.bodies[p.IdempotencyKey] = s.stored[first.IdempotencyKey], s.bodies[first.IdempotencyKey]
	s.mu.Unlock()
	again, err := c.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if a := first.Answer; a.HTTPStatus != 202 || a.Replayed || a.RequestID != "req_ok" || a.Attempts != 1 ||
		!a.KeyExpires.Equal(time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("first answer: %+v", a)
	}
	if !again.Answer.Replayed || again.ID != first.ID || !bytes.Equal(again.Raw, first.Raw) {
		t.Errorf("replayed answer: %+v, charge %s", again.Answer, again.Raw)
	}
	if first.Failure != nil || first.PaymentIntent != "" || first.Customer != "" || first.Metadata["c"] != "<3" ||
		!bytes.Contains(first.Raw, []byte(`"a_later_member":[1]`)) || first.Settled() {
		t.Errorf("charge: %+v", first)
	}
	r := s.requests()[0]
	if r.prefer != "wait=2" || !strings.HasPrefix(r.userAgent, "shop/1.4 oncepay-go") || !strings.Contains(r.body, `"send_before":"2026-11-01T11:00:00Z"`) {
		t.Errorf("request: %+v", r)
	}
	if strings.Contains(r.body, "capture_method") || strings.Contains(r.body, "off_session") {
		t.Errorf("members that were not given were sent: %s", r.body)
	}
}

func TestRefusalsAreNotRetried(t *testing.T) {
	t.Parallel()
	existing := answers(409, "reference_in_use")
	existing.body = `{"status":409,"code":"reference_in_use","charge":{"id":"ch_5","status":"succeeded"}}`
	short := answers(409, "insufficient_inventory")
	short.body = `{"status":409,"code":"insufficient_inventory","detail":"There is not enough.","restored_at":"2026-01-02T03:04:05Z","items":[{"sku":"cap","requested":2,"available":0,"stocked":false},` +
		`{"sku":"tee:m","requested":3,"available":1,"stocked":true,"later":[1]}]}`
	for name, tc := range map[string]struct {
		fault  fault
		status int
		code   string
	}{
		"bad request":     {answers(400, "invalid_request"), 400, "invalid_request"},
		"unauthenticated": {answers(401, "unauthenticated"), 401, "unauthenticated"},
		"forbidden":       {answers(403, "forbidden"), 403, "forbidden"},
		"no such path":    {fault{kind: "status", status: 404, body: "nothing here"}, 404, ""},
		"timeout of 4xx":  {fault{kind: "status", status: 408}, 408, ""},
		"stock":           {answers(409, "insufficient_inventory"), 409, "insufficient_inventory"},
		"stock, named":    {short, 409, "insufficient_inventory"},
		"reference":       {existing, 409, "reference_in_use"},
		"unknown 409":     {answers(409, "of_a_later_release"), 409, "of_a_later_release"},
		"too large":       {answers(413, "too_large"), 413, "too_large"},
		"key reused":      {answers(422, "idempotency_key_reused"), 422, "idempotency_key_reused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, tc.fault)
			c, clk := connect(t, s)
			p := params()
			p.IdempotencyKey = client.NewKey()
			_, err := c.Create(t.Context(), p)
			refused, ok := errors.AsType[*client.Error](err)
			if !ok || refused.Status != tc.status || refused.Code != tc.code || refused.Key != p.IdempotencyKey {
				t.Fatalf("got %#v", err)
			}
			if len(s.requests()) != 1 || len(clk.waits()) != 0 {
				t.Errorf("%d requests, waits %v", len(s.requests()), clk.waits())
			}
			if tc.code == "reference_in_use" && (refused.Charge == nil || refused.Charge.ID != "ch_5") {
				t.Errorf("the existing charge is missing: %+v", refused)
			}
			if want := []client.Shortage{{"cap", 2, 0, false}, {"tee:m", 3, 1, true}}; name == "stock, named" && (!slices.Equal(refused.Short, want) ||
				err.Error() != "oncepay: 409 insufficient_inventory: There is not enough.; cap was never stocked; tee:m: 1 of 3 available") {
				t.Errorf("short of %+v: %v", refused.Short, err)
			}
			if restored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); refused.RestoredAt.Equal(restored) != (name == "stock, named") {
				t.Errorf("restored at %v", refused.RestoredAt)
			}
		})
	}
}

func TestI4ReusedKeyNamesTheFields(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	p := params()
	p.IdempotencyKey = client.NewKey()
	if _, err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.Amount++
	_, err := c.Create(t.Context(), p)
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || len(refused.Fields) != 1 || refused.Fields[0] != (client.FieldError{Field: "amount", Reason: "differs"}) {
		t.Fatalf("got %v", err)
	}
	if want := "oncepay: 422 idempotency_key_reused; amount: differs"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if s.made() != 1 {
		t.Errorf("%d charges were made", s.made())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			elsewhere := startServer(t)
			s := startServer(t, fault{kind: "status", status: status, header: map[string]string{"Location": elsewhere.URL + "/charge"}})
			s.reads = []fault{{kind: "status", status: status, header: map[string]string{"Location": elsewhere.URL + "/charges/ch_1"}}}
			c, _ := connect(t, s)
			_, err := c.Create(t.Context(), params())
			if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != status {
				t.Errorf("create: got %v", err)
			}
			_, err = c.Get(t.Context(), "ch_1")
			if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != status {
				t.Errorf("get: got %v", err)
			}
			if n := len(elsewhere.requests()); n != 0 || len(s.requests()) != 2 {
				t.Errorf("%d requests went to the other server, %d to this", n, len(s.requests()))
			}
		})
	}
}

func TestInvalidKeysAreNotSent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	for _, key := range []string{
		" ", "1", "1730000000000", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"c232ab00-9414-11ec-b3c8-9f6bdeced846",          // version 1
		"2ed6657d-e927-568b-95e1-2665a8aea6a2",          // version 5
		"00000000-0000-0000-0000-000000000000",          // nil
		"urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", // forms that the server does not take
		"{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "017f22e279b07cc398c4dc0c0c07398f", `"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"`,
	} {
		p := params()
		p.IdempotencyKey = key
		if _, err := c.Create(t.Context(), p); !errors.Is(err, client.ErrInvalidKey) {
			t.Errorf("key %q: got %v", key, err)
		}
		if _, err := c.Key(t.Context(), key); !errors.Is(err, client.ErrInvalidKey) {
			t.Errorf("read of key %q: got %v", key, err)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
