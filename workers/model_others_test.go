package workers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// waiting are the payments with which their buyers, who have the client secret, can go on: not over, and not at the bank.
func (w *world) waiting() (payments []string) {
	for _, p := range w.sandbox.Ledger().PaymentIntents {
		if w.handed[p.ID] && (p.Status == "requires_action" || p.Status == "requires_payment_method") {
			payments = append(payments, p.ID)
		}
	}
	return payments
}

// buyer goes on with a payment, on a page that may be old: Stripe refuses what is over.
func (w *world) buyer(payment, does string) {
	w.t.Helper()
	switch does {
	case "takes another card":
		w.ask("/v1/payment_intents/"+payment+"/confirm", "", url.Values{"payment_method": {"pm_card_visa"}, "return_url": {"https://shop.example/back"}})
	default:
		_ = w.sandbox.Authenticate(payment, does == "passes the check") // refused where there is nothing to pass
	}
	w.check()
}

// strangers make payments that are none of ours, now.
func (w *world) strangers(n int) {
	w.t.Helper()
	for i := range n {
		status := w.ask("/v1/payment_intents", fmt.Sprintf("stranger-%d", i), url.Values{"amount": {"100"}, "currency": {"usd"}, "confirm": {"true"},
			"payment_method": {"pm_card_visa"}, "automatic_payment_methods[enabled]": {"true"}, "automatic_payment_methods[allow_redirects]": {"never"}})
		if status != http.StatusOK {
			w.t.Fatalf("a stranger's payment: HTTP %d", status)
		}
	}
}

// ask posts to Stripe as somebody else than our workers, and returns the answer's status; 0: there was none.
func (w *world) ask(path, key string, form url.Values) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.stage.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	req.SetBasicAuth("sk_test_home", "")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0 // an outage is one for everybody
	}
	if err := resp.Body.Close(); err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode
}
