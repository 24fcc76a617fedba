package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox"
)

func TestStateSurvivesRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "journal")
	sb, url, stop := open(t, path)
	first := pay(t, url, "k-1")
	declined := call(t, "POST", url+"/v1/payment_intents", strings.Replace(goodForm, "pm_card_visa", "pm_card_chargeDeclined", 1)+"k-2",
		"Authorization", "Bearer sk_test_shop", "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "k-2")
	if first.status != 200 || declined.status != 402 || mail(t, url, "m-1").status != 202 {
		t.Fatalf("%d %d", first.status, declined.status)
	}
	if err := sb.Advance(10 * time.Hour); err != nil {
		t.Fatal(err)
	}
	before := sb.Ledger()
	stop()

	for range 2 { // the second start reads what the first one compacted
		sb, url, stop = open(t, path)
		after := sb.Ledger()
		if after.Now.Before(before.Now) {
			t.Fatalf("the clock went back from %s to %s", before.Now, after.Now)
		}
		after.Now = before.Now
		if got, want := fmt.Sprintf("%+v", after), fmt.Sprintf("%+v", before); got != want {
			t.Fatalf("the ledger changed:\n%s\n%s", got, want)
		}
		if again := pay(t, url, "k-1"); string(again.body) != string(first.body) || again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("the key was forgotten: %s", again.body)
		}
		before = sb.Ledger()
		stop()
	}
}

// What is under way goes on after a restart as if there had been none, and what happened meanwhile is told once.
func TestRefundsAndDisputesSurviveRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	sb, url, stop := open(t, path)
	refunded, disputed := payWith(t, url, "k-1", "pm_card_refundFail"), payWith(t, url, "k-2", "pm_card_visa")
	act(t, url, "/v1/refunds", "amount=99&payment_intent="+refunded)
	if err := sb.Dispute(disputed, sandbox.Challenge{}); err != nil {
		t.Fatal(err)
	}
	debit := payWith(t, url, "k-3", "pm_usBankAccount")
	before := sb.Ledger()
	stop()

	for _, advance := range []time.Duration{0, 10 * 24 * time.Hour, time.Hour} {
		sb, _, stop = open(t, path)
		if advance > 0 {
			if err := sb.Advance(advance); err != nil {
				t.Fatal(err)
			}
		} else if after := sb.Ledger(); fmt.Sprint(after.Refunds, after.Disputes, after.PaymentIntents) != fmt.Sprint(before.Refunds, before.Disputes, before.PaymentIntents) {
			t.Fatalf("%+v became %+v", before, after)
		}
		stop()
	}
	sb, _, _ = open(t, path)
	after := sb.Ledger()
	if after.Refunds[0].Status != "failed" || after.Disputes[0].Status != "lost" || after.PaymentIntents[0].AmountRefunded != 0 {
		t.Fatalf("%+v", after)
	}
	told := map[string]int{}
	for _, e := range sb.Events() {
		told[e.Type+" "+e.About]++
	}
	for _, one := range []string{"refund.created " + after.Refunds[0].ID, "refund.failed " + after.Refunds[0].ID, "payment_intent.succeeded " + debit,
		"charge.dispute.created " + after.Disputes[0].ID, "charge.dispute.closed " + after.Disputes[0].ID} {
		if told[one] != 1 {
			t.Errorf("%s was told %d times", one, told[one])
		}
	}
}

func TestTornLastLineIsDropped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	_, url, stop := open(t, path)
	pay(t, url, "k-1")
	stop()
	appendTo(t, path, `[{"kind":"stripe.payment_intent","value":{"ID":"pi_to`)

	sb, url, _ := open(t, path)
	if n := len(sb.Ledger().PaymentIntents); n != 1 {
		t.Fatalf("%d payments, want 1", n)
	}
	if r := pay(t, url, "k-2"); r.status != 200 {
		t.Fatalf("after a torn line: %d", r.status)
	}
}

func TestSpoiltJournalIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	appendTo(t, path, "not JSON\n[]\n")
	_, err := sandbox.New(sandbox.Options{JournalPath: path})
	if err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Fatalf("got %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "not JSON\n[]\n" {
		t.Fatalf("the journal was changed: %q, %v", raw, err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	_, _, stop := open(t, path)
	if _, err := sandbox.New(sandbox.Options{JournalPath: path}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v", err)
	}
	stop()
	open(t, path)
}

const childEnv = "ONCEPAY_SANDBOX_TEST_JOURNAL"

// TestChild is the process that TestKilledProcessForgetsNothing kills.
func TestChild(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		t.Skip("runs as a child of another test only")
	}
	_, url, _ := open(t, path)
	for i := 0; ; i++ {
		if r := pay(t, url, fmt.Sprint("k-", i)); r.status != 200 {
			t.Fatalf("payment %d: %d %s", i, r.status, r.body)
		}
		fmt.Printf("paid k-%d\n", i)
	}
}

func TestKilledProcessForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	child.Env = append(os.Environ(), childEnv+"="+path)
	killAfter(t, child, 20)

	sb, _, _ := open(t, path)
	kept := map[string]int{}
	for _, p := range sb.Ledger().PaymentIntents {
		kept[p.IdempotencyKey]++
	}
	for i := range 20 {
		if key := fmt.Sprint("k-", i); kept[key] != 1 {
			t.Errorf("%s was answered and is kept %d times", key, kept[key])
		}
	}
}

// killAfter starts the child and kills it when it has printed so many lines.
func killAfter(t *testing.T, child *exec.Cmd, lines int) {
	t.Helper()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	buf := make([]byte, 4096)
	for strings.Count(told.String(), "\n") < lines {
		n, err := out.Read(buf)
		told.Write(buf[:n])
		if err != nil {
			t.Fatalf("the child ended early: %v\n%s", err, told.String())
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child was not killed")
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
