package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

// hear has the sandbox send its events to where an API is reached.
func (s *sandboxProcess) hear(base string) {
	s.t.Helper()
	s.control(http.MethodPut, "webhooks", fmt.Sprintf(`{"stripe_url":"%s/webhooks/stripe","sendgrid_url":"%[1]s/webhooks/sendgrid"}`, base), nil)
}

// event is one that the sandbox has sent or keeps.
type event struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Provider string          `json:"provider"`
	State    string          `json:"state"`
	Payload  json.RawMessage `json:"payload"`
}

func (s *sandboxProcess) events() []event {
	s.t.Helper()
	var list struct {
		Events []event `json:"events"`
	}
	s.control(http.MethodGet, "events", "", &list)
	return list.Events
}

// eventOf is the first event of a type that names what is given.
func (s *sandboxProcess) eventOf(kind, naming string) string {
	s.t.Helper()
	for _, e := range s.events() {
		if e.Type == kind && strings.Contains(string(e.Payload), naming) {
			return e.ID
		}
	}
	s.t.Fatalf("there is no %s of %s", kind, naming)
	return ""
}

// deliver sends events by hand, given as JSON members, and wants every one taken.
func (s *sandboxProcess) deliver(members string) (sent int) { return s.deliverOnce(members, false) }

func (s *sandboxProcess) deliverOnce(members string, again bool) (sent int) {
	s.t.Helper()
	var answer struct {
		Sent []struct {
			ID     string `json:"id"`
			Status int    `json:"status"`
			Error  string `json:"error"`
		} `json:"sent"`
	}
	s.control(http.MethodPost, "webhooks/deliver", "{"+members+"}", &answer)
	for _, one := range answer.Sent {
		switch {
		case one.Status == http.StatusBadGateway && !again: // the balancer's, for a connection that broke on a busy machine: a provider sends again
			s.deliverOnce(`"events":["`+one.ID+`"]`, true)
		case one.Status/100 != 2:
			s.t.Errorf("event %s: %d %s", one.ID, one.Status, one.Error)
		}
	}
	return len(answer.Sent)
}

// authenticate plays the buyer of a payment in requires_action.
func (s *sandboxProcess) authenticate(payment, outcome string) {
	s.t.Helper()
	a, err := call(http.MethodPost, s.url+"/_sandbox/payment_intents/"+payment+"/authenticate", `{"outcome":"`+outcome+`"}`, nil, nil)
	if err == nil {
		err = a.want(http.StatusNoContent)
	}
	if err != nil {
		s.t.Fatalf("authenticate: %v", err)
	}
}

// cardCharge is a charge with another payment method, and a receipt.
func cardCharge(method, to string) string {
	return fmt.Sprintf(`{"amount":1099,"currency":"usd","payment_method":%q,"receipt_email":"%s@%s","return_url":"https://shop.example/back"}`, method, to, buyersHost)
}

// balance takes requests to several processes in turn.
func balance(t *testing.T, to ...service) (base string) {
	t.Helper()
	var turn atomic.Uint64
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		target, err := url.Parse(to[turn.Add(1)%uint64(len(to))].url)
		if err != nil {
			panic(err) // an address that was called before
		}
		r.SetURL(target)
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}) // a process that was killed answers nothing
	t.Cleanup(server.Close)
	return server.URL
}

// story is a charge whose end only an event tells.
type story struct {
	method string
	end    client.Status
	key    string
	raw    string
}

// Events come late, again and again, in parallel to two processes, and the last first: each is stored once, and all orders end in one state.
func TestI2I5I7EventsInAnyOrder(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	apis := []service{d.api(), d.api()}
	d.box.hear(balance(t, apis...))
	d.box.control(http.MethodPost, "faults", `{"fault":"no_webhooks"}`, nil)
	worker := d.worker()

	stories := []*story{
		{method: "pm_card_visa", end: client.StatusSucceeded},
		{method: "pm_card_chargeDeclined", end: client.StatusFailed},
		{method: "pm_card_authenticationRequired", end: client.StatusSucceeded},
		{method: "pm_usBankAccount", end: client.StatusSucceeded},
		{method: "pm_usBankAccount_insufficientFunds", end: client.StatusFailed},
	}
	for i, s := range stories {
		s.key = newKey()
		d.mustPost(apis[i%2].url, s.key, cardCharge(s.method, "buyer"))
	}
	for _, s := range stories {
		await(t, patience, s.method+" is at Stripe", func() error {
			if c := d.charge(apis[0], s.key); c.PaymentIntent == "" {
				return fmt.Errorf("it is %s", c.Raw)
			}
			return nil
		})
	}
	d.awaitStatus(apis[0], stories[0].key, client.StatusSucceeded)
	// From here on only events can tell.
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	action := d.box.ledger().paymentOf(stories[2].key)
	d.box.authenticate(action, "succeeded")
	d.box.advance("73h")
	if n := d.count(`SELECT count(*) FROM webhook_event`); n != 0 {
		t.Fatalf("%d events came, and should wait", n)
	}

	paid := d.box.eventOf("payment_intent.succeeded", action)
	if n := d.box.deliver(`"events":["` + paid + `"],"times":20,"parallel":true`); n != 20 {
		t.Errorf("sent %d times", n)
	}
	if n := d.count(`SELECT count(*) FROM webhook_event`); n != 1 {
		t.Errorf("one event is stored %d times", n)
	}
	if c := d.charge(apis[1], stories[2].key); c.Status != client.StatusSucceeded {
		t.Errorf("the buyer has paid, and the charge is %s", c.Raw)
	}
	d.box.deliver(`"all":true,"provider":"stripe","reverse":true,"parallel":true,"times":2`)
	for _, s := range stories {
		if c := d.charge(apis[0], s.key); c.Status != s.end {
			t.Errorf("%s: %s", s.method, c.Raw)
		}
	}

	// From here on the sandbox sends by itself.
	d.box.clearFaults()
	d.box.deliver(`"all":true,"provider":"sendgrid"`)
	d.worker()
	for _, s := range stories {
		if s.end == client.StatusSucceeded {
			d.awaitReceipt(apis[0], s.key, "delivered")
		}
	}
	for _, s := range stories {
		s.raw = string(d.charge(apis[0], s.key).Raw)
	}
	events := d.count(`SELECT count(*) FROM charge_event`)
	for seed := range 3 {
		d.box.deliver(fmt.Sprintf(`"all":true,"shuffle":%d,"parallel":true`, seed+1))
		d.box.deliver(fmt.Sprintf(`"all":true,"shuffle":%d,"new_ids":true`, seed+1))
	}
	for _, s := range stories {
		if c := d.charge(apis[1], s.key); string(c.Raw) != s.raw {
			t.Errorf("%s\nhas become\n%s", s.raw, c.Raw)
		}
		mails, want := d.box.ledger().mails(s.key), 0
		if s.end == client.StatusSucceeded {
			want = 1
		}
		if all, _ := d.box.ledger().payments(s.key); all != 1 || mails != want {
			t.Errorf("%s: %d payments, %d mails", s.method, all, mails)
		}
	}
	if n := d.count(`SELECT count(*) FROM charge_event`); n != events {
		t.Errorf("%d audit rows for what was known", n-events)
	}
	if n := d.count(`SELECT count(*) FROM webhook_event WHERE status = 'pending' OR note IN ('payment_differs', 'duplicate_payment', 'error')`); n != 0 {
		t.Errorf("%d events wait or alarm", n)
	}
	list := d.oncepay("webhooks", "list", "--limit=1000").must(t)
	expect(t, "webhooks list", list, `(?m)^\d+ .*  stripe +payment_intent\.succeeded +applied +- .* `+paid+`$`, `(?m)  sendgrid +delivered +applied `)
}

// awaitReceipt waits until the receipt of the key's charge has the status.
func (d *deployment) awaitReceipt(s service, key, status string) {
	d.t.Helper()
	await(d.t, 2*patience, "the receipt is "+status, func() error {
		if c := d.charge(s, key); c.Receipt == nil || c.Receipt.Status != status {
			return fmt.Errorf("it is %s", c.Raw)
		}
		return nil
	})
}

// Receipts whose sending has an unknown outcome are settled by SendGrid's events, which wait at SendGrid while no API is there.
func TestI5ReceiptsAreSettledByEvents(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	d.box.hear(api.url)
	ends := map[string]string{"buyer": "delivered", "bounce": "bounced", "drop": "dropped", "defer": "delivered"}
	keys := map[string]string{}
	for to := range ends {
		keys[to] = newKey()
		d.mustPost(api.url, keys[to], cardCharge("pm_card_visa", to))
	}
	api.kill()
	d.box.mailFault(`"fault":"drop_after","times":-1`)
	d.worker()
	await(t, 2*patience, "all receipts are unknown", func() error {
		if n := d.count(`SELECT count(*) FROM receipt WHERE status = 'unknown'`); n != len(ends) {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	for _, e := range d.box.events() {
		if e.State == "delivered" {
			t.Errorf("%s was delivered to nobody", e.ID)
		}
	}
	again := d.api("--listen=" + strings.TrimPrefix(api.url, "http://"))
	for to, end := range ends {
		d.awaitReceipt(again, keys[to], end)
	}
	await(t, patience, "nothing is left to be told", func() error {
		for _, e := range d.box.events() {
			if e.State != "delivered" {
				return fmt.Errorf("%s %s is %s", e.Type, e.ID, e.State)
			}
		}
		return nil
	})
	for to, key := range keys {
		if n := d.box.ledger().mails(key); n != 1 {
			t.Errorf("%s got %d mails", to, n)
		}
	}
	if stored, sent := d.count(`SELECT count(*) FROM webhook_event`), len(d.box.events()); stored != sent {
		t.Errorf("%d events are stored of %d", stored, sent)
	}
}

// Stripe's event comes before its answer: while the worker waits for that, and where it does not live to see it.
func TestI2I5EventBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"the answer comes": false, "the worker is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			api := d.api()
			d.box.hear(api.url)
			created, release := make(chan struct{}), make(chan struct{})
			base := holdCreated(t, d.box.url, created, release)
			worker := d.worker("--stripe-api-base=" + base)
			key := newKey()
			d.mustPost(api.url, key, cardCharge("pm_card_visa", "buyer"))
			receive(t, created, "the payment")
			d.awaitStatus(api, key, client.StatusSucceeded)
			if n := d.count(`SELECT count(*) FROM attempt WHERE outcome = 'answered' AND ended_at IS NOT NULL`); n != 1 {
				t.Errorf("%d attempts are answered by the event", n)
			}
			if killed {
				worker.kill()
			}
			close(release)
			if killed {
				// As River does itself a minute later.
				if _, err := d.pool.Exec(t.Context(), `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'running'`); err != nil {
					t.Fatal(err)
				}
				d.worker()
			}
			await(t, patience, "the charge's job is done", func() error {
				if d.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND state = 'completed'`) != 1 {
					return errors.New("it is not")
				}
				return nil
			})
			mails := 1
			if killed && d.receiptWasClaimed(api, key) {
				mails = d.box.ledger().mails(key) // the kill came between its claim and its outcome, before the mail or after
			} else {
				d.awaitReceipt(api, key, "delivered")
			}
			c, l := d.charge(api, key), d.box.ledger()
			all, succeeded := l.payments(key)
			if c.Status != client.StatusSucceeded || all != 1 || succeeded != 1 || l.sends(key) != 1 || l.mails(key) != mails || mails > 1 || c.PaymentIntent != l.paymentOf(key) {
				t.Errorf("%d payments, %d sends, %d mails; %s", all, l.sends(key), l.mails(key), c.Raw)
			}
			if n := d.count(`SELECT count(*) FROM charge_event WHERE to_status = 'succeeded'`); n != 1 {
				t.Errorf("succeeded %d times", n)
			}
		})
	}
}

// receiptWasClaimed waits for what becomes of a receipt, and tells whether that stays unknown.
func (d *deployment) receiptWasClaimed(s service, key string) (unknown bool) {
	d.t.Helper()
	await(d.t, 2*patience, "the receipt has an outcome", func() error {
		c := d.charge(s, key)
		if c.Receipt == nil || c.Receipt.Status != "delivered" && c.Receipt.Status != "unknown" {
			return fmt.Errorf("it is %s", c.Raw)
		}
		unknown = c.Receipt.Status == "unknown"
		return nil
	})
	return unknown
}

// holdCreated is Stripe with a slow way back: the answer to a payment's creation is held until release is closed.
func holdCreated(t *testing.T, base string, created chan<- struct{}, release <-chan struct{}) string {
	t.Helper()
	target, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(res *http.Response) error {
		if res.Request.Method == http.MethodPost && res.Request.URL.Path == "/v1/payment_intents" {
			created <- struct{}{}
			<-release
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // whoever asked was killed
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}
