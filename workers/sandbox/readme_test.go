package sandbox_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestREADME runs the README's examples as one script.
func TestREADME(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sb, url, _ := open(t, "")
	script := "set -eu\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		script += strings.ReplaceAll(block[1], "http://127.0.0.1:12111", url)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ledger := sb.Ledger()
	if len(ledger.Refunds) != 1 || ledger.Refunds[0].Status != "failed" || len(ledger.Disputes) != 1 || ledger.Disputes[0].Status != "won" {
		t.Errorf("refunds %+v, disputes %+v", ledger.Refunds, ledger.Disputes)
	}
	if len(ledger.Mails) != 1 || len(ledger.PaymentIntents) != 2 || len(sb.Faults()) != 0 {
		t.Fatalf("ledger: %+v", ledger)
	}
	for _, p := range ledger.PaymentIntents {
		if p.Status != "succeeded" || p.Account != "acct_shop" {
			t.Errorf("payment: %+v", p)
		}
	}
}
