package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
)

func TestStripeSignature(t *testing.T) {
	t.Parallel()
	event := []byte(`{"id":"evt_1","object":"event","type":"customer.created","created":1700000000}`)
	sign := func(secret string, age time.Duration) string {
		return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: event, Secret: secret, Timestamp: time.Now().Add(-age)}).Header
	}
	good := func() string { return sign(stripeSecret, 0) }
	const other = "whsec_0987654321"
	for name, tc := range map[string]struct {
		secrets []string
		header  func() []string // made when it is sent: a test may have to wait for its turn
		want    string          // problem's code; empty: taken
	}{
		"good": {[]string{stripeSecret}, func() []string { return []string{good()} }, ""},
		"two v1, the good one 2nd": {[]string{stripeSecret}, func() []string {
			return []string{strings.Replace(good(), ",v1=", ",v1="+strings.Repeat("ab", 32)+",v1=", 1)}
		}, ""},
		"two secrets":             {[]string{other, stripeSecret}, func() []string { return []string{good()} }, ""},
		"four minutes old":        {[]string{stripeSecret}, func() []string { return []string{sign(stripeSecret, 4*time.Minute)} }, ""},
		"301 s old":               {[]string{stripeSecret}, func() []string { return []string{sign(stripeSecret, 301*time.Second)} }, "signature_invalid"},
		"an hour ahead":           {[]string{stripeSecret}, func() []string { return []string{sign(stripeSecret, -time.Hour)} }, "signature_invalid"},
		"another secret":          {[]string{stripeSecret}, func() []string { return []string{sign(other, 0)} }, "signature_invalid"},
		"missing":                 {[]string{stripeSecret}, func() []string { return nil }, "signature_invalid"},
		"two headers":             {[]string{stripeSecret}, func() []string { return []string{good(), good()} }, "signature_invalid"},
		"no secret is configured": {nil, func() []string { return []string{good()} }, "webhooks_not_configured"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, func(c *api.Config) { c.StripeWebhookSecrets = tc.secrets })
			var pairs []string
			for _, h := range tc.header() {
				pairs = append(pairs, "Stripe-Signature", h)
			}
			r := d.send(t, "", http.MethodPost, "/webhooks/stripe", string(event), pairs...)
			stored := d.count(t, "webhook_event")
			switch tc.want {
			case "":
				r.wantReceived(t)
			case "signature_invalid":
				r.wantProblem(t, http.StatusBadRequest, tc.want)
			default:
				r.wantProblem(t, http.StatusServiceUnavailable, tc.want)
			}
			if want := map[bool]int{true: 1}[tc.want == ""]; stored != want {
				t.Errorf("%d events stored, want %d", stored, want)
			}
		})
	}
}

func TestStripeBodySizes(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, goodBody)
	padded := func(size int) []byte {
		return paymentEvent(c, "succeeded", func(_, p object) { p["description"] = strings.Repeat("x", size) })
	}
	d.tell(t, padded(1<<20)).wantProblem(t, http.StatusRequestEntityTooLarge, "too_large")
	d.wantStatus(t, c, "processing")
	d.tell(t, padded(300_000)).wantReceived(t)
	d.wantStatus(t, c, "succeeded")
}

// An event that comes before the answer to the call is the call's result: it settles the charge, and the answer changes nothing.
func TestEventBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, mailedBody)
	d.tell(t, paymentEvent(c, "succeeded", nil)).wantReceived(t)
	d.wantEvent(t, charges.EventApplied, "")
	d.wantStatus(t, c, "succeeded")
	if n := d.count(t, "charge_event WHERE charge_id = $1 AND type = 'charge.succeeded' AND actor = 'stripe' AND data->>'event' LIKE 'evt_%'", c.ID); n != 1 {
		t.Errorf("%d events of the charge name Stripe's", n)
	}
	if n := d.count(t, "river_job WHERE kind = 'receipt_send'"); n != 1 {
		t.Errorf("%d receipts' jobs", n)
	}
}

func TestDeclineByEvent(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, goodBody)
	d.tell(t, paymentEvent(c, "requires_payment_method", func(e, p object) {
		e["type"] = "payment_intent.payment_failed"
		p["last_payment_error"] = object{"type": "card_error", "code": "card_declined", "decline_code": "stolen_card", "message": "Stolen!"}
	})).wantReceived(t)
	r := d.get(t, alice, "/charges/"+c.ID)
	if !strings.Contains(r.body, `"failure":{"code":"card_declined","decline_code":"stolen_card","message":"The payment was declined.","advice":"do_not_retry"}`) {
		t.Errorf("%s", r.body)
	}
}

// What is not about a charge of ours, or does not agree with it, changes nothing.
func TestEventsThatChangeNothing(t *testing.T) {
	t.Parallel()
	stranger := charge{ID: newKey(), IdempotencyKey: newKey(), Amount: 1099}
	nul := func(e, _ object) { e["type"], e["note"] = "customer.created", "a\x00b" }
	for name, tc := range map[string]struct {
		event  func(c charge) []byte
		status charges.EventStatus
		note   charges.EventNote
	}{
		"no keys of ours": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(_, p object) { p["metadata"] = object{} })
		}, "ignored", "not_ours"},
		"a charge that is not here": {func(charge) []byte { return paymentEvent(stranger, "succeeded", nil) }, "pending", "unmatched"},
		"unknown type": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(e, _ object) { e["type"] = "charge.updated" })
		}, "ignored", "unknown_type"},
		"wrong mode": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(e, p object) { e["livemode"], p["livemode"] = true, true })
		}, "ignored", "wrong_mode"},
		"another account": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(e, _ object) { e["account"] = "acct_other" })
		}, "ignored", "another_account"},
		"another amount": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(_, p object) { p["amount"] = 1 })
		}, "ignored", "payment_differs"},
		"another currency": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(_, p object) { p["currency"] = "eur" })
		}, "ignored", "payment_differs"},
		"our charge, not its key": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(_, p object) { p["metadata"] = object{"oncepay_charge": c.ID} })
		}, "ignored", "payment_differs"},
		"a payment without an amount": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(_, p object) { delete(p, "amount") })
		}, "ignored", "malformed"},
		"no payment": {func(c charge) []byte {
			return paymentEvent(c, "succeeded", func(e, _ object) { e["data"] = object{} })
		}, "ignored", "malformed"},
		"not JSON":                   {func(charge) []byte { return []byte("payment!\x00") }, "ignored", "malformed"},
		"no id":                      {func(c charge) []byte { return paymentEvent(c, "succeeded", func(e, _ object) { delete(e, "id") }) }, "ignored", "malformed"},
		"U+0000":                     {func(c charge) []byte { return paymentEvent(c, "succeeded", nul) }, "ignored", "unknown_type"},
		"U+0000 in the id":           {func(c charge) []byte { return paymentEvent(c, "succeeded", func(e, _ object) { e["id"] = "evt_\x00" }) }, "ignored", "malformed"},
		"another version, not ours":  {func(c charge) []byte { return paymentEvent(c, "succeeded", foreignVersion) }, "ignored", "not_ours"},
		"thin, of an unknown object": {func(c charge) []byte { return thinEvent("pi_unknown") }, "pending", "unmatched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, hooked)
			c := d.sent(t, goodBody)
			event := tc.event(c)
			d.tell(t, event).wantReceived(t)
			d.wantEvent(t, tc.status, tc.note)
			d.wantStatus(t, c, "processing")
			stored, err := d.service.ProviderEvent(t.Context(), d.event(t).ID)
			if err != nil || string(stored.Raw) != string(event) {
				t.Errorf("stored %q, %v", stored.Raw, err)
			}
			d.tell(t, event).wantReceived(t)
			d.wantEvent(t, tc.status, tc.note)
		})
	}
}

func foreignVersion(e, p object) {
	e["api_version"], p["metadata"] = "2031-01-01.plum", object{}
}

func thinEvent(payment string) []byte {
	return []byte(`{"id":"evt_thin","object":"v2.core.event","type":"v1.payment_intent.succeeded","created":"2026-01-02T03:04:05.678Z","livemode":false,
		"related_object":{"id":"` + payment + `","type":"payment_intent","url":"/v1/payment_intents/x"}}`)
}

// An event of a form that is not trusted only makes us ask Stripe.
func TestEventsThatAreReadAgain(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(c charge) []byte{
		"another version": func(c charge) []byte { return paymentEvent(c, "succeeded", foreignVersion) },
		"thin":            func(c charge) []byte { return thinEvent(paymentOf(c)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, hooked)
			c := d.sent(t, goodBody)
			d.tell(t, paymentEvent(c, "processing", nil)).wantReceived(t) // from now on the payment is on record
			d.exec(t, `UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour' WHERE kind = 'payment_follow'`)
			d.exec(t, `DELETE FROM webhook_event`)
			d.tell(t, event(c)).wantReceived(t)
			d.wantEvent(t, charges.EventApplied, charges.EventReadAgain)
			d.wantStatus(t, c, "processing")
			for what, sql := range map[string]string{"all": "", "due": " AND scheduled_at <= now()"} {
				if n := d.count(t, "river_job WHERE kind = 'payment_follow'"+sql); n != 1 {
					t.Errorf("%d jobs to read it again (%s), want the one", n, what)
				}
			}
		})
	}
}

// I2: the same event, many times at once to two processes, has one effect.
func TestI2ParallelDuplicates(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	_, service := open(t, d.url)
	processes := []*instance{d.instance, start(t, service, hooked)}
	c := d.sent(t, mailedBody)
	event := paymentEvent(c, "succeeded", nil)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() { processes[n%2].tell(t, event).wantReceived(t) })
	}
	wg.Wait()
	d.wantEvent(t, charges.EventApplied, "")
	d.wantStatus(t, c, "succeeded")
	for _, from := range []string{"charge_event WHERE type = 'charge.succeeded'", "receipt", "river_job WHERE kind = 'receipt_send'"} {
		if n := d.count(t, from); n != 1 {
			t.Errorf("%d rows in %s", n, from)
		}
	}
	taken := 0
	for _, p := range processes {
		if strings.Contains(p.get(t, "", "/metrics").body, `oncepay_webhook_events_total{class="payment_intent",provider="stripe",result="applied"} 1`) {
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("%d processes say that they applied it", taken)
	}
}

// I1: of an event whose handling fails nothing is left but the event, which is applied when it comes again or its time comes.
func TestI1EventThatRollsBack(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, goodBody)
	d.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hunter2'; END $$`)
	d.exec(t, `CREATE TRIGGER broken BEFORE INSERT ON charge_event FOR EACH ROW WHEN (NEW.actor = 'stripe') EXECUTE FUNCTION broken()`)
	event := paymentEvent(c, "succeeded", nil)
	if r := d.tell(t, event); r.status != http.StatusOK || strings.Contains(r.body, "hunter2") {
		t.Errorf("answered %d %s", r.status, r.body)
	}
	d.wantEvent(t, charges.EventPending, charges.EventError)
	if n := d.count(t, "payment"); n != 0 {
		t.Errorf("%d rows were left", n)
	}
	d.wantStatus(t, c, "processing")
	d.exec(t, `DROP TRIGGER broken ON charge_event`)
	d.tell(t, event).wantReceived(t)
	d.wantStatus(t, c, "succeeded")
	d.tell(t, event).wantReceived(t)
	d.wantEvent(t, charges.EventApplied, "")
}

// I8: what cannot be stored is not answered well, so that Stripe sends it again.
func TestI8WebhookWithoutDatabase(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	p, url := newProxy(t, d.url)
	_, service := open(t, url)
	hooks := start(t, service, hooked)
	c := d.sent(t, goodBody)
	event := paymentEvent(c, "succeeded", nil)
	p.setDown(true)
	hooks.tell(t, event).wantUnavailable(t)
	p.setDown(false)
	hooks.tell(t, event).wantReceived(t)
	d.wantStatus(t, c, "succeeded")
}

// A charge that somebody holds is no reason to lose an event: it comes again.
func TestEventOfAHeldCharge(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, goodBody)
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM charge WHERE id = $1 FOR UPDATE`, c.ID); err != nil {
		t.Fatal(err)
	}
	event := paymentEvent(c, "succeeded", nil)
	d.tell(t, event).wantUnavailable(t)
	if n := d.count(t, "webhook_event"); n != 0 {
		t.Errorf("%d events stored", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.tell(t, event).wantReceived(t)
	d.wantStatus(t, c, "succeeded")
}

// A second payment never replaces the first: a person is asked.
func TestSecondPaymentByEvent(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, goodBody)
	d.tell(t, paymentEvent(c, "succeeded", nil)).wantReceived(t)
	d.exec(t, `DELETE FROM webhook_event`)
	d.tell(t, paymentEvent(c, "succeeded", func(_, p object) { p["id"] = "pi_second" })).wantReceived(t)
	d.wantEvent(t, charges.EventApplied, "duplicate_payment")
	r := d.get(t, alice, "/charges/"+c.ID)
	if r.charge(t).Status != "needs_review" || !strings.Contains(r.body, `"payment_intent":"`+paymentOf(c)+`"`) {
		t.Errorf("%s", r.body)
	}
	if !strings.Contains(d.get(t, "", "/metrics").body, `oncepay_webhook_notes_total{note="duplicate_payment",provider="stripe"} 1`) {
		t.Error("no alarm in the metrics")
	}
}
