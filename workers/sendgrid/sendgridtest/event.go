package sendgridtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// webhookName is SendGrid's name among the couriers.
const webhookName = "sendgrid"

// fates are what happens to a mail by the local part of its address, up to a "+"; all others are delivered.
// The members are those of https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event
var fates = map[string][]map[string]any{
	"bounce": {
		{"event": "processed"},
		{"event": "bounce", "type": "bounce", "status": "5.1.1", "reason": "550 5.1.1 no such mailbox", "bounce_classification": "Invalid Address"},
	},
	"drop": {{"event": "dropped", "reason": "Bounced Address"}},
	"defer": {
		{"event": "processed"},
		{"event": "deferred", "response": "450 4.2.1 try again later", "attempt": "1"},
		{"event": "delivered", "response": "250 OK"},
	},
}

var delivered = []map[string]any{{"event": "processed"}, {"event": "delivered", "response": "250 OK"}}

// draft makes the batch of events that the mails of one request cause.
func (s *SendGrid) draft(id string, mails []Mail, now time.Time) *frame.Parcel {
	var events []frame.Event
	for i, m := range mails {
		for _, address := range m.Recipients {
			local, _, _ := strings.Cut(address, "@")
			local, _, _ = strings.Cut(local, "+")
			fate, special := fates[local]
			if !special {
				fate = delivered
			}
			for _, members := range fate {
				events = append(events, m.event(address, fmt.Sprintf("%s.recvd-sandbox-%d.0", id, i), members, now))
			}
		}
	}
	return s.webhooks.Draft(webhookName, sendPath, id, events...)
}

// event is one event about the mail to one address. Custom arguments become members of it, and never replace SendGrid's own.
func (m *Mail) event(address, messageID string, members map[string]any, now time.Time) frame.Event {
	id := newEventID()
	event := map[string]any{}
	for name, value := range m.CustomArgs {
		event[name] = value
	}
	maps.Copy(event, members)
	maps.Copy(event, map[string]any{
		"email": address, "timestamp": now.Unix(), "smtp-id": "<" + m.ID + "@sandbox.example>", "sg_event_id": id, "sg_message_id": messageID,
	})
	payload, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Sprintf("sendgridtest: encode event: %v", err)) // a map of strings and a number
	}
	return frame.Event{ID: id, Type: members["event"].(string), About: m.ID, Created: now.Truncate(time.Second), Payload: payload}
}

func newEventID() string { return "sg_" + newID() }
