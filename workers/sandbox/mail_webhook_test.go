package sandbox_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/workers/sandbox"
)

func mailTo(t *testing.T, url, to string) {
	t.Helper()
	body := `{"personalizations":[{"to":[` + to + `],"custom_args":{"oncepay_key":"m-1","email":"mine","event":"mine"}}],
		"from":{"email":"shop@example.com"},"subject":"Receipt","content":[{"type":"text/plain","value":"thanks"}],"custom_args":{"note":"<&>"}}`
	r := call(t, "POST", url+"/v3/mail/send", body, "Authorization", "Bearer SG.x", "Content-Type", "application/json")
	if r.status != 202 {
		t.Fatalf("%d %s", r.status, r.body)
	}
}

func toSendGrid(t *testing.T, sb *sandbox.Sandbox, r *receiver) {
	t.Helper()
	if err := sb.SetWebhooks(sandbox.Webhooks{SendGridURL: r.url}); err != nil {
		t.Fatal(err)
	}
}

func TestMailsAreToldInBatches(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"buyer@example.com":    "processed delivered",
		"bounce@example.com":   "processed bounce",
		"bounce+7@example.com": "processed bounce",
		"drop@example.com":     "dropped",
		"defer@example.com":    "processed deferred delivered",
		"bouncer@example.com":  "processed delivered",
	} {
		sb, url, _ := open(t, "")
		r := receive(t, nil)
		toSendGrid(t, sb, r)
		mailTo(t, url, `{"email":"`+to+`"}`)
		settled(t, sb)
		requests := r.all()
		if len(requests) != 1 || !bytes.HasSuffix(requests[0].body, []byte("]\r\n")) || requests[0].header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d requests, %q", to, len(requests), requests[0].body)
		}
		var got []string
		seen := map[any]bool{}
		for _, e := range requests[0].batch(t, sb.SendGridPublicKey()) {
			got = append(got, e["event"].(string))
			id := sb.Ledger().Mails[0].ID
			if e["email"] != to || e["oncepay_key"] != "m-1" || e["note"] != "<&>" || e["timestamp"].(float64) <= 0 || seen[e["sg_event_id"]] ||
				!strings.HasPrefix(e["sg_message_id"].(string), id+".") || !strings.HasPrefix(e["smtp-id"].(string), "<"+id+"@") {
				t.Errorf("%s: %v", to, e)
			}
			seen[e["sg_event_id"]] = true
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", to, got, want)
		}
	}
}

func TestOneBatchForManyRecipients(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	r := receive(t, nil)
	toSendGrid(t, sb, r)
	mailTo(t, url, `{"email":"a@example.com"},{"email":"drop@example.com"}`)
	settled(t, sb)
	if batch := r.all()[0].batch(t, sb.SendGridPublicKey()); len(batch) != 3 || batch[2]["email"] != "drop@example.com" {
		t.Errorf("%v", batch)
	}
}

func TestTamperedBatches(t *testing.T) {
	t.Parallel()
	sb, url, _ := open(t, "")
	mailTo(t, url, `{"email":"buyer@example.com"}`)
	r := receive(t, nil)
	toSendGrid(t, sb, r)
	batch, event := sb.Events()[0].Batch, sb.Events()[1].ID
	send := func(d sandbox.Dispatch) received {
		t.Helper()
		if _, err := sb.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return r.all()[len(r.all())-1]
	}
	key := sb.SendGridPublicKey()
	whole := send(sandbox.Dispatch{Events: []string{batch}}).batch(t, key)
	if one := send(sandbox.Dispatch{Events: []string{event}}).batch(t, key); len(one) != 1 || one[0]["sg_event_id"] != whole[1]["sg_event_id"] {
		t.Errorf("%v", one)
	}
	for i, e := range send(sandbox.Dispatch{Events: []string{batch}, NewIDs: true}).batch(t, key) {
		if e["sg_event_id"] == whole[i]["sg_event_id"] || e["sg_message_id"] != whole[i]["sg_message_id"] {
			t.Errorf("told again as %v", e)
		}
	}
	for tamper, good := range map[string]bool{"": true, "old": true, "future": true, "flip": false, "wrong_key": false, "no_crlf": false} {
		got := send(sandbox.Dispatch{Events: []string{batch}, Tamper: sandbox.Tamper(tamper)})
		if got.signedBy(t, key) != good || bytes.HasSuffix(got.body, []byte("\r\n")) == (tamper == "no_crlf") {
			t.Errorf("%q: %v %q", tamper, got.header, got.body)
		}
	}
	if got := send(sandbox.Dispatch{Events: []string{batch}, Tamper: sandbox.Unsigned}); got.header.Get("X-Twilio-Email-Event-Webhook-Signature") != "" {
		t.Error("it was signed")
	}
	if _, err := sb.Deliver(t.Context(), sandbox.Dispatch{All: true, Tamper: sandbox.TwoSignatures}); err == nil {
		t.Error("SendGrid sent two signatures")
	}
}
