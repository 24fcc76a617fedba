package frame

import (
	"encoding/json"
	"net/http"
	"time"
)

// Event is one thing that a provider tells its customer by webhook.
type Event struct {
	// ID is the provider's own: evt_... at Stripe, the sg_event_id at SendGrid.
	ID   string `json:"id"`
	Type string `json:"type"`
	// About is the id of what the event tells of: a payment, a refund, a dispute, a mail.
	About   string    `json:"about"`
	Account string    `json:"account,omitempty"`
	Created time.Time `json:"created"` // sandbox time
	// Payload is the event as it is sent, but for white space.
	Payload json.RawMessage `json:"payload"`
}

// State is what became of telling an event.
type State string

// The states of an event.
const (
	Recorded  State = "recorded"  // sent by a Dispatch only: there was no URL, or a no_webhooks fault held it back
	Pending   State = "pending"   // being sent, again and again, until a 2xx answers
	Delivered State = "delivered" // answered by a 2xx
	Abandoned State = "abandoned" // refused for three days of sandbox time
)

// Delivery is how far the telling of an event has come.
type Delivery struct {
	State    State `json:"state"`
	Attempts int   `json:"attempts"` // by the sandbox itself since it was started
	// LastStatus is what the receiver answered to the last attempt, 0 for no answer, for which LastError says why.
	LastStatus  int        `json:"last_status,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	DeliveredAt *time.Time `json:"delivered_at,omitempty"` // sandbox time
}

// Parcel is what is sent in one request: one event of Stripe, or a batch of SendGrid's.
type Parcel struct {
	ID       string    `json:"id"` // that of the event, where there is but one by nature
	Provider string    `json:"provider"`
	Path     string    `json:"path"` // of the API's resource that changed, which no_webhooks faults match
	QueuedAt time.Time `json:"queued_at"`
	Events   []Event   `json:"events"`
	Delivery `json:"delivery"`
}

// Record is the parcel for the journal, to be appended together with the change that it tells of.
func (p *Parcel) Record() Record { return NewRecord(parcelKind, p) }

// ToldEvent is an event with what became of it.
type ToldEvent struct {
	Event
	Provider string `json:"provider"`
	Batch    string `json:"batch"` // the parcel's ID
	Delivery
}

// Courier is how one provider puts events into a request. It keeps no state.
type Courier interface {
	// Body encodes events as the provider does, byte for byte the same each time.
	Body(events []json.RawMessage) []byte
	// Header is what accompanies the body beside the signature.
	Header() http.Header
	// Sign returns the headers that prove the body's origin, made at a time with one or more secrets.
	Sign(body []byte, at time.Time, secrets ...string) (http.Header, error)
	// NewSecret makes what Sign takes, and CheckSecret refuses what it cannot take.
	NewSecret() string
	CheckSecret(secret string) error
	// IDMember names the payload's member that holds an event's id, and NewID makes one.
	IDMember() string
	NewID() string
}

// Endpoint is where a provider's events go.
type Endpoint struct {
	URL    string `json:"url"` // absolute, http or https; "" for nowhere
	Secret string `json:"secret"`
}
