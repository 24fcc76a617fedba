package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
)

func TestSendGridSignature(t *testing.T) {
	t.Parallel()
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const body = `[{"event":"open","sg_event_id":"a"}]` + "\r\n"
	keys := []string{publicKey(mailKey)}
	for name, tc := range map[string]struct {
		keys         []string
		key          *ecdsa.PrivateKey
		age          time.Duration
		signed, sent string
		want         string
	}{
		"good":                   {keys, mailKey, 0, body, body, ""},
		"nine minutes old":       {keys, mailKey, 9 * time.Minute, body, body, ""},
		"two keys":               {[]string{publicKey(stranger), publicKey(mailKey)}, mailKey, 0, body, body, ""},
		"another key":            {keys, stranger, 0, body, body, "signature_invalid"},
		"flipped byte":           {keys, mailKey, 0, body, strings.Replace(body, `"a"`, `"b"`, 1), "signature_invalid"},
		"old":                    {keys, mailKey, 11 * time.Minute, body, body, "signature_invalid"},
		"ahead":                  {keys, mailKey, -time.Hour, body, body, "signature_invalid"},
		"without the final CRLF": {keys, mailKey, 0, body, strings.TrimSpace(body), "signature_invalid"},
		"no key is configured":   {nil, mailKey, 0, body, body, "webhooks_not_configured"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, func(c *api.Config) { c.SendGridWebhookKeys = tc.keys })
			stamp := strconv.FormatInt(time.Now().Add(-tc.age).Unix(), 10) // now: the test may have waited for its turn
			r := d.send(t, "", http.MethodPost, "/webhooks/sendgrid", tc.sent, "X-Twilio-Email-Event-Webhook-Timestamp", stamp,
				"X-Twilio-Email-Event-Webhook-Signature", mailSignature(t, tc.key, stamp, tc.signed))
			switch tc.want {
			case "":
				r.wantReceived(t)
			case "signature_invalid":
				r.wantProblem(t, http.StatusBadRequest, tc.want)
			default:
				r.wantProblem(t, http.StatusServiceUnavailable, tc.want)
			}
			if n, want := d.count(t, "webhook_event"), map[bool]int{true: 1}[tc.want == ""]; n != want {
				t.Errorf("%d events stored, want %d", n, want)
			}
		})
	}
}

// mailEvent is SendGrid's event about a charge's receipt.
func mailEvent(c charge, kind string, change ...func(object)) object {
	e := object{
		"email": "buyer@example.com", "event": kind, "timestamp": time.Now().Unix(), "sg_event_id": uuid.NewString(),
		"sg_message_id": "msg-1.filterdrecv-5f-1-6A.0", "oncepay_key": c.IdempotencyKey, "oncepay_charge": c.ID,
	}
	for _, f := range change {
		f(e)
	}
	return e
}

// paid makes a charge whose receipt is due.
func (d *deployment) paid(t *testing.T) charge {
	t.Helper()
	c := d.sent(t, mailedBody)
	d.tell(t, paymentEvent(c, "succeeded", nil)).wantReceived(t)
	return c
}

func (d *deployment) claim(t *testing.T, c charge) charges.ReceiptClaim {
	t.Helper()
	claim, err := d.service.ClaimReceipt(t.Context(), uuid.MustParse(c.ID))
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func (d *deployment) settleReceipt(t *testing.T, c charge, r charges.ReceiptResult) {
	t.Helper()
	var claim uuid.UUID
	if err := d.pool.QueryRow(t.Context(), `SELECT claim_id FROM receipt WHERE charge_id = $1`, c.ID).Scan(&claim); err != nil {
		t.Fatal(err)
	}
	if _, err := d.service.SettleReceipt(t.Context(), uuid.MustParse(c.ID), claim, r); err != nil {
		t.Fatal(err)
	}
}

func (d *deployment) receipt(t *testing.T, c charge) (status, message, trouble string) {
	t.Helper()
	err := d.pool.QueryRow(t.Context(), `SELECT status, coalesce(message_id, ''), coalesce(error, '') FROM receipt WHERE charge_id = $1`, c.ID).
		Scan(&status, &message, &trouble)
	if err != nil {
		t.Fatal(err)
	}
	return status, message, trouble
}

// I5: whatever the order in which events and the worker's own outcome arrive, the receipt ends in one state, and is not sent again.
func TestI5ReceiptDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		told    []string
		settled charges.ReceiptStatus
		want    string
	}{
		{[]string{"processed", "delivered", "bounce"}, charges.ReceiptSent, "bounced"},
		{[]string{"processed", "deferred", "delivered"}, charges.ReceiptUnknown, "delivered"},
		{[]string{"processed", "deferred", "open"}, charges.ReceiptUnknown, "deferred"},
		{[]string{"processed", "dropped"}, charges.ReceiptSent, "dropped"},
		{[]string{"processed"}, charges.ReceiptUnknown, "sent"},
		{[]string{"processed"}, charges.ReceiptPending, "sent"}, // the mailer thought that it was surely not sent
		{[]string{"delivered"}, charges.ReceiptFailed, "delivered"},
	} {
		t.Run(fmt.Sprint(tc.told, tc.settled), func(t *testing.T) {
			t.Parallel()
			d := deploy(t, hooked)
			permute(append([]string{"settle"}, tc.told...), func(order []string) {
				c := d.paid(t)
				if !d.claim(t, c).Send {
					t.Fatal("the receipt cannot be claimed")
				}
				for _, step := range order {
					if step == "settle" {
						result := charges.ReceiptResult{Status: tc.settled}
						if tc.settled == charges.ReceiptSent {
							result.MessageID = "msg-1"
						}
						if tc.settled == charges.ReceiptFailed {
							result.Error = "refused"
						}
						d.settleReceipt(t, c, result)
						continue
					}
					event := mailEvent(c, step)
					d.tellMail(t, event).wantReceived(t)
					d.tellMail(t, event, mailEvent(c, step)).wantReceived(t) // the same event, and the same fact again
				}
				if status, message, _ := d.receipt(t, c); status != tc.want || message != "msg-1" {
					t.Errorf("%v: %s %q, want %s", order, status, message, tc.want)
				}
				if d.claim(t, c).Send {
					t.Errorf("%v: it would be sent again", order)
				}
			})
		})
	}
}

// permute calls f with every order of items.
func permute(items []string, f func([]string)) {
	if len(items) < 2 {
		f(items)
		return
	}
	for i := range items {
		rest := slices.Concat(items[:i], items[i+1:])
		permute(rest, func(tail []string) { f(append([]string{items[i]}, tail...)) })
	}
}

func TestReceiptTrouble(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.paid(t)
	d.tellMail(t, mailEvent(c, "bounce", func(e object) { e["reason"], e["response"] = "550 no such user\r\nx\x00", 7 })).wantReceived(t)
	if status, _, trouble := d.receipt(t, c); status != "bounced" || trouble != "550 no such user  x" {
		t.Errorf("%s %q", status, trouble)
	}
	if r := d.get(t, alice, "/charges/"+c.ID); !strings.Contains(r.body, `"receipt":{"status":"bounced"}`) {
		t.Errorf("%s", r.body)
	}
}

// One element that makes no sense does not lose the others, and what names another's key changes nothing.
func TestSendGridBatch(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	first, second := d.paid(t), d.paid(t)
	d.exec(t, `DELETE FROM webhook_event`)
	absent := charge{ID: newKey(), IdempotencyKey: newKey()}
	batch := []any{
		mailEvent(first, "delivered"),
		nil, 7, "delivered", []any{}, object{},
		mailEvent(first, "bounce", func(e object) { e["timestamp"] = "soon" }),
		mailEvent(first, "bounce", func(e object) { e["oncepay_key"] = second.IdempotencyKey }),
		mailEvent(first, "bounce", func(e object) { delete(e, "oncepay_key") }),
		mailEvent(first, "bounce", func(e object) { e["oncepay_charge"] = "x" }),
		mailEvent(first, "click"),
		mailEvent(absent, "delivered"),
		object{"event": "delivered", "sg_event_id": "other-mail", "timestamp": 1},
		mailEvent(second, "delivered", func(e object) { delete(e, "sg_event_id") }),
		mailEvent(second, "bounce", func(e object) { e["sg_event_id"] = "\x00" }),
	}
	for range 2 {
		d.tellMail(t, batch...).wantReceived(t)
		if status, _, _ := d.receipt(t, first); status != "delivered" {
			t.Errorf("the first receipt is %s", status)
		}
		if status, _, _ := d.receipt(t, second); status != "bounced" {
			t.Errorf("the second receipt is %s", status)
		}
		for note, want := range map[string]int{"": 3, "malformed": 7, "key_differs": 2, "unknown_type": 1, "unmatched": 1, "not_ours": 1} {
			if n := d.count(t, "webhook_event WHERE provider = 'sendgrid' AND coalesce(note, '') = $1", note); n != want {
				t.Errorf("%d events with note %q, want %d", n, note, want)
			}
		}
	}
	d.exec(t, `DELETE FROM webhook_event`)
	body := "{}"
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	d.send(t, "", http.MethodPost, "/webhooks/sendgrid", body, "X-Twilio-Email-Event-Webhook-Timestamp", stamp,
		"X-Twilio-Email-Event-Webhook-Signature", mailSignature(t, mailKey, stamp, body)).wantReceived(t)
	d.wantEvent(t, charges.EventIgnored, charges.EventMalformed)
	d.tellMail(t).wantReceived(t) // an empty batch
}
