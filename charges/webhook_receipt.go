package charges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// receiptEvent is one element of SendGrid's batches; our custom arguments are members of it:
// https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event
type receiptEvent struct {
	ID        string    `json:"sg_event_id"`
	MessageID string    `json:"sg_message_id"`
	Event     string    `json:"event"`
	Timestamp int64     `json:"timestamp"` // seconds
	Key       string    `json:"oncepay_key"`
	Charge    string    `json:"oncepay_charge"`
	Reason    looseText `json:"reason"`
	Response  looseText `json:"response"`
}

// looseText is a text for people: of another form it is left out rather than that the event is lost with it.
type looseText string

func (t *looseText) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*t = looseText(s)
	}
	return nil
}

// receiptEvidence maps the events of a mail's way to what they prove. All others (opens, clicks) prove nothing that counts here.
var receiptEvidence = map[string]ReceiptStatus{
	"processed": ReceiptSent,
	"deferred":  ReceiptDeferred,
	"dropped":   ReceiptDropped,
	"delivered": ReceiptDelivered,
	"bounce":    ReceiptBounced, // of either type, bounce and blocked
}

// maxBatch bounds the elements of one batch, far above what SendGrid sends.
const maxBatch = 5000

// readReceiptBatch takes a batch apart. What is no batch at all is one malformed event.
func readReceiptBatch(batch []byte) []ProviderEvent {
	var elements []json.RawMessage
	if err := json.Unmarshal(batch, &elements); err != nil || elements == nil || len(elements) > maxBatch {
		return []ProviderEvent{newEvent(ProviderSendGrid, batch, "", "", time.Time{}).aside(EventMalformed)}
	}
	events := make([]ProviderEvent, len(elements))
	for i, raw := range elements {
		_, events[i] = readReceiptEvent(raw)
	}
	return events
}

func readReceiptEvent(raw []byte) (receiptEvent, ProviderEvent) {
	var r receiptEvent
	err := json.Unmarshal(raw, &r)
	var occurred time.Time
	if r.Timestamp > 0 && r.Timestamp < 1<<36 {
		occurred = time.Unix(r.Timestamp, 0).UTC()
	}
	e := newEvent(ProviderSendGrid, raw, r.ID, r.Event, occurred)
	_, acts := receiptEvidence[r.Event]
	id, idErr := uuid.Parse(r.Charge)
	switch {
	case err != nil || r.Event != e.Type:
		return r, e.aside(EventMalformed)
	case !acts:
		return r, e.aside(EventUnknownType)
	case r.Charge == "" && r.Key == "":
		return r, e.aside(EventNotOurs)
	case idErr != nil:
		return r, e.aside(EventMalformed)
	}
	e.ChargeID = id
	return r, e
}

// applyReceiptEvent moves a receipt up to what the event proves, and never down: events come in any order, and again.
func applyReceiptEvent(ctx context.Context, tx pgx.Tx, e ProviderEvent) (verdict, error) {
	r, read := readReceiptEvent(e.Raw)
	if read.Status == EventIgnored {
		return ignored(uuid.Nil, read.Note), nil
	}
	charge := read.ChargeID
	status, key, err := lockReceiptKey(ctx, tx, charge)
	switch {
	case errors.Is(err, ErrNotFound):
		return waits(EventUnmatched), nil
	case err != nil:
		return verdict{}, err
	case !strings.EqualFold(r.Key, key.String()):
		return ignored(charge, EventKeyDiffers), nil
	}
	proven := receiptEvidence[r.Event]
	if proven.rank() > status.rank() {
		err = proveReceipt(ctx, tx, charge, ReceiptResult{Status: proven, MessageID: messageID(r.MessageID), Error: r.trouble(proven)})
	}
	return applied(charge, ""), err
}

// trouble is why a mail has not arrived.
func (r receiptEvent) trouble(proven ReceiptStatus) string {
	if proven == ReceiptSent || proven == ReceiptDelivered {
		return ""
	}
	if text := cleanText(string(r.Reason)); text != "" {
		return text
	}
	return cleanText(string(r.Response))
}

var messageIDShape = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

// messageID is the X-Message-Id that SendGrid's answer had. Events carry it with the names of the machines that it passed.
func messageID(text string) string {
	id, _, cut := strings.Cut(text, ".filter")
	if !cut {
		id, _, _ = strings.Cut(text, ".")
	}
	if !messageIDShape.MatchString(id) {
		return ""
	}
	return id
}

// rank orders what is known of a receipt, so that its status does not depend on the order in which events arrive.
// What we know by ourselves counts least: a signed event is evidence. A mail that is deferred may still arrive, a dropped one was never tried,
// so word of a delivery outranks both; and a bounce can follow a delivery, when the receiving server finds later that it cannot
// deliver after all, whereas no delivery follows a bounce.
func (s ReceiptStatus) rank() int {
	switch s {
	case ReceiptSent:
		return 1
	case ReceiptDeferred:
		return 2
	case ReceiptDropped:
		return 3
	case ReceiptDelivered:
		return 4
	case ReceiptBounced:
		return 5
	}
	return 0 // pending, sending, unknown, failed
}

// lockReceiptKey locks the receipt of a charge and reads the charge's key.
func lockReceiptKey(ctx context.Context, tx pgx.Tx, charge uuid.UUID) (status ReceiptStatus, key uuid.UUID, err error) {
	err = tx.QueryRow(ctx, `
SELECT r.status, c.idempotency_key
  FROM receipt r JOIN charge c ON c.id = r.charge_id
 WHERE r.charge_id = $1 FOR UPDATE OF r`, charge).Scan(&status, &key)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		err = fmt.Errorf("lock receipt of charge %s: %w", charge, err)
	}
	return status, key, err
}

const proveReceiptSQL = `
UPDATE receipt
   SET status = $2, message_id = coalesce(message_id, nullif($3, '')), error = nullif($4, ''), updated_at = clock_timestamp()
 WHERE charge_id = $1`

// proveReceipt writes down what an event has proved.
func proveReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID, r ReceiptResult) error {
	if _, err := tx.Exec(ctx, proveReceiptSQL, charge, r.Status, r.MessageID, r.Error); err != nil {
		return fmt.Errorf("update receipt of charge %s: %w", charge, err)
	}
	return nil
}
