package stripetest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"
)

// post sends a raw form without an idempotency key.
func post(t *testing.T, s shop, path, form string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk_test_shop")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatalf("%d %s: %v", resp.StatusCode, raw, err)
	}
	return resp.StatusCode, body
}

func TestCardSucceeds(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, method := range []string{"pm_card_visa", "pm_card_mastercard", "pm_card_amex"} {
		p := payment("k-"+method, method)
		p.Customer, p.Description = stripe.String("cus_1"), stripe.String("two books")
		p.StatementDescriptorSuffix = stripe.String("ORDER 7")
		pi, err := s.PaymentIntents.New(p)
		if err != nil {
			t.Fatal(err)
		}
		if pi.Status != stripe.PaymentIntentStatusSucceeded || pi.AmountReceived != 1099 || pi.LatestCharge == nil || pi.Livemode ||
			pi.Customer.ID != "cus_1" || pi.Description != "two books" || pi.Metadata["oncepay_key"] != "k-"+method ||
			pi.ClientSecret == "" || pi.PaymentMethod.ID != method || pi.Created == 0 || pi.StatementDescriptorSuffix != "ORDER 7" {
			t.Errorf("%s: %s", method, pi.LastResponse.RawJSON)
		}
		got, err := s.PaymentIntents.Get(pi.ID, nil)
		if err != nil || got.Status != pi.Status || got.Metadata["oncepay_key"] != "k-"+method {
			t.Errorf("read back: %v, %v", got, err)
		}
	}
}

func TestDeclines(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		method  string
		code    stripe.ErrorCode
		decline stripe.DeclineCode
		advice  string
	}{
		{"pm_card_chargeDeclined", "card_declined", "generic_decline", ""},
		{"pm_card_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds", "try_again_later"},
		{"pm_card_chargeDeclinedStolenCard", "card_declined", "stolen_card", "do_not_try_again"},
		{"pm_card_chargeDeclinedLostCard", "card_declined", "lost_card", "do_not_try_again"},
		{"pm_card_chargeDeclinedExpiredCard", "expired_card", "expired_card", "confirm_card_data"},
		{"pm_card_chargeDeclinedProcessingError", "processing_error", "processing_error", "try_again_later"},
		{"pm_sandbox_declined_do_not_try_again", "card_declined", "do_not_try_again", "do_not_try_again"},
		{"pm_sandbox_declined_never_heard_of", "card_declined", "never_heard_of", ""},
	} {
		_, err := s.PaymentIntents.New(payment("k-"+c.method, c.method))
		e := refused(t, err, 402, c.code)
		if e.Type != stripe.ErrorTypeCard || e.DeclineCode != c.decline || e.ChargeID == "" {
			t.Errorf("%s: %v", c.method, e)
		}
		pi := e.PaymentIntent
		if pi == nil || pi.Status != stripe.PaymentIntentStatusRequiresPaymentMethod || pi.ClientSecret == "" || pi.PaymentMethod != nil ||
			pi.LastPaymentError == nil || pi.LastPaymentError.DeclineCode != c.decline || pi.LastPaymentError.PaymentMethod.ID != c.method {
			t.Errorf("%s: payment_intent %s", c.method, e.LastResponse.RawJSON)
		}
		var raw struct {
			Error struct {
				Advice string `json:"advice_code"`
			} `json:"error"`
		}
		if err := json.Unmarshal(e.LastResponse.RawJSON, &raw); err != nil || raw.Error.Advice != c.advice {
			t.Errorf("%s: advice %q, %v", c.method, raw.Error.Advice, err)
		}
	}
}

func TestDeclinedPaymentTakesAnotherCard(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, err := s.PaymentIntents.New(payment("k-1", "pm_card_chargeDeclined"))
	id := refused(t, err, 402, stripe.ErrorCodeCardDeclined).PaymentIntent.ID
	pi, err := s.PaymentIntents.Confirm(id, &stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String("pm_card_visa")})
	if err != nil || pi.Status != stripe.PaymentIntentStatusSucceeded || pi.LastPaymentError != nil {
		t.Fatalf("%v, %v", pi, err)
	}
	_, err = s.PaymentIntents.Confirm(id, &stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String("pm_card_visa")})
	refused(t, err, 400, stripe.ErrorCodePaymentIntentUnexpectedState)
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	s := start(t)
	off := payment("k-off", "pm_card_authenticationRequired")
	off.OffSession = stripe.Bool(true)
	_, err := s.PaymentIntents.New(off)
	if e := refused(t, err, 402, stripe.ErrorCodeAuthenticationRequired); e.DeclineCode != "authentication_required" {
		t.Fatalf("decline code %q", e.DeclineCode)
	}

	pi, err := s.PaymentIntents.New(payment("k-on", "pm_card_threeDSecure2Required"))
	if err != nil || pi.Status != stripe.PaymentIntentStatusRequiresAction || pi.NextAction == nil || pi.NextAction.UseStripeSDK == nil {
		t.Fatalf("%v, %v", pi, err)
	}
	if err := s.sb.Authenticate(pi.ID, false); err != nil {
		t.Fatal(err)
	}
	pi, err = s.PaymentIntents.Get(pi.ID, nil)
	if err != nil || pi.Status != stripe.PaymentIntentStatusRequiresPaymentMethod || pi.LastPaymentError.Code != stripe.ErrorCodePaymentIntentAuthenticationFailure {
		t.Fatalf("%v, %v", pi, err)
	}
	pi, err = s.PaymentIntents.Confirm(pi.ID, &stripe.PaymentIntentConfirmParams{
		PaymentMethod: stripe.String("pm_card_authenticationRequired"), ReturnURL: stripe.String("https://shop.example/back"),
	})
	if err != nil || pi.NextAction == nil || pi.NextAction.RedirectToURL.ReturnURL != "https://shop.example/back" {
		t.Fatalf("%v, %v", pi, err)
	}
	if err := s.sb.Authenticate(pi.ID, true); err != nil {
		t.Fatal(err)
	}
	pi, err = s.PaymentIntents.Get(pi.ID, nil)
	if err != nil || pi.Status != stripe.PaymentIntentStatusSucceeded || pi.NextAction != nil {
		t.Fatalf("%v, %v", pi, err)
	}
	if err := s.sb.Authenticate(pi.ID, true); err == nil {
		t.Fatal("a settled payment was authenticated")
	}
}

func TestCaptureAndCancel(t *testing.T) {
	t.Parallel()
	s := start(t)
	hold := func(key string) *stripe.PaymentIntent {
		p := payment(key, "pm_card_visa")
		p.CaptureMethod = stripe.String("manual")
		pi, err := s.PaymentIntents.New(p)
		if err != nil || pi.Status != stripe.PaymentIntentStatusRequiresCapture || pi.AmountCapturable != 1099 || pi.AmountReceived != 0 {
			t.Fatalf("%v, %v", pi, err)
		}
		return pi
	}
	a := hold("k-1")
	tooMuch := &stripe.PaymentIntentCaptureParams{AmountToCapture: stripe.Int64(2000)}
	tooMuch.AddMetadata("note", "never kept")
	_, err := s.PaymentIntents.Capture(a.ID, tooMuch)
	refused(t, err, 400, stripe.ErrorCodeAmountTooLarge)
	if p := s.sb.Ledger().PaymentIntents[0]; p.Status != "requires_capture" || p.Metadata["note"] != "" {
		t.Fatalf("a refused capture changed the payment: %+v", p)
	}
	pi, err := s.PaymentIntents.Capture(a.ID, &stripe.PaymentIntentCaptureParams{AmountToCapture: stripe.Int64(700)})
	if err != nil || pi.Status != stripe.PaymentIntentStatusSucceeded || pi.AmountReceived != 700 || pi.AmountCapturable != 0 {
		t.Fatalf("%v, %v", pi, err)
	}
	_, err = s.PaymentIntents.Cancel(a.ID, nil)
	if e := refused(t, err, 400, stripe.ErrorCodePaymentIntentUnexpectedState); e.PaymentIntent.Status != stripe.PaymentIntentStatusSucceeded {
		t.Fatalf("%v", e)
	}
	b := hold("k-2")
	pi, err = s.PaymentIntents.Cancel(b.ID, &stripe.PaymentIntentCancelParams{CancellationReason: stripe.String("abandoned")})
	if err != nil || pi.Status != stripe.PaymentIntentStatusCanceled || pi.CanceledAt == 0 || pi.CancellationReason != "abandoned" {
		t.Fatalf("%v, %v", pi, err)
	}
	_, err = s.PaymentIntents.Capture(b.ID, nil)
	refused(t, err, 400, stripe.ErrorCodePaymentIntentUnexpectedState)

	c := hold("k-3")
	if err := s.sb.Advance(7*24*time.Hour + time.Second); err != nil {
		t.Fatal(err)
	}
	pi, err = s.PaymentIntents.Get(c.ID, nil)
	if err != nil || pi.Status != stripe.PaymentIntentStatusCanceled || pi.CancellationReason != "automatic" {
		t.Fatalf("%v, %v", pi, err)
	}
	pi, err = s.PaymentIntents.Get(a.ID, nil)
	if err != nil || pi.Status != stripe.PaymentIntentStatusSucceeded {
		t.Fatalf("a captured payment expired: %v, %v", pi, err)
	}
}

func TestBankDebitSettlesLater(t *testing.T) {
	t.Parallel()
	s := start(t)
	want := map[string]stripe.PaymentIntentStatus{
		"pm_usBankAccount_success":           stripe.PaymentIntentStatusSucceeded,
		"pm_usBankAccount_insufficientFunds": stripe.PaymentIntentStatusRequiresPaymentMethod,
		"pm_usBankAccount_processing":        stripe.PaymentIntentStatusProcessing,
	}
	ids := map[string]string{}
	for method := range want {
		pi, err := s.PaymentIntents.New(payment("k-"+method, method))
		if err != nil || pi.Status != stripe.PaymentIntentStatusProcessing {
			t.Fatalf("%v, %v", pi, err)
		}
		ids[method] = pi.ID
	}
	if err := s.sb.Advance(72 * time.Hour); err != nil {
		t.Fatal(err)
	}
	for method, status := range want {
		pi, err := s.PaymentIntents.Get(ids[method], nil)
		if err != nil || pi.Status != status || (pi.AmountReceived == 1099) != (status == stripe.PaymentIntentStatusSucceeded) {
			t.Errorf("%s: %s, %v", method, pi.Status, err)
		}
	}
}

func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	const card = "&payment_method=pm_card_visa&confirm=true"
	const never = "&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never"
	for form, want := range map[string]string{
		"currency=usd":                             "parameter_missing",
		"amount=100":                               "parameter_missing",
		"amount=1.5&currency=usd":                  "parameter_invalid_integer",
		"amount=0&currency=usd":                    "parameter_invalid_integer",
		"amount=-1&currency=usd":                   "parameter_invalid_integer",
		"amount=49&currency=usd":                   "amount_too_small",
		"amount=49&currency=JPY":                   "amount_too_small",
		"amount=100000000&currency=usd":            "amount_too_large",
		"amount=100&currency=xyz":                  "",
		"amount=12345&currency=kwd":                "",
		"amount=150&currency=isk":                  "",
		"amount=100&currency=usd&colour=red":       "parameter_unknown",
		"amount=100&currency=usd&metadata[a][b]=c": "",
		"amount=100&currency=usd&metadata[" + strings.Repeat("k", 41) + "]=v":            "",
		"amount=100&currency=usd&metadata[k]=" + strings.Repeat("v", 501):                "",
		"amount=100&currency=usd&statement_descriptor_suffix=12345":                      "",
		"amount=100&currency=usd&statement_descriptor_suffix=a%3Cb":                      "",
		"amount=100&currency=usd&statement_descriptor_suffix=Caf%C3%A9":                  "",
		"amount=100&currency=usd&statement_descriptor_suffix=" + strings.Repeat("a", 23): "",
		"amount=100&currency=usd&customer=bob":                                           "resource_missing",
		"amount=100&currency=usd&off_session=true":                                       "",
		"amount=100&currency=usd" + card:                                                 "", // neither return_url nor allow_redirects=never
		"amount=100&currency=usd&confirm=true" + never:                                   "payment_intent_unexpected_state",
		"amount=100&currency=usd&confirm=true&payment_method=pm_x" + never:               "resource_missing",
		"amount=100&currency=eur&confirm=true&payment_method=pm_usBankAccount" + never:   "payment_intent_invalid_parameter",
	} {
		status, body := post(t, s, "/v1/payment_intents", form)
		e, _ := body["error"].(map[string]any)
		code, _ := e["code"].(string)
		if status != 400 || code != want || e["type"] != "invalid_request_error" || e["message"] == "" {
			t.Errorf("%s: got %d %v, want code %q", form, status, body, want)
		}
	}
	s.wantPayments(t, 0)
	for form, want := range map[string]string{
		"amount=500&currency=JPY":                                         "requires_payment_method",
		"amount=12340&currency=kwd":                                       "requires_payment_method",
		"amount=100&currency=usd&payment_method=pm_card_visa":             "requires_confirmation",
		"amount=100&currency=usd" + card + "&return_url=https://a.b/c":    "succeeded",
		"amount=100&currency=usd" + card + "&payment_method_types[]=card": "succeeded",
		"amount=100&currency=usd" + card + never:                          "succeeded",
	} {
		if status, body := post(t, s, "/v1/payment_intents", form); status != 200 || body["status"] != want {
			t.Errorf("%s: got %d %v, want %s", form, status, body, want)
		}
	}
}

func TestAccountsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi := s.pay(t, "k-1")
	rolled, other, live := s.as("rk_test_shop_2027"), s.as("sk_test_other"), s.as("sk_live_shop")

	if got := rolled.pay(t, "k-1"); got.ID != pi.ID {
		t.Fatal("a rolled key of the account lost its idempotency keys")
	}
	for name, stranger := range map[string]shop{"account": other, "mode": live} {
		_, err := stranger.PaymentIntents.Get(pi.ID, nil)
		refused(t, err, 404, stripe.ErrorCodeResourceMissing)
		if got := stranger.pay(t, "k-1"); got.ID == pi.ID || got.Livemode != (name == "mode") {
			t.Fatalf("another %s shares the key", name)
		}
	}
	s.wantPayments(t, 3)
	for _, c := range []struct {
		shop
		account string
		live    bool
	}{{s, "acct_shop", false}, {rolled, "acct_shop", false}, {other, "acct_other", false}, {live, "acct_shop", true}} {
		account, err := c.Accounts.Get()
		if err != nil || account.ID != c.account {
			t.Fatalf("account %v, %v, want %s", account, err, c.account)
		}
		balance, err := c.Balance.Get(nil)
		if err != nil || balance.Livemode != c.live || balance.Available[0].Amount != 1099 {
			t.Fatalf("balance %v, %v", balance, err)
		}
	}
}

func TestUnknownPathsAndKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	if status, body := post(t, s, "/v1/customers", "email=a@b.example"); status != 404 || body["error"] == nil {
		t.Fatalf("%d %v", status, body)
	}
	for _, key := range []string{"", "sk_test_", "pk_test_shop", "sk_prod_shop"} {
		_, err := s.as(key).Accounts.Get()
		if key == "" {
			if err == nil {
				t.Fatal("no key, and no error")
			}
			continue
		}
		refused(t, err, 401, "")
	}
}
