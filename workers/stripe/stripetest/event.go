package stripetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// webhookName is Stripe's name among the couriers.
const webhookName = "stripe"

// news is what a change tells of: an object as it was just then. Whatever changes state embeds it.
type news struct{ told []told }

type told struct {
	kind     string
	about    string // the object's id
	path     string // the API's path of such objects
	object   json.RawMessage
	previous map[string]any
}

// tell notes an event about the object, a view, as it is now. previous holds the attributes that were different, if any.
func (n *news) tell(kind, path, about string, object any, previous map[string]any) {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("stripetest: encode event: %v", err)) // only this package's own structs come here
	}
	n.told = append(n.told, told{kind, about, path, raw, previous})
}

// cause is what made a change: a request, or, without one, the passing of time or a control.
type cause struct {
	at             time.Time
	requestID, key string
}

// envelope is Stripe's event object: https://docs.stripe.com/api/events/object
type envelope struct {
	ID              string       `json:"id"`
	Object          string       `json:"object"`
	APIVersion      string       `json:"api_version"`
	Created         int64        `json:"created"`
	Data            eventData    `json:"data"`
	Livemode        bool         `json:"livemode"`
	PendingWebhooks int          `json:"pending_webhooks"`
	Request         eventRequest `json:"request"`
	Type            string       `json:"type"`
}

type eventData struct {
	Object             json.RawMessage `json:"object"`
	PreviousAttributes map[string]any  `json:"previous_attributes,omitempty"`
}

type eventRequest struct {
	ID             *string `json:"id"`
	IdempotencyKey *string `json:"idempotency_key"`
}

// draft puts each told event into a parcel of its own, as Stripe sends them.
func (s *Stripe) draft(who partition, events []told, why cause) []*frame.Parcel {
	parcels := make([]*frame.Parcel, len(events))
	for i, t := range events {
		e := envelope{
			ID: courier{}.NewID(), Object: "event", APIVersion: apiVersion, Created: why.at.Unix(),
			Data: eventData{t.object, t.previous}, Livemode: who.Livemode, PendingWebhooks: 1,
			Request: eventRequest{orNull(why.requestID), orNull(why.key)}, Type: t.kind,
		}
		payload, err := json.Marshal(e)
		if err != nil {
			panic(fmt.Sprintf("stripetest: encode event: %v", err)) // told holds JSON, numbers and strings only
		}
		parcels[i] = s.webhooks.Draft(webhookName, t.path, e.ID, frame.Event{
			ID: e.ID, Type: t.kind, About: t.about, Account: who.Account, Created: why.at.Truncate(time.Second), Payload: payload,
		})
	}
	return parcels
}
