package sandbox_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// payWith makes a payment of 1099 usd and returns its id.
func payWith(t *testing.T, url, key, method string, more ...string) string {
	t.Helper()
	form := strings.Replace(goodForm, "pm_card_visa", method, 1) + key
	form = strings.Replace(form, "payment_method_types[]=card", "automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never", 1)
	r := call(t, "POST", url+"/v1/payment_intents", strings.Join(append([]string{form}, more...), "&"),
		"Authorization", "Bearer sk_test_shop", "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", key)
	var body struct {
		ID    string
		Error struct {
			PaymentIntent struct{ ID string } `json:"payment_intent"`
		}
	}
	if err := json.Unmarshal(r.body, &body); err != nil || body.ID+body.Error.PaymentIntent.ID == "" {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return body.ID + body.Error.PaymentIntent.ID
}

// act posts to a payment or refund, as its owner.
func act(t *testing.T, url, path, form string) {
	t.Helper()
	r := call(t, "POST", url+path, form, "Authorization", "Bearer sk_test_shop", "Content-Type", "application/x-www-form-urlencoded")
	if r.status != 200 {
		t.Fatalf("%s: %d %s", path, r.status, r.body)
	}
}

// Every change of a payment is told once, whoever causes it, and as it was then.
func TestEveryChangeIsToldOnce(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const created = "payment_intent.created requires_confirmation"
	for name, c := range map[string]struct {
		method, more string
		then         func(t *testing.T, sb *sandbox.Sandbox, url, id string)
		want         string
	}{
		"success": {"pm_card_visa", "", nil, "payment_intent.succeeded succeeded"},
		"decline": {"pm_card_chargeDeclined", "", nil, "payment_intent.payment_failed requires_payment_method"},
		"3-D Secure passed": {"pm_card_authenticationRequired", "", func(t *testing.T, sb *sandbox.Sandbox, _, id string) { must(t, sb.Authenticate(id, true)) },
			"payment_intent.requires_action requires_action, payment_intent.succeeded succeeded"},
		"3-D Secure failed": {"pm_card_authenticationRequired", "", func(t *testing.T, sb *sandbox.Sandbox, _, id string) { must(t, sb.Authenticate(id, false)) },
			"payment_intent.requires_action requires_action, payment_intent.payment_failed requires_payment_method"},
		"failed, then paid": {"pm_card_authenticationRequired", "", func(t *testing.T, sb *sandbox.Sandbox, url, id string) {
			must(t, sb.Authenticate(id, false))
			act(t, url, "/v1/payment_intents/"+id+"/confirm", "payment_method=pm_card_visa")
		}, "payment_intent.requires_action requires_action, payment_intent.payment_failed requires_payment_method, payment_intent.succeeded succeeded"},
		"canceled": {"pm_card_authenticationRequired", "", func(t *testing.T, _ *sandbox.Sandbox, url, id string) {
			act(t, url, "/v1/payment_intents/"+id+"/cancel", "")
		}, "payment_intent.requires_action requires_action, payment_intent.canceled canceled"},
		"captured": {"pm_card_visa", "capture_method=manual", func(t *testing.T, _ *sandbox.Sandbox, url, id string) {
			act(t, url, "/v1/payment_intents/"+id+"/capture", "amount_to_capture=700")
		}, "payment_intent.amount_capturable_updated requires_capture, payment_intent.succeeded succeeded"},
		"expired": {"pm_card_visa", "capture_method=manual", func(t *testing.T, sb *sandbox.Sandbox, _, _ string) { must(t, sb.Advance(8*24*time.Hour)) },
			"payment_intent.amount_capturable_updated requires_capture, payment_intent.canceled canceled"},
		"debit settled": {"pm_usBankAccount", "", func(t *testing.T, sb *sandbox.Sandbox, _, _ string) { must(t, sb.Advance(80*time.Hour)) },
			"payment_intent.processing processing, payment_intent.succeeded succeeded"},
		"debit failed": {"pm_usBankAccount_insufficientFunds", "", func(t *testing.T, sb *sandbox.Sandbox, _, _ string) { must(t, sb.Advance(80*time.Hour)) },
			"payment_intent.processing processing, payment_intent.payment_failed requires_payment_method"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sb, url, _ := open(t, "")
			r := receive(t, nil)
			toStripe(t, sb, r)
			id := payWith(t, url, "k-1", c.method, c.more)
			payWith(t, url, "k-1", c.method, c.more) // a replay tells nothing
			if c.then != nil {
				c.then(t, sb, url, id)
			}
			// Neither do a read and more time.
			call(t, "GET", url+"/v1/payment_intents/"+id, "", "Authorization", "Bearer sk_test_shop")
			must(t, sb.Advance(time.Hour))

			kept := settled(t, sb)
			got := make([]string, len(kept))
			for _, request := range r.all() {
				e := request.event(t)
				i := slices.IndexFunc(kept, func(k sandbox.Event) bool { return k.ID == e.ID })
				if i < 0 || got[i] != "" {
					t.Fatalf("%s %s was recorded never, or sent twice", e.ID, e.Type)
				}
				got[i] = fmt.Sprintf("%s %s", e.Type, e.Data.Object["status"])
				if e.Data.Object["id"] != id || e.APIVersion != "2023-10-16" || e.Livemode || e.Created != kept[i].Created.Unix() || kept[i].About != id {
					t.Errorf("%s", request.body)
				}
			}
			if all := strings.Join(got, ", "); all != created+", "+c.want {
				t.Errorf("got  %s\nwant %s, %s", all, created, c.want)
			}
		})
	}
}

// The envelope's members are Stripe's; request tells an API call from the passing of time.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	r := receive(t, nil)
	toStripe(t, sb, r)
	payWith(t, url, "k-1", "pm_usBankAccount")
	if err := sb.Advance(72 * time.Hour); err != nil {
		t.Fatal(err)
	}
	settled(t, sb)
	for _, request := range r.all() {
		e := request.event(t)
		var members map[string]json.RawMessage
		if err := json.Unmarshal(request.body, &members); err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields("id object api_version created data livemode pending_webhooks request type") {
			if members[name] == nil {
				t.Errorf("no %s in %s", name, request.body)
			}
		}
		byTime := e.Type == "payment_intent.succeeded"
		if (e.Request.ID == "") != byTime || (e.Request.IdempotencyKey == "k-1") == byTime || e.Object != "event" || !strings.HasPrefix(e.ID, "evt_") {
			t.Errorf("%s", request.body)
		}
		if byTime && time.Until(time.Unix(e.Created, 0)) < 71*time.Hour {
			t.Errorf("created %d is not by the sandbox's clock", e.Created)
		}
	}
}

func TestRetriedUntilAccepted(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	answers := []int{500, 302, 400, 200}
	r := receive(t, func(nth int) int { return answers[min(nth, len(answers))-1] })
	toStripe(t, sb, r)
	fault(t, sb, sandbox.Fault{Kind: sandbox.NoWebhooks, Times: 1}) // payment_intent.created
	payWith(t, url, "k-1", "pm_card_visa")
	e := settled(t, sb)[1]
	if e.State != sandbox.Delivered || e.Attempts != 4 || e.LastStatus != 200 || e.DeliveredAt == nil {
		t.Fatalf("%+v", e)
	}
	signatures := map[string]bool{}
	for _, request := range r.all() {
		if got := request.event(t); got.ID != e.ID {
			t.Errorf("%s was sent", got.ID)
		}
		signatures[request.header.Get("Stripe-Signature")] = true
	}
	if n := len(r.all()); n != 4 || len(signatures) < 2 {
		t.Errorf("%d requests, %d signatures: each attempt is signed anew", n, len(signatures))
	}
}

func fault(t *testing.T, sb *sandbox.Sandbox, f sandbox.Fault) {
	t.Helper()
	if err := sb.Fail(f); err != nil {
		t.Fatal(err)
	}
}

func TestAbandonedAfterThreeDays(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	r := receive(t, func(int) int { return 500 })
	toStripe(t, sb, r)
	payWith(t, url, "k-1", "pm_card_visa")
	await(t, "both events were refused", func() bool { return len(r.all()) >= 2 })
	if err := sb.Advance(73 * time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, e := range settled(t, sb) {
		if e.State != sandbox.Abandoned || e.LastStatus != 500 {
			t.Errorf("%+v", e)
		}
	}
}

// Without a URL, and while no_webhooks is armed, events are recorded; by hand they are sent nevertheless.
func TestRecordedOnly(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	payWith(t, url, "k-1", "pm_card_visa")
	r := receive(t, nil)
	toStripe(t, sb, r)
	fault(t, sb, sandbox.Fault{Kind: sandbox.NoWebhooks})
	payWith(t, url, "k-2", "pm_card_visa")
	sb.ClearFaults()
	payWith(t, url, "k-3", "pm_card_visa")
	events := settled(t, sb)
	var states []string
	for _, e := range events {
		states = append(states, string(e.State))
	}
	if got := strings.Join(states, " "); got != "recorded recorded recorded recorded delivered delivered" || len(r.all()) != 2 {
		t.Fatalf("%s, %d requests", got, len(r.all()))
	}
	fault(t, sb, sandbox.Fault{Kind: sandbox.NoWebhooks})
	sent, err := sb.Deliver(t.Context(), sandbox.Dispatch{All: true})
	if err != nil || len(sent) != 6 || len(r.all()) != 8 {
		t.Fatalf("%+v, %v", sent, err)
	}
	for _, e := range sb.Events() {
		if e.State != sandbox.Delivered {
			t.Errorf("%+v", e)
		}
	}
}

// A fault that is armed later holds pending events back as well, until it is cleared. SendGrid's repeats show that time for
// many of Stripe's has passed.
func TestNoWebhooksHoldsRepeatsBack(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	var up atomic.Bool
	stripe := receive(t, func(int) int {
		if up.Load() {
			return 200
		}
		return 503
	})
	clock := receive(t, func(nth int) int {
		if nth < 4 {
			return 503
		}
		return 200
	})
	if err := sb.SetWebhooks(sandbox.Webhooks{StripeURL: stripe.url, StripeSecret: secret, SendGridURL: clock.url}); err != nil {
		t.Fatal(err)
	}
	payWith(t, url, "k-1", "pm_card_visa")
	await(t, "both events were refused", func() bool { return len(stripe.all()) >= 2 })
	fault(t, sb, sandbox.Fault{Kind: sandbox.NoWebhooks, Path: "/v1/*"})
	under := len(stripe.all()) + 2 // those under way
	mail(t, url, "m-1")
	await(t, "three repeats", func() bool { return len(clock.all()) == 4 })
	if n := len(stripe.all()); n > under {
		t.Errorf("%d requests, at most %d before the fault", n, under)
	}
	up.Store(true)
	sb.ClearFaults()
	for _, e := range settled(t, sb) {
		if e.State != sandbox.Delivered {
			t.Errorf("%+v", e)
		}
	}
}

func TestNoWebhooksByPath(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	r := receive(t, nil)
	if err := sb.SetWebhooks(sandbox.Webhooks{StripeURL: r.url, StripeSecret: secret, SendGridURL: r.url}); err != nil {
		t.Fatal(err)
	}
	fault(t, sb, sandbox.Fault{Kind: sandbox.NoWebhooks, Path: "/v1/*"})
	payWith(t, url, "k-1", "pm_card_visa")
	mail(t, url, "m-1")
	for _, e := range settled(t, sb) {
		if (e.State == sandbox.Recorded) != (e.Provider == "stripe") {
			t.Errorf("%+v", e)
		}
	}
}

func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	var now map[string]string
	put := func(body string) reply { t.Helper(); return call(t, "PUT", url+"/_sandbox/webhooks", body) }
	if r := call(t, "GET", url+"/_sandbox/webhooks", ""); json.Unmarshal(r.body, &now) != nil || now["stripe_url"] != "" ||
		!strings.HasPrefix(now["stripe_secret"], "whsec_") || now["sendgrid_public_key"] != sb.SendGridPublicKey() {
		t.Fatalf("%s", r.body)
	}
	made := now["stripe_secret"]
	for _, c := range []struct{ body, url, secret, mail string }{
		{`{"stripe_url":"http://127.0.0.1:1/a"}`, "http://127.0.0.1:1/a", made, ""},
		{`{"sendgrid_url":"http://127.0.0.1:1/b","stripe_secret":"whsec_x"}`, "http://127.0.0.1:1/a", "whsec_x", "http://127.0.0.1:1/b"},
		{`{"stripe_url":""}`, "", "whsec_x", "http://127.0.0.1:1/b"},
		{`{}`, "", "whsec_x", "http://127.0.0.1:1/b"},
	} {
		r := put(c.body)
		if err := json.Unmarshal(r.body, &now); err != nil || r.status != 200 || now["stripe_url"] != c.url || now["stripe_secret"] != c.secret || now["sendgrid_url"] != c.mail {
			t.Errorf("%s: %d %s", c.body, r.status, r.body)
		}
	}
	for _, body := range []string{
		`{"stripe_url":"127.0.0.1:1"}`, `{"stripe_url":"ftp://a/b"}`, `{"sendgrid_url":"/x"}`, `{"stripe_secret":"sk_x"}`, `{"stripe_secret":"whsec_"}`,
		`{"Stripe_url":""}`, `{"url":"http://a/"}`, `[]`, ``,
	} {
		if r := put(body); r.status != 400 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.SetWebhooks(sandbox.Webhooks{SendGridKey: key}); err == nil {
		t.Error("a key on another curve was taken")
	}
	if _, err := sandbox.New(sandbox.Options{Webhooks: sandbox.Webhooks{StripeURL: "nowhere"}}); err == nil {
		t.Error("a bad URL was taken")
	}
}
