package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/outbox"
)

// What waits for its buyer or its bank goes on when Stripe's events say so: each in seconds, and a bank's after days.
func TestI3BuyersAndBanks(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	d.box.hear(api.url)
	d.worker()
	post := func(method string) (key string) {
		key = newKey()
		d.mustPost(api.url, key, cardCharge(method, "buyer"))
		return key
	}
	passes, fails := post("pm_card_authenticationRequired"), post("pm_card_authenticationRequired")
	good, bad := post("pm_usBankAccount"), post("pm_usBankAccount_insufficientFunds")

	for _, key := range []string{passes, fails} {
		c := d.awaitStatus(api, key, client.StatusRequiresAction)
		if c.NextAction == nil || !strings.HasPrefix(c.NextAction.ClientSecret, c.PaymentIntent+"_secret_") {
			t.Errorf("the buyer's page gets no client secret: %s", c.Raw)
		}
	}
	d.wantSecretKept(api, passes)
	d.box.authenticate(d.box.ledger().paymentOf(passes), "succeeded")
	d.box.authenticate(d.box.ledger().paymentOf(fails), "failed")
	paid := d.awaitStatus(api, passes, client.StatusSucceeded)
	failed := d.awaitStatus(api, fails, client.StatusFailed)
	if failed.Failure == nil || failed.Failure.Code != "payment_intent_authentication_failure" {
		t.Errorf("failure: %s", failed.Raw)
	}
	for _, c := range []*client.Charge{paid, failed} {
		if c.NextAction != nil {
			t.Errorf("a client secret that nobody needs: %s", c.Raw)
		}
	}
	if status := d.box.ledger().statusOf(fails); status != "canceled" {
		t.Errorf("failed, and at Stripe the payment is %s", status)
	}

	await(t, patience, "the debits are at the bank", func() error {
		for _, key := range []string{good, bad} {
			if c := d.charge(api, key); c.Status != client.StatusProcessing || c.PaymentIntent == "" || c.Receipt != nil {
				return fmt.Errorf("one is %s", c.Raw)
			}
		}
		return nil
	})
	d.box.advance("73h")
	d.awaitStatus(api, good, client.StatusSucceeded)
	if c := d.awaitStatus(api, bad, client.StatusFailed); c.Failure == nil || c.Failure.Code == "" || c.Receipt != nil {
		t.Errorf("the bank's refusal: %s", c.Raw)
	}
	d.awaitReceipt(api, passes, "delivered")
	d.awaitReceipt(api, good, "delivered")
	l := d.box.ledger()
	for key, mails := range map[string]int{passes: 1, fails: 0, good: 1, bad: 0} {
		if all, _ := l.payments(key); all != 1 || l.mails(key) != mails {
			t.Errorf("%d payments, %d mails", all, l.mails(key))
		}
	}
}

// wantSecretKept checks that only the charge's own caller gets its client secret.
func (d *deployment) wantSecretKept(api service, key string) {
	d.t.Helper()
	box, err := outbox.New(d.pool)
	if err != nil {
		d.t.Fatal(err)
	}
	service := charges.New(d.pool, box, charges.Options{})
	for token, role := range map[string]charges.Role{"token_of_an_operator": charges.Operator, "token_of_a_florist": charges.Caller} {
		if err := service.AddToken(d.t.Context(), token, token, role); err != nil {
			d.t.Fatal(err)
		}
	}
	id := d.charge(api, key).ID
	for _, path := range []string{"/charges/" + id, "/charges/" + id + "/events", "/charges?status=requires_action", "/idempotency-keys/" + key} {
		for token, want := range map[string]int{"token_of_an_operator": http.StatusOK, "token_of_a_florist": http.StatusNotFound} {
			a, err := call(http.MethodGet, api.url+path, "", map[string]string{"Authorization": "Bearer " + token}, nil)
			if strings.Contains(path, "?") {
				want = http.StatusOK // an empty list
			}
			switch {
			case err != nil:
				d.t.Fatal(err)
			case a.status != want || strings.Contains(a.body, "_secret_"):
				d.t.Errorf("%s asks for %s: %v", token, path, a)
			case want == http.StatusOK && token == "token_of_an_operator" && !strings.Contains(a.body, id) && !strings.Contains(path, "events"):
				d.t.Errorf("%s does not see %s: %v", token, path, a)
			}
		}
	}
}

// statusOf is the status at Stripe of the key's one payment.
func (l ledger) statusOf(key string) string {
	for _, p := range l.Payments {
		if p.Metadata["oncepay_key"] == key {
			return p.Status
		}
	}
	return ""
}
