package frame

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	parcelKind   = "webhook.parcel"
	deliveryKind = "webhook.delivery"
	endpointKind = "webhook.endpoint"

	// maxParcels bounds those that wait for nothing; a pending one is never dropped.
	maxParcels = 10_000
)

// Webhooks keeps what the providers have to tell and sends it. A parcel is journalled with the change that it
// tells of, so each change is told of by one event, and that event survives a kill; it may be sent more than once.
type Webhooks struct {
	clock    *Clock
	journal  *Journal
	faults   *Faults
	logger   *slog.Logger
	couriers map[string]Courier
	client   *http.Client

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	slots   chan struct{} // taken by requests under way
	sending sync.WaitGroup

	mu        sync.Mutex
	started   bool
	endpoints map[string]Endpoint
	byID      map[string]*Parcel
	order     []*Parcel
}

// NewWebhooks makes webhooks without events; couriers are registered by their provider's name.
func NewWebhooks(clock *Clock, journal *Journal, faults *Faults, logger *slog.Logger, couriers map[string]Courier) *Webhooks {
	w := &Webhooks{
		clock: clock, journal: journal, faults: faults, logger: logger, couriers: couriers, client: newSender(),
		slots: make(chan struct{}, maxSending), endpoints: map[string]Endpoint{}, byID: map[string]*Parcel{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start gives a secret to every provider that has none, and begins to send what the journal still holds. Replay
// comes before it.
func (w *Webhooks) Start() error {
	without := map[string]Endpoint{}
	for name := range w.couriers {
		if e := w.Endpoint(name); e.Secret == "" {
			without[name] = e
		}
	}
	if err := w.SetEndpoints(without); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = true
	for _, p := range w.order {
		w.launch(p)
	}
	return nil
}

// close gives up what is being sent, which the next start sends again.
func (w *Webhooks) close() {
	w.mu.Lock()
	w.started = false
	w.cancel()
	w.mu.Unlock()
	w.sending.Wait()
	w.client.CloseIdleConnections()
}

// Endpoint returns where the provider's events go.
func (w *Webhooks) Endpoint(provider string) Endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endpoints[provider]
}

// ErrBadEndpoint refuses an endpoint to which nothing could be sent.
var ErrBadEndpoint = errors.New("bad webhook endpoint")

// SetEndpoints replaces the endpoints of the named providers, all or none. Without a secret an endpoint keeps the one that it
// had, or gets a new one. Events that are pending go to the new URL; events that were recorded while there was none
// stay recorded. ErrBadEndpoint refuses.
func (w *Webhooks) SetEndpoints(endpoints map[string]Endpoint) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var records []Record
	complete := map[string]Endpoint{}
	for name, e := range endpoints {
		courier, ok := w.couriers[name]
		if !ok {
			return fmt.Errorf("%w: there is no provider %s", ErrBadEndpoint, name)
		}
		if err := CheckURL(e.URL); err != nil {
			return fmt.Errorf("%w of %s: %w", ErrBadEndpoint, name, err)
		}
		e.Secret = cmp.Or(e.Secret, w.endpoints[name].Secret)
		if e.Secret == "" {
			e.Secret = courier.NewSecret()
		}
		if err := courier.CheckSecret(e.Secret); err != nil {
			return fmt.Errorf("%w of %s: %w", ErrBadEndpoint, name, err)
		}
		complete[name] = e
		records = append(records, NewRecord(endpointKind, namedEndpoint{name, e}))
	}
	if len(records) == 0 {
		return nil
	}
	if err := w.journal.Append(records...); err != nil {
		return fmt.Errorf("keep webhook endpoint: %w", err)
	}
	maps.Copy(w.endpoints, complete)
	return nil
}

// CheckURL refuses a webhook URL that is neither empty nor an absolute one of HTTP.
func CheckURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("a webhook URL must be absolute, such as http://127.0.0.1:8080/webhooks")
	}
	return nil
}

type namedEndpoint struct {
	Provider string
	Endpoint Endpoint
}

// Draft makes a parcel of a change at path, and decides whether it is going to be sent. The caller journals its Record
// and then hands it to Post.
func (w *Webhooks) Draft(provider, path, id string, events ...Event) *Parcel {
	p := &Parcel{ID: id, Provider: provider, Path: path, QueuedAt: w.clock.Now(), Events: events, Delivery: Delivery{State: Pending}}
	if w.Endpoint(provider).URL == "" || w.faults.takeWebhook(path) {
		p.State = Recorded
	}
	return p
}

// Post makes journalled parcels known, and begins to send them. They are the sandbox's from then on.
func (w *Webhooks) Post(parcels ...*Parcel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parcels {
		w.put(p)
		w.launch(p)
	}
}

// put adds a parcel. Now and then it drops the oldest of those that wait for nothing. w.mu is held.
func (w *Webhooks) put(p *Parcel) {
	w.byID[p.ID] = p
	w.order = append(w.order, p)
	if len(w.order) < 2*maxParcels || len(w.order)%maxParcels != 0 {
		return
	}
	surplus := len(w.order) - maxParcels
	w.order = slices.DeleteFunc(w.order, func(p *Parcel) bool {
		drop := surplus > 0 && p.State != Pending
		if drop {
			surplus--
			delete(w.byID, p.ID)
		}
		return drop
	})
}

// Events returns the events that are kept, oldest first: all that are pending, and at least the last 10,000 of the others.
func (w *Webhooks) Events() []ToldEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := []ToldEvent{}
	for _, p := range w.order {
		for _, e := range p.Events {
			told = append(told, ToldEvent{Event: e, Provider: p.Provider, Batch: p.ID, Delivery: p.Delivery})
		}
	}
	return told
}

// settled is what the journal keeps of a parcel that is not pending any more.
type settled struct {
	ID       string
	Delivery Delivery
}

// Kinds, Restore and Snapshot implement Keeper.
func (w *Webhooks) Kinds() []string { return []string{parcelKind, deliveryKind, endpointKind} }

func (w *Webhooks) Restore(r Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.Kind {
	case parcelKind:
		var p Parcel
		if err := json.Unmarshal(r.Value, &p); err != nil {
			return err
		}
		w.put(&p)
	case deliveryKind:
		var s settled
		if err := json.Unmarshal(r.Value, &s); err != nil {
			return err
		}
		if p, kept := w.byID[s.ID]; kept {
			p.Delivery = s.Delivery
		}
	case endpointKind:
		var e namedEndpoint
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return err
		}
		w.endpoints[e.Provider] = e.Endpoint
	}
	return nil
}

func (w *Webhooks) Snapshot() []Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	var records []Record
	for name, e := range w.endpoints {
		records = append(records, NewRecord(endpointKind, namedEndpoint{name, e}))
	}
	for _, p := range w.order {
		records = append(records, p.Record())
	}
	return records
}

// settle ends the parcel's sending for good. w.mu is held.
func (w *Webhooks) settle(p *Parcel, state State) error {
	p.State = state
	if state == Delivered {
		now := w.clock.Now()
		p.DeliveredAt = &now
	}
	if err := w.journal.Append(NewRecord(deliveryKind, settled{p.ID, p.Delivery})); err != nil {
		return fmt.Errorf("keep delivery of %s: %w", p.ID, err)
	}
	return nil
}

// lifeOver tells whether the parcel has been refused for as long as it is sent.
func (w *Webhooks) lifeOver(p *Parcel) bool { return w.clock.Now().Sub(p.QueuedAt) >= maxLife }

// maxLife is for how long, in sandbox time, a provider repeats an event: https://docs.stripe.com/webhooks#automatic-retries
const maxLife = 3 * 24 * time.Hour
