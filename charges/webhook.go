package charges

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncepay/oncepay/outbox"
)

// Provider is who told us something unasked.
type Provider string

// The providers.
const (
	ProviderStripe   Provider = "stripe"
	ProviderSendGrid Provider = "sendgrid"
)

// Providers are all providers.
var Providers = []Provider{ProviderStripe, ProviderSendGrid}

// EventStatus is what became of a provider's event.
type EventStatus string

// The statuses. A pending event is tried again, until what it is about is known here.
const (
	EventPending EventStatus = "pending"
	EventApplied EventStatus = "applied"
	EventIgnored EventStatus = "ignored"
)

// EventStatuses are all statuses.
var EventStatuses = []EventStatus{EventPending, EventApplied, EventIgnored}

// EventNote says why an event waits or was ignored, or what is odd about it. Empty: it was taken as it is.
type EventNote string

// The notes, apart from those of a payment's news.
const (
	EventUnknownType    EventNote = "unknown_type"    // of a type on which nothing is done
	EventMalformed      EventNote = "malformed"       // signed, and not of a form that we know
	EventNotOurs        EventNote = "not_ours"        // it names no charge of any deployment of ours
	EventUnmatched      EventNote = "unmatched"       // it names a charge that is not here
	EventNoAttempt      EventNote = "no_attempt"      // it names a charge for which nothing has been sent, as far as is known
	EventAnotherAccount EventNote = "another_account" // of a Stripe account other than the charge's
	EventWrongMode      EventNote = "wrong_mode"      // of Stripe's test mode, and the charge is live, or the other way round
	EventReadAgain      EventNote = "read_again"      // of a form that is not trusted: what it is about is read at Stripe
	EventDisputed       EventNote = "disputed"        // a dispute waits for evidence, or was lost
	EventRefundsExceed  EventNote = "refunds_exceed"  // more has been refunded than the charge's amount
	EventKeyDiffers     EventNote = "key_differs"     // a mail that names a charge, and not its key
	EventError          EventNote = "error"           // applying it failed; it is tried again
)

// Alarms are the notes of events that a person should look at.
var Alarms = []EventNote{EventNote(PaymentDiffers), EventNote(DuplicatePayment), EventNote(PaidAfterEnd), EventNote(RulingContradicted), EventDisputed,
	EventRefundsExceed, EventKeyDiffers, EventError}

// Alarm tells whether a person should look at an event with this note.
func (n EventNote) Alarm() bool { return slices.Contains(Alarms, n) }

// Odd tells whether an event with this note says that something may be set up wrongly.
func (n EventNote) Odd() bool {
	return n == EventUnmatched || n == EventNoAttempt || n == EventAnotherAccount || n == EventWrongMode || n == EventMalformed
}

// ProviderEvent is one event of a provider, and what became of it.
type ProviderEvent struct {
	ID         int64
	Provider   Provider
	EventID    string
	Type       string
	OccurredAt time.Time // by the provider's clock; zero: it did not say
	Status     EventStatus
	Note       EventNote
	ChargeID   uuid.UUID // zero: none is known
	Tries      int
	ReceivedAt time.Time
	UpdatedAt  time.Time
	Raw        []byte

	Duplicate bool  // of an event taken: it had been taken before, and did nothing this time
	Err       error // of an event taken whose note is EventError: why it could not be applied
}

// TakeStripeEvent stores a signed event of Stripe and applies it, in one transaction. One that was stored before is a
// duplicate: it does nothing, unless it still waits. An event that cannot be applied yet waits as pending, see [Service.ApplyPending].
func (s *Service) TakeStripeEvent(ctx context.Context, raw []byte) (ProviderEvent, error) {
	_, event := readStripeEvent(raw)
	taken, err := s.take(ctx, "webhook.stripe", []ProviderEvent{event})
	if err != nil {
		return ProviderEvent{}, err
	}
	return taken[0], nil
}

// TakeReceiptEvents stores the events of a signed batch of SendGrid and applies them, in one transaction, as
// [Service.TakeStripeEvent] does. An element that makes no sense is stored and noted, and does not keep the others from being taken.
func (s *Service) TakeReceiptEvents(ctx context.Context, batch []byte) ([]ProviderEvent, error) {
	events := readReceiptBatch(batch)
	if len(events) == 0 {
		return nil, nil
	}
	return s.take(ctx, "webhook.sendgrid", events)
}

func (s *Service) take(ctx context.Context, name string, events []ProviderEvent) (taken []ProviderEvent, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	events = distinct(events)
	// Batches lock charges in one order, so that two of them never wait for each other in a circle.
	slices.SortStableFunc(events, func(a, b ProviderEvent) int { return bytes.Compare(a.ChargeID[:], b.ChargeID[:]) })
	err = outbox.InTx(ctx, s.pool, name, func(tx pgx.Tx) error {
		fresh, err := insertEvents(ctx, tx, events)
		if err != nil {
			return err
		}
		waiting, err := lockWaiting(ctx, tx, events)
		if err != nil {
			return err
		}
		taken = slices.Clone(events)
		for i := range taken {
			e := &taken[i]
			stored, ok := waiting[e.EventID]
			if !ok {
				e.Duplicate = !fresh[e.EventID]
				continue
			}
			e.ID, e.ReceivedAt, e.Tries = stored.ID, stored.ReceivedAt, stored.Tries
			v, err := s.applyApart(ctx, tx, *e)
			if v.note == EventError {
				e.Err = err
			} else if err != nil {
				return fmt.Errorf("apply event %s of %s: %w", e.EventID, e.Provider, err)
			}
			e.Status, e.Note, e.ChargeID = v.status, v.note, v.charge
		}
		return nil
	})
	return taken, busy(err)
}

// distinct drops the repeats of an event within a batch.
func distinct(events []ProviderEvent) []ProviderEvent {
	seen := make(map[string]bool, len(events))
	var once []ProviderEvent
	for _, e := range events {
		if !seen[e.EventID] {
			once = append(once, e)
		}
		seen[e.EventID] = true
	}
	return once
}

// ErrBusy says that somebody else held for too long what an event is about. The provider may send it again.
var ErrBusy = errors.New("what the event is about is held by somebody else")

func busy(err error) error {
	if lockRefused(err) {
		return fmt.Errorf("%w (%w)", ErrBusy, err)
	}
	return err
}

// applyApart applies an event behind a savepoint: one that cannot be applied is kept without its effects, and tried again
// later, rather than lost when its provider gives up. What another try of the whole may mend is an error.
func (s *Service) applyApart(ctx context.Context, tx pgx.Tx, e ProviderEvent) (verdict, error) {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return verdict{}, err
	}
	v, err := s.applyEvent(ctx, savepoint, e)
	if err == nil {
		return v, savepoint.Commit(ctx)
	}
	if pgErr := (*pgconn.PgError)(nil); outbox.Unavailable(err) || lockRefused(err) || errors.As(err, &pgErr) && strings.HasPrefix(pgErr.Code, "40") {
		return verdict{}, err
	}
	if rollback := savepoint.Rollback(ctx); rollback != nil {
		return verdict{}, errors.Join(err, rollback)
	}
	v = waits(EventError)
	if settle := settleEvent(ctx, tx, e.ID, v); settle != nil {
		return verdict{}, errors.Join(err, settle)
	}
	return v, err
}

// verdict is what becomes of an event. The zero verdict is that of one that cannot be applied yet.
type verdict struct {
	status EventStatus
	note   EventNote
	charge uuid.UUID
}

func applied(charge uuid.UUID, note EventNote) verdict { return verdict{EventApplied, note, charge} }
func ignored(charge uuid.UUID, note EventNote) verdict { return verdict{EventIgnored, note, charge} }
func waits(note EventNote) verdict                     { return verdict{EventPending, note, uuid.Nil} }

// unmatchedFor is how long an event waits for what it is about: as long as Stripe sends an event again by itself.
const unmatchedFor = 3 * 24 * time.Hour

// applyEvent does what a locked event calls for, and writes down on it what became of it.
func (s *Service) applyEvent(ctx context.Context, tx pgx.Tx, e ProviderEvent) (v verdict, err error) {
	switch e.Provider {
	case ProviderStripe:
		v, err = s.applyStripeEvent(ctx, tx, e)
	case ProviderSendGrid:
		v, err = applyReceiptEvent(ctx, tx, e)
	default:
		err = fmt.Errorf("unknown provider %q", e.Provider)
	}
	if err != nil {
		return v, err
	}
	if v.status == EventPending && time.Since(e.ReceivedAt) >= unmatchedFor {
		v.status = EventIgnored
	}
	return v, settleEvent(ctx, tx, e.ID, v)
}

var (
	eventIDShape   = regexp.MustCompile(`^[!-~]{1,200}$`)
	eventTypeShape = regexp.MustCompile(`^[a-z0-9_.]{1,100}$`)
)

// newEvent names an event by what its provider calls it, or by its own bytes where that is no name.
func newEvent(p Provider, raw []byte, id, kind string, occurred time.Time) ProviderEvent {
	e := ProviderEvent{Provider: p, EventID: id, Type: kind, OccurredAt: occurred, Status: EventPending, Raw: raw}
	if !eventIDShape.MatchString(id) {
		sum := sha256.Sum256(raw)
		e.EventID = "sha256:" + hex.EncodeToString(sum[:])
	}
	if !eventTypeShape.MatchString(kind) {
		e.Type = "unknown"
	}
	return e
}

// aside is an event that is stored and not acted upon.
func (e ProviderEvent) aside(why EventNote) ProviderEvent {
	e.Status, e.Note = EventIgnored, why
	return e
}
