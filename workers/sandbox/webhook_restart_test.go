package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// What was not delivered before a restart is delivered after it, to the same URL under the same secret; nothing else is.
func TestUndeliveredSurvivesRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	sb, url, stop := open(t, path)
	down := receive(t, func(int) int { return 503 })
	if err := sb.SetWebhooks(sandbox.Webhooks{SendGridURL: down.url}); err != nil {
		t.Fatal(err)
	}
	payWith(t, url, "k-1", "pm_card_visa") // recorded
	up := receive(t, nil)
	if err := sb.SetWebhooks(sandbox.Webhooks{StripeURL: up.url, StripeSecret: secret, SendGridURL: down.url}); err != nil {
		t.Fatal(err)
	}
	payWith(t, url, "k-2", "pm_card_visa") // delivered
	await(t, "two deliveries", func() bool {
		events := sb.Events()
		return events[2].State == sandbox.Delivered && events[3].State == sandbox.Delivered
	})
	mail(t, url, "m-1") // pending
	await(t, "a refusal", func() bool { return len(down.all()) > 0 })
	before, key := sb.Events(), sb.SendGridPublicKey()
	stop()

	again := receive(t, nil)
	sb2, err := sandbox.New(sandbox.Options{JournalPath: path, Webhooks: sandbox.Webhooks{SendGridURL: again.url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb2.Close(); err != nil {
			t.Error(err)
		}
	})
	after := settled(t, sb2)
	if len(after) != len(before) || !slices.Equal(types(after), types(before)) {
		t.Fatalf("%v became %v", types(before), types(after))
	}
	for i := range before {
		if after[i].ID != before[i].ID || string(after[i].Payload) != string(before[i].Payload) {
			t.Errorf("%+v became %+v", before[i], after[i])
		}
	}
	if n := len(up.all()); n != 2 {
		t.Errorf("Stripe's events were sent %d times, want 2", n)
	}
	if n := len(again.all()); n != 1 || sb2.SendGridPublicKey() != key {
		t.Fatalf("%d batches, or another key", n)
	}
	if batch := again.all()[0].batch(t, key); len(batch) != 2 {
		t.Errorf("batch: %v", batch)
	}
	if w := sb2.Webhooks(); w.StripeURL != up.url || w.StripeSecret != secret {
		t.Errorf("%+v", w)
	}
}

// TestHookChild is the process that TestKilledProcessTellsEverything kills.
func TestHookChild(t *testing.T) {
	path := os.Getenv(hookChildEnv)
	if path == "" {
		t.Skip("runs as a child of another test only")
	}
	sb, url, _ := open(t, path)
	toStripe(t, sb, receive(t, func(int) int { return 503 }))
	for i := 0; ; i++ {
		payWith(t, url, fmt.Sprint("k-", i), "pm_card_visa")
		fmt.Printf("paid k-%d\n", i)
	}
}

const hookChildEnv = "ONCEPAY_SANDBOX_TEST_HOOK_JOURNAL"

func TestKilledProcessTellsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHookChild$")
	child.Env = append(os.Environ(), hookChildEnv+"="+path)
	killAfter(t, child, 20)

	r := receive(t, nil)
	sb, err := sandbox.New(sandbox.Options{JournalPath: path, Webhooks: sandbox.Webhooks{StripeURL: r.url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
	})
	told := map[string]int{}
	for _, e := range settled(t, sb) {
		told[e.Type+" "+e.About]++
	}
	payments := sb.Ledger().PaymentIntents
	if len(payments) < 20 || len(told) != 2*len(payments) {
		t.Errorf("%d payments, %d events", len(payments), len(told))
	}
	for _, p := range payments {
		for _, kind := range []string{"payment_intent.created ", "payment_intent.succeeded "} {
			if n := told[kind+p.ID]; n != 1 {
				t.Errorf("%s%s was told %d times", kind, p.ID, n)
			}
		}
	}
}
