package stripe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/transport"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	g, sb := start(t)
	if now, ok := g.Clock(); ok {
		t.Fatalf("the clock shows %s before any answer", now)
	}
	if err := sb.Advance(25 * time.Hour); err != nil {
		t.Fatal(err)
	}
	account, now, err := g.Probe(t.Context())
	if err != nil || account != (charges.Account{ID: "acct_shop"}) {
		t.Fatalf("got %+v, %v", account, err)
	}
	near(t, now, sb.Now())

	// Every answer sets the clock, errors included.
	if err := sb.Advance(48 * time.Hour); err != nil {
		t.Fatal(err)
	}
	fail(t, sb, sandbox.Fault{Kind: sandbox.Status, Status: 429})
	if _, _, err := send(t, g, attempt(t, g, charge("pm_card_visa"))); err == nil {
		t.Fatal("not refused")
	}
	now, ok := g.Clock()
	if !ok {
		t.Fatal("no clock")
	}
	near(t, now, sb.Now())

	fail(t, sb, sandbox.Fault{Kind: sandbox.Status, Status: 401})
	if _, _, err := g.Probe(t.Context()); asError(t, err).HTTPStatus != 401 {
		t.Fatalf("got %v", err)
	}
}

// near allows for a Date's whole seconds and for a slow machine.
func near(t *testing.T, got, want time.Time) {
	t.Helper()
	if d := want.Sub(got); d < -time.Minute || d > time.Minute {
		t.Fatalf("got %s, want about %s", got, want)
	}
}

func TestProbesThatAreNotBelieved(t *testing.T) {
	t.Parallel()
	const account = `{"id":"acct_1","object":"account"}`
	for name, tt := range map[string]struct{ body, date string }{
		"no account":     {`{}`, ""},
		"another object": {`{"id":"acct_1","object":"balance"}`, ""},
		"no id":          {`{"object":"account"}`, ""},
		"HTML":           {`<html>`, ""},
		"no date":        {account, "today"},
	} {
		header := map[string]string{}
		if tt.date != "" {
			header["Date"] = tt.date
		}
		if got, _, err := answer(t, 200, header, tt.body).Probe(t.Context()); !errors.Is(err, transport.ErrUnknown) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, _, err := answer(t, 200, nil, account).Probe(t.Context()); err != nil || got.ID != "acct_1" {
		t.Errorf("got %+v, %v", got, err)
	}
}
