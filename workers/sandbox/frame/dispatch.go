package frame

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tamper is what is wrong with a delivery.
type Tamper string

// The ways to spoil a delivery, and TwoSignatures, which does not.
const (
	Flip          Tamper = "flip"           // one bit of the body is flipped after signing
	Old           Tamper = "old"            // signed 301 s ago, one more than receivers commonly take
	Future        Tamper = "future"         // signed an hour ahead
	Unsigned      Tamper = "unsigned"       // no signature at all
	WrongKey      Tamper = "wrong_key"      // signed with a secret that nobody knows
	NoCRLF        Tamper = "no_crlf"        // the final CRLF is missing, which SendGrid signs
	TwoSignatures Tamper = "two_signatures" // a stranger's signature first, then the good one: Stripe while a secret is rolled
)

// Dispatch says which events are sent by hand, how often, in which order and with what about them changed. It sends
// whatever state the events are in, and past a no_webhooks fault.
type Dispatch struct {
	// Events are ids of events, or of batches, to be sent in this order, each in a request of its own.
	Events []string `json:"events,omitempty"`
	// All, instead of Events, is every batch that is kept, oldest first; of one Provider, where that is given.
	All      bool   `json:"all,omitempty"`
	Provider string `json:"provider,omitempty"`

	// Times is how often the whole sequence is sent; 0 means 1.
	Times int `json:"times,omitempty"`
	// Reverse turns the sequence round, Shuffle puts it into an order that depends on the seed alone.
	Reverse bool    `json:"reverse,omitempty"`
	Shuffle *uint64 `json:"shuffle,omitempty"`
	// Parallel sends without waiting for the answer to the one before, up to 64 at once.
	Parallel bool `json:"parallel,omitempty"`

	// NewIDs gives every event an id that it never had, as providers do when they tell the same thing again.
	NewIDs bool `json:"new_ids,omitempty"`
	// APIVersion replaces the api_version of events that have one.
	APIVersion string `json:"api_version,omitempty"`
	// Set replaces members of the event before it is signed, by their path, such as "data.object.amount": 1.
	Set map[string]any `json:"set,omitempty"`
	// Tamper spoils the signature or what was signed.
	Tamper Tamper `json:"tamper,omitempty"`
}

// Sent is what came of one request.
type Sent struct {
	ID     string `json:"id"` // of the event or batch, as it is kept
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"` // why there was no status
}

// What a Dispatch is refused for.
var (
	ErrBadDispatch = errors.New("bad dispatch")
	ErrNoSuchEvent = errors.New("no such event")
	ErrNoEndpoint  = errors.New("no webhook URL is set")
)

const (
	maxShipments = 10_000
	maxParallel  = 64
)

// shipment is one request of a Dispatch.
type shipment struct {
	id, provider string
	payloads     []json.RawMessage
	parcel       *Parcel // that is delivered by it; nil for a part of one
}

// Deliver sends what d says and returns what came of each request, in the order of sending. It ends early with ctx. A
// batch that was sent whole and as it is, and answered by a 2xx, is delivered.
func (w *Webhooks) Deliver(ctx context.Context, d Dispatch) ([]Sent, error) {
	shipments, err := w.pick(d)
	if err != nil {
		return nil, err
	}
	requests := make([]request, len(shipments))
	for i, s := range shipments {
		if requests[i], err = w.prepare(s, d); err != nil {
			return nil, err
		}
	}
	atOnce := 1
	if d.Parallel {
		atOnce = maxParallel
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	sent := make([]Sent, len(requests))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, r := range requests {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			status, err := w.send(ctx, r.courier, r.url, r.header, r.body)
			sent[i] = Sent{ID: shipments[i].id, Status: status, Error: reason(err)}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return sent, fmt.Errorf("deliver webhooks: %w", ctx.Err())
	}
	return sent, w.credit(d, shipments, sent)
}

// credit settles the parcels that a plain dispatch has delivered.
func (w *Webhooks) credit(d Dispatch, shipments []shipment, sent []Sent) error {
	if d.Tamper != "" || d.NewIDs || d.APIVersion != "" || len(d.Set) > 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range shipments {
		if s.parcel != nil && ok(sent[i].Status) && s.parcel.State != Delivered {
			if err := w.settle(s.parcel, Delivered); err != nil {
				return err
			}
		}
	}
	return nil
}

// pick puts the requests into their order.
func (w *Webhooks) pick(d Dispatch) ([]shipment, error) {
	switch {
	case d.All == (len(d.Events) > 0):
		return nil, fmt.Errorf("%w: give events or all", ErrBadDispatch)
	case d.Provider != "" && (!d.All || w.couriers[d.Provider] == nil):
		return nil, fmt.Errorf("%w: provider goes with all, and is one of %s", ErrBadDispatch, strings.Join(slices.Sorted(maps.Keys(w.couriers)), ", "))
	case d.Reverse && d.Shuffle != nil:
		return nil, fmt.Errorf("%w: give reverse or shuffle", ErrBadDispatch)
	case d.Times < 0:
		return nil, fmt.Errorf("%w: times must be 1 or more", ErrBadDispatch)
	}
	chosen, err := w.choose(d)
	if err != nil {
		return nil, err
	}
	if d.Reverse {
		slices.Reverse(chosen)
	}
	times := max(d.Times, 1)
	if len(chosen)*times > maxShipments || times > maxShipments {
		return nil, fmt.Errorf("%w: that is more than %d requests", ErrBadDispatch, maxShipments)
	}
	chosen = slices.Repeat(chosen, times)
	if d.Shuffle != nil {
		r := rand.New(rand.NewPCG(*d.Shuffle, 0))
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	}
	return chosen, nil
}

func (w *Webhooks) choose(d Dispatch) ([]shipment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var chosen []shipment
	if d.All {
		for _, p := range w.order {
			if d.Provider == "" || d.Provider == p.Provider {
				chosen = append(chosen, whole(p))
			}
		}
		return chosen, nil
	}
	byEvent := map[string]shipment{}
	for _, p := range w.order {
		for _, e := range p.Events {
			byEvent[e.ID] = shipment{e.ID, p.Provider, []json.RawMessage{e.Payload}, nil}
		}
		byEvent[p.ID] = whole(p)
	}
	for _, id := range d.Events {
		s, known := byEvent[id]
		if !known {
			return nil, fmt.Errorf("%w: %q", ErrNoSuchEvent, id)
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func whole(p *Parcel) shipment { return shipment{p.ID, p.Provider, p.payloads(), p} }

// request is a shipment ready to go.
type request struct {
	courier Courier
	url     string
	header  http.Header // the signature
	body    []byte
}

func (w *Webhooks) prepare(s shipment, d Dispatch) (request, error) {
	courier, endpoint := w.couriers[s.provider], w.Endpoint(s.provider)
	if endpoint.URL == "" {
		return request{}, fmt.Errorf("%w for %s", ErrNoEndpoint, s.provider)
	}
	payloads := make([]json.RawMessage, len(s.payloads))
	for i, payload := range s.payloads {
		changes := maps.Clone(d.Set)
		if changes == nil {
			changes = map[string]any{}
		}
		if d.NewIDs {
			changes[courier.IDMember()] = courier.NewID()
		}
		var err error
		if payloads[i], err = rewrite(payload, changes, d.APIVersion); err != nil {
			return request{}, fmt.Errorf("%w: %w", ErrBadDispatch, err)
		}
	}
	r := request{courier: courier, url: endpoint.URL, body: courier.Body(payloads)}
	err := r.sign(endpoint.Secret, d.Tamper)
	return r, err
}

// sign signs the body, spoilt as it is to be.
func (r *request) sign(secret string, tamper Tamper) (err error) {
	at, secrets := time.Now(), []string{secret}
	switch tamper {
	case "", Flip, Unsigned, NoCRLF:
	case Old:
		at = at.Add(-301 * time.Second)
	case Future:
		at = at.Add(time.Hour)
	case WrongKey:
		secrets = []string{r.courier.NewSecret()}
	case TwoSignatures:
		secrets = []string{r.courier.NewSecret(), secret}
	default:
		return fmt.Errorf("%w: unknown tamper %q", ErrBadDispatch, tamper)
	}
	if r.header, err = r.courier.Sign(r.body, at, secrets...); err != nil {
		return fmt.Errorf("%w: %w", ErrBadDispatch, err)
	}
	switch tamper {
	case Unsigned:
		r.header = nil
	case Flip:
		// The lowest bit of a letter gives another letter: the JSON stays whole, and only the signature can tell.
		i := strings.LastIndexFunc(string(r.body), func(c rune) bool { return c >= 'b' && c <= 'y' })
		r.body[i] ^= 1
	case NoCRLF:
		bare := strings.TrimSuffix(string(r.body), "\r\n")
		if len(bare) == len(r.body) {
			return fmt.Errorf("%w: no_crlf: such a body does not end in CRLF", ErrBadDispatch)
		}
		r.body = []byte(bare)
	}
	return nil
}
