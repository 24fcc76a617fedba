package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// open serves a sandbox with this journal until the test ends or stop is called.
func open(t *testing.T, journal string) (sb *sandbox.Sandbox, url string, stop func()) {
	t.Helper()
	sb, err := sandbox.New(sandbox.Options{JournalPath: journal})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sb)
	stop = func() {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	}
	t.Cleanup(stop)
	return sb, server.URL, stop
}

// reply is an answer read to its end, or the error that cut it short.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func call(t *testing.T, method, url, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	// A connection of its own: net/http sends a keyed POST again when a reused one dies.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, raw, err}
}

const goodForm = "amount=1099&currency=usd&payment_method=pm_card_visa&confirm=true&payment_method_types[]=card&metadata[oncepay_key]="

func pay(t *testing.T, url, key string) reply {
	t.Helper()
	return call(t, "POST", url+"/v1/payment_intents", goodForm+key,
		"Authorization", "Bearer sk_test_shop", "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", key)
}

func mail(t *testing.T, url, key string) reply {
	t.Helper()
	body := `{"personalizations":[{"to":[{"email":"buyer@example.com"}],"custom_args":{"oncepay_key":"` + key + `"}}],
		"from":{"email":"shop@example.com"},"subject":"Receipt","content":[{"type":"text/plain","value":"thanks"}]}`
	return call(t, "POST", url+"/v3/mail/send", body, "Authorization", "Bearer SG.x", "Content-Type", "application/json")
}

// TestFaultsOfOneSend plays each fault on one payment and then sends it again under its key.
func TestFaultsOfOneSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault  sandbox.Fault
		first  func(reply) bool
		logged int // status in the request log
		done   int // payments after the first send
	}{
		{sandbox.Fault{Kind: sandbox.DropBefore}, func(r reply) bool { return r.err != nil && r.status == 0 }, 0, 0},
		{sandbox.Fault{Kind: sandbox.DropAfter}, func(r reply) bool { return r.err != nil && r.status == 0 }, 200, 1},
		{sandbox.Fault{Kind: sandbox.Delay, DelayMS: 1}, func(r reply) bool { return r.err == nil && r.status == 200 }, 200, 1},
		{sandbox.Fault{Kind: sandbox.Truncate}, func(r reply) bool {
			return r.status == 200 && errors.Is(r.err, io.ErrUnexpectedEOF) && bytes.HasPrefix(r.body, []byte("{")) && !json.Valid(r.body)
		}, 200, 1},
		{sandbox.Fault{Kind: sandbox.HTML}, func(r reply) bool {
			return r.status == 200 && strings.HasPrefix(r.header.Get("Content-Type"), "text/html") && bytes.HasPrefix(r.body, []byte("<!DOCTYPE html>"))
		}, 200, 1},
		{sandbox.Fault{Kind: sandbox.Status, Status: 503}, func(r reply) bool { return r.status == 503 }, 503, 0},
		{sandbox.Fault{Kind: sandbox.NoWebhooks}, func(r reply) bool { return r.status == 200 }, 200, 1},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			t.Parallel()
			sb, url, _ := open(t, "")
			if err := sb.Fail(c.fault); err != nil {
				t.Fatal(err)
			}
			if r := pay(t, url, "k-1"); !c.first(r) {
				t.Fatalf("first send: %d %v %s, %v", r.status, r.header, r.body, r.err)
			}
			ledger := sb.Ledger()
			if len(ledger.PaymentIntents) != c.done || ledger.Requests[0].Status != c.logged {
				t.Fatalf("%d payments, logged %+v", len(ledger.PaymentIntents), ledger.Requests)
			}
			r := pay(t, url, "k-1")
			if replayed := r.header.Get("Idempotent-Replayed") == "true"; r.status != 200 || replayed != (c.done == 1) {
				t.Fatalf("second send: %d %s, replayed %t", r.status, r.body, replayed)
			}
			ledger = sb.Ledger()
			if len(ledger.PaymentIntents) != 1 || ledger.PaymentIntents[0].IdempotencyKey != "k-1" || ledger.PaymentIntents[0].Account != "acct_shop" {
				t.Fatalf("payments: %+v", ledger.PaymentIntents)
			}
		})
	}
}

// TestClientGivesUp is an answer that comes after the client's own timeout: the payment is made all the same.
func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	if err := sb.Fail(sandbox.Fault{Kind: sandbox.Delay, DelayMS: 300}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/payment_intents", strings.NewReader(goodForm+"k-1"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer sk_test_shop"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	if resp, err := (&http.Client{Timeout: 50 * time.Millisecond}).Do(req); err == nil {
		resp.Body.Close()
		t.Fatal("the client did not give up")
	}
	for deadline := time.Now().Add(30 * time.Second); len(sb.Ledger().PaymentIntents) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the payment was never made")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestNothingIsAnsweredThatIsNotKept closes the journal under a running server.
func TestNothingIsAnsweredThatIsNotKept(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, filepath.Join(t.TempDir(), "journal"))
	if err := sb.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []reply{pay(t, url, "k-1"), mail(t, url, "m-1")} {
		if r.status != 500 {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
	if l := sb.Ledger(); len(l.PaymentIntents)+len(l.Mails) != 0 {
		t.Errorf("ledger: %+v", l)
	}
	if err := sb.Advance(time.Hour); err == nil {
		t.Error("the clock moved without being kept")
	}
}

func TestFaultMatching(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	for _, f := range []sandbox.Fault{
		{Method: "GET", Kind: sandbox.Status, Status: 500, Times: sandbox.Forever},
		{Path: "/v1/payment_intents/*", Kind: sandbox.Status, Status: 501, Times: sandbox.Forever},
		{Path: "/v3/*", Kind: sandbox.Status, Status: 502, Times: 2},
		{IdempotencyKey: "k-bad", Kind: sandbox.Status, Status: 403, Times: sandbox.Forever},
	} {
		if err := sb.Fail(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		got    reply
		status int
	}{
		{pay(t, url, "k-1"), 200},
		{pay(t, url, "k-bad"), 403},
		{pay(t, url, "k-bad"), 403},
		{call(t, "GET", url+"/v1/account", ""), 500},
		{call(t, "POST", url+"/v1/payment_intents/pi_1/cancel", ""), 501},
		{mail(t, url, "m-1"), 502},
		{mail(t, url, "m-1"), 502},
		{mail(t, url, "m-1"), 202},
	} {
		if want.got.status != want.status {
			t.Errorf("got %d, want %d: %s", want.got.status, want.status, want.got.body)
		}
	}
	if n := len(sb.Faults()); n != 3 {
		t.Errorf("%d faults are armed, want 3", n)
	}
	if n := sb.ClearFaults(); n != 3 || len(sb.Faults()) != 0 {
		t.Errorf("cleared %d", n)
	}
	if r := pay(t, url, "k-bad"); r.status != 200 {
		t.Errorf("after clearing: %d", r.status)
	}
}

// TestProbability leaves a chance of about one in 10^18 to fail by bad luck.
func TestProbability(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	if err := sb.Fail(sandbox.Fault{Kind: sandbox.Status, Status: 500, Probability: 0.5, Times: sandbox.Forever}); err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for range 60 {
		seen[call(t, "GET", url+"/v1/account", "", "Authorization", "Bearer sk_test_shop").status]++
	}
	if seen[200] == 0 || seen[500] == 0 || seen[200]+seen[500] != 60 {
		t.Fatalf("statuses: %v", seen)
	}
}
