package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

// charging is the charge command as a user of the API.
func (d *deployment) charging(api service, args ...string) launch {
	l := oncepayArgs(append([]string{"charge"}, args...)...)
	l.env = []string{"ONCEPAY_URL=" + api.url, "ONCEPAY_TOKEN=" + d.token}
	l.secrets = []string{d.token}
	return l
}

func readCharge(t *testing.T, stdout string) (c client.Charge) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &c); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return c
}

func TestChargeCommand(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	d.worker()
	create := []string{"create", "--amount=1099", "--currency=usd", "--payment-method=pm_card_visa", "--receipt-email=me@" + buyersHost,
		"--reference=order-1", "--metadata=table=4", "--wait=50s"}

	first := d.charging(api, create...).run(t)
	key := regexp.MustCompile(`^idempotency key: (\S{36})\n$`).FindStringSubmatch(first.stderr)
	if first.code != 0 || key == nil {
		t.Fatalf("exit %d: %s", first.code, first.stderr)
	}
	c := readCharge(t, first.stdout)
	if c.Status != client.StatusSucceeded || c.IdempotencyKey != key[1] || c.Amount != 1099 || c.Reference != "order-1" || c.Metadata["table"] != "4" {
		t.Errorf("created %s", first.stdout)
	}

	if strings.Contains(first.stdout, "0001-01-01") || !strings.HasPrefix(first.stdout, "{\n  \"id\": ") {
		t.Errorf("not the charge as the API sent it: %s", first.stdout)
	}

	again := readCharge(t, d.charging(api, append(create, "--key="+key[1])...).must(t))
	got := readCharge(t, d.charging(api, "get", c.ID).must(t))
	if again.ID != c.ID || got.ID != c.ID || got.Status != client.StatusSucceeded {
		t.Errorf("created %s, again %s, got %s (%s)", c.ID, again.ID, got.ID, got.Status)
	}
	if all, succeeded := d.box.ledger().payments(key[1]); all != 1 || succeeded != 1 {
		t.Errorf("%d payments, %d succeeded", all, succeeded)
	}

	other := d.charging(api, "create", "--key="+key[1], "--amount=1100", "--currency=usd", "--payment-method=pm_card_visa").run(t)
	if other.code != 1 || other.stdout != "" || !strings.Contains(other.stderr, "\noncepay: 422 idempotency_key_reused") {
		t.Errorf("another request under the key: exit %d: %s%s", other.code, other.stdout, other.stderr)
	}
	if r := d.charging(api, "get", "nothing").run(t); r.code != 1 || !strings.HasPrefix(r.stderr, "oncepay: 404 not_found") {
		t.Errorf("no such charge: exit %d: %s", r.code, r.stderr)
	}

	held := readCharge(t, d.charging(api, "create", "--amount=500", "--currency=eur", "--payment-method=pm_card_visa", "--manual", "--wait=50s").must(t))
	declined := readCharge(t, d.charging(api, "create", "--amount=500", "--currency=eur", "--payment-method=pm_card_chargeDeclined", "--wait=50s").must(t))
	if held.Status != client.StatusRequiresCapture || declined.Status != client.StatusFailed || declined.Failure == nil {
		t.Errorf("held %s, declined %s", held.Status, declined.Status)
	}
}
