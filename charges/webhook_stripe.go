package charges

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// stripeVersion is the API version in which an event's snapshot is understood, that of the SDK which talks to Stripe. An event comes in
// the version of its endpoint, which somebody sets at Stripe by hand.
const stripeVersion = "2023-10-16"

// stripeEvent is an event in its envelope: https://docs.stripe.com/api/events/object. Thin events, of which Stripe
// sends only the object's id, are of another form: https://docs.stripe.com/event-destinations#thin-events
type stripeEvent struct {
	ID         string          `json:"id"`
	Object     string          `json:"object"`
	Account    string          `json:"account"` // set only for an account that is connected to ours
	APIVersion string          `json:"api_version"`
	Type       string          `json:"type"`
	Created    json.RawMessage `json:"created"` // seconds, or RFC 3339 in a thin event
	Livemode   bool            `json:"livemode"`
	Data       struct {
		Object json.RawMessage `json:"object"`
	} `json:"data"`
	Related struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	} `json:"related_object"`
}

// readStripeEvent reads an event, and says whether anything is to be done about it: it is for every type of a payment's, a
// refund's and a dispute's event, since each of them tells the status of what it is about.
func readStripeEvent(raw []byte) (stripeEvent, ProviderEvent) {
	var s stripeEvent
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, newEvent(ProviderStripe, raw, "", "", time.Time{}).aside(EventMalformed)
	}
	e := newEvent(ProviderStripe, raw, s.ID, s.Type, s.createdAt())
	switch {
	case s.ID != e.EventID || s.Type != e.Type || e.OccurredAt.IsZero():
		return s, e.aside(EventMalformed)
	case s.subject() == aboutNothing:
		return s, e.aside(EventUnknownType)
	}
	return s, e
}

func (s stripeEvent) createdAt() time.Time {
	var seconds int64
	if err := json.Unmarshal(s.Created, &seconds); err == nil && seconds > 0 && seconds < 1<<36 {
		return time.Unix(seconds, 0).UTC()
	}
	var at time.Time
	if err := json.Unmarshal(s.Created, &at); err == nil {
		return at.UTC()
	}
	return time.Time{}
}

// trusted tells whether the snapshot's members mean what they mean to us.
func (s stripeEvent) trusted() bool { return s.whole() && s.APIVersion == stripeVersion }

// subject is what an event is about.
type subject int

const (
	aboutNothing subject = iota // that we act upon
	aboutPayment
	aboutRefund
	aboutDispute
	aboutCharge // Stripe's charge, in which only that it was refunded is of interest
)

func (s stripeEvent) subject() subject {
	t := strings.TrimPrefix(s.Type, "v1.")
	switch {
	case strings.HasPrefix(t, "payment_intent."):
		return aboutPayment
	case strings.HasPrefix(t, "refund."), t == "charge.refund.updated":
		return aboutRefund
	case strings.HasPrefix(t, "charge.dispute."):
		return aboutDispute
	case t == "charge.refunded":
		return aboutCharge
	}
	return aboutNothing
}

// naming is what an event of any version and form says of what it is about.
type naming struct {
	object   string            // the id of its own object
	payment  string            // "pi_..."
	metadata map[string]string // the payment's, which Stripe copies to its charge; refunds and disputes have some of their own
}

func (s stripeEvent) named() naming {
	var o struct {
		ID       string            `json:"id"`
		Payment  objectID          `json:"payment_intent"`
		Metadata map[string]string `json:"metadata"`
	}
	if err := json.Unmarshal(s.Data.Object, &o); err != nil || o.ID == "" {
		o.ID = s.Related.ID // all that a thin event gives
	}
	switch s.subject() {
	case aboutPayment:
		return naming{o.ID, o.ID, o.Metadata}
	case aboutCharge:
		return naming{o.ID, string(o.Payment), o.Metadata}
	}
	return naming{o.ID, string(o.Payment), nil}
}

// whole tells whether the event has a snapshot, of whatever version.
func (s stripeEvent) whole() bool { return s.Object == "event" }

// applyStripeEvent brings what an event tells of to its charge.
func (s *Service) applyStripeEvent(ctx context.Context, tx pgx.Tx, e ProviderEvent) (verdict, error) {
	event, read := readStripeEvent(e.Raw)
	if read.Status == EventIgnored {
		return ignored(uuid.Nil, read.Note), nil
	}
	m, v, err := event.match(ctx, tx)
	if err != nil || m.charge == uuid.Nil {
		return v, err
	}
	c, _, err := lockCharge(ctx, tx, m.charge)
	if err != nil {
		return verdict{}, err
	}
	attempts, err := listAttempts(ctx, tx, []uuid.UUID{c.ID})
	if err != nil {
		return verdict{}, err
	}
	here, note := event.at(attempts[c.ID], m.known)
	switch {
	case note == EventNoAttempt:
		return waits(note), nil
	case note != "":
		return ignored(c.ID, note), nil
	}
	subject := event.subject()
	switch {
	case !m.known && (!event.trusted() || subject != aboutPayment):
		return waits(EventUnmatched), nil // for anything but its own news, the payment must be on record
	case subject == aboutCharge, !event.trusted() && subject != aboutPayment:
		return applied(c.ID, EventReadAgain), s.readRefunds(ctx, tx, c.ID)
	case !event.trusted():
		return applied(c.ID, EventReadAgain), s.follow(ctx, tx, c.ID)
	case m.differs:
		return ignored(c.ID, EventNote(PaymentDiffers)), nil
	}
	data := map[string]any{"event": e.EventID}
	switch subject {
	case aboutRefund:
		n, ok := event.refundNews()
		return taken(c.ID, ok, func() (EventNote, error) { return takeRefund(ctx, tx, c, n, stripeSays, data) })
	case aboutDispute:
		n, ok := event.disputeNews()
		return taken(c.ID, ok, func() (EventNote, error) { return takeDispute(ctx, tx, c, n, stripeSays, data) })
	}
	news, ok := event.paymentNews()
	return taken(c.ID, ok, func() (EventNote, error) {
		took, err := s.takeNews(ctx, tx, c, here, news, stripeSays, data)
		return EventNote(took.note), err
	})
}

// match finds the charge that the event is about, or says what becomes of an event that has none.
func (s stripeEvent) match(ctx context.Context, tx pgx.Tx) (m match, v verdict, err error) {
	named := s.named()
	payment := named.payment
	if payment == "" && !s.whole() {
		payment, err = findPaymentOf(ctx, tx, named.object)
	}
	switch {
	case err != nil:
		return m, v, err
	case !objectShape.MatchString(named.object), payment != "" && !intentShape.MatchString(payment):
		return m, ignored(uuid.Nil, EventMalformed), nil
	case payment == "" && s.whole():
		return m, ignored(uuid.Nil, EventNotOurs), nil // all our charges are payments
	case payment == "":
		return m, waits(EventUnmatched), nil
	}
	m, err = matchPayment(ctx, tx, payment, named.metadata)
	if err != nil || m.charge != uuid.Nil {
		return m, v, err
	}
	subject := s.subject()
	if s.whole() && !m.names && (subject == aboutPayment || subject == aboutCharge) {
		return m, ignored(uuid.Nil, EventNotOurs), nil
	}
	return m, waits(EventUnmatched), nil // all others do not tell whose they are
}

// taken is what becomes of an event whose snapshot could be read, or could not.
func taken(charge uuid.UUID, read bool, take func() (EventNote, error)) (verdict, error) {
	if !read {
		return ignored(charge, EventMalformed), nil
	}
	note, err := take()
	switch {
	case err != nil:
		return verdict{}, err
	case note == EventNote(PaymentDiffers):
		return ignored(charge, note), nil
	}
	return applied(charge, note), nil
}

// at finds the account and mode in which an event's payment may be the charge's. This process has no key that would tell: the
// charge's attempts do. A payment that is on record needs none: where they were removed, the account is whichever the event names.
func (s stripeEvent) at(attempts []Attempt, known bool) (Account, EventNote) {
	removed := known && len(attempts) == 0
	if s.Account != "" && !removed && !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Account.ID == s.Account }) {
		return Account{}, EventAnotherAccount
	}
	for _, a := range slices.Backward(attempts) {
		if a.Account.Livemode == s.Livemode {
			return a.Account, ""
		}
	}
	switch {
	case len(attempts) > 0:
		return Account{}, EventWrongMode
	case known:
		return Account{Livemode: s.Livemode}, ""
	}
	return Account{}, EventNoAttempt
}

// match is the charge that a payment belongs to.
type match struct {
	charge  uuid.UUID // zero: none that is seen here
	known   bool      // the payment is on record as the charge's
	names   bool      // its metadata name a charge, here or elsewhere
	differs bool      // it names the charge, and not its key
}

func matchPayment(ctx context.Context, tx pgx.Tx, payment string, metadata map[string]string) (match, error) {
	key, keyErr := uuid.Parse(metadata["oncepay_key"])
	id, idErr := uuid.Parse(metadata["oncepay_charge"])
	m := match{names: keyErr == nil || idErr == nil}
	byPayment, byKey, byID, err := findByPayment(ctx, tx, payment, key, id)
	switch {
	case err != nil:
		return m, fmt.Errorf("match payment %s: %w", payment, err)
	case byPayment != uuid.Nil:
		m.charge, m.known = byPayment, true
	case byKey != uuid.Nil:
		m.charge = byKey
	case byID != uuid.Nil:
		m.charge, m.differs = byID, true
	}
	return m, nil
}
