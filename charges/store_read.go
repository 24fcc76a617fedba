package charges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// querier reads, in a transaction or outside of one.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const selectCharge = `
SELECT ` + chargeColumns + `
  FROM charge c` + chargeJoins

const chargeColumns = `c.id, c.caller, c.idempotency_key, c.request, c.status, c.payment_intent, c.failure_code, c.decline_code,
       c.failure_message, c.advice, c.review_reason, r.status, p.client_secret, p.redirect_url, c.created_at, c.updated_at, c.stock,
       CASE WHEN c.status = 'succeeded' THEN coalesce(p.received, 0) ELSE 0 END,
       coalesce((SELECT sum(amount) FROM refund WHERE payment = c.payment_intent AND status IN ` + countedRefunds + `), 0)::bigint,
       d.status, d.reason, d.amount, d.currency, d.due_by`

const chargeJoins = `
  LEFT JOIN receipt r ON r.charge_id = c.id
  LEFT JOIN payment p ON p.id = c.payment_intent
  LEFT JOIN LATERAL (
       SELECT status, reason, amount, currency, due_by FROM dispute WHERE payment = c.payment_intent
        ORDER BY status IN ` + closedDisputes + `, opened_at DESC, id DESC LIMIT 1) d ON true`

// scanCharge reads one row of selectCharge.
func scanCharge(row pgx.Row) (Charge, error) {
	c := Charge{Object: "charge"}
	var request string
	var failure, decline, message, advice, review, receipt, secret, redirect, dispute, reason, currency *string
	var disputed *int64
	var dueBy *time.Time
	err := row.Scan(&c.ID, &c.Caller, &c.IdempotencyKey, &request, &c.Status, &c.PaymentIntent, &failure, &decline,
		&message, &advice, &review, &receipt, &secret, &redirect, &c.CreatedAt, &c.UpdatedAt, &c.Stock, &c.AmountCaptured, &c.AmountRefunded,
		&dispute, &reason, &disputed, &currency, &dueBy)
	if errors.Is(err, pgx.ErrNoRows) {
		return Charge{}, ErrNotFound
	}
	if err != nil {
		return Charge{}, err
	}
	// To be shown, a charge is read with whatever a newer release has added; to be sent, it is not: see nextAttempt.
	if err := json.Unmarshal([]byte(request), &c.Request); err != nil {
		return Charge{}, fmt.Errorf("stored request of charge %s: %w", c.ID, err)
	}
	c.Request, c.canonical = c.Request.normalised(), request
	if failure != nil {
		c.Failure = &Failure{Code: *failure, DeclineCode: decline, Message: message}
		if advice != nil {
			c.Failure.Advice = Advice(*advice)
		}
	}
	if review != nil {
		c.Review = &Review{Reason: *review}
	}
	if receipt != nil {
		c.Receipt = &Receipt{Status: ReceiptStatus(*receipt)}
	}
	if secret != nil && c.Status == RequiresAction {
		c.NextAction = &NextAction{ClientSecret: *secret, RedirectURL: redirect}
	}
	if dispute != nil {
		c.Dispute = &Dispute{Status: *dispute, Reason: *reason, Amount: *disputed, Currency: *currency}
		if dueBy != nil {
			utc := dueBy.UTC()
			c.Dispute.DueBy = &utc
		}
	}
	c.CreatedAt, c.UpdatedAt = c.CreatedAt.UTC(), c.UpdatedAt.UTC()
	return c, nil
}

func scanCharges(rows pgx.Rows) ([]Charge, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Charge, error) { return scanCharge(row) })
}

const readChargeSQL = `
SELECT asked.place, ` + chargeColumns + `
  FROM unnest($1::integer[], $2::uuid[]) AS asked (place, id)
  JOIN charge c ON c.id = asked.id` + chargeJoins

// readCharge is findCharge in a transaction that may be shared.
func readCharge(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Charge, error) {
	c, err := scanCharge(outbox.ReadRow(ctx, tx, readChargeSQL, id))
	if err != nil {
		return c, fmt.Errorf("read charge %s: %w", id, err)
	}
	return c, nil
}

func findCharge(ctx context.Context, db querier, id uuid.UUID) (Charge, error) {
	c, err := scanCharge(db.QueryRow(ctx, selectCharge+` WHERE c.id = $1`, id))
	if err != nil {
		return c, fmt.Errorf("find charge %s: %w", id, err)
	}
	return c, nil
}

// findReference returns the charge that holds a caller's reference.
func findReference(ctx context.Context, db querier, caller, reference string) (Charge, error) {
	c, err := scanCharge(db.QueryRow(ctx, selectCharge+`
 WHERE c.caller = $1 AND c.reference = $2 AND NOT c.reference_freed`, caller, reference))
	if err != nil {
		return c, fmt.Errorf("find charge by reference: %w", err)
	}
	return c, nil
}

// mostListed bounds a page of charges. A list reads one more, to tell whether there are more.
const mostListed = 100

// The list has a text for each way into the table, since one for all would leave the planner no index for any: a page costs what is on it, and not
// what lies between. The inner limit tells the planner so, for whom $5 may be anything. It goes on below an id; see newestID.
const (
	listIDs  = ` WHERE c.id = ANY (ARRAY(SELECT id FROM (SELECT c.id FROM charge c`
	listPage = `
   AND c.id < $4
 ORDER BY c.id DESC
 LIMIT 101) newest LIMIT $5))
 ORDER BY c.id DESC`

	ofAnybody = ` WHERE $1 = ''`
	ofCaller  = ` WHERE c.caller = $1`

	withAnyReference = ` AND $3 = ''`
	withAnyStatus    = ` AND $2 = ''`
	withStatus       = ` AND c.status = $2`
	orAnyStatus      = ` AND ($2 = '' OR c.status = $2)`

	// Most charges go from pending by way of processing to succeeded: the others have indexes of their own, of which those know nothing.
	listAside      = ` AND c.status IN ('requires_action', 'requires_capture', 'needs_review', 'failed', 'canceled')`
	listUnfinished = ` AND c.status NOT IN ('succeeded', 'failed', 'canceled')`

	// A caller's reference is on one charge that holds it and on those that have freed it.
	listReference = ` WHERE c.id = ANY (ARRAY(
       SELECT id FROM charge WHERE caller = $1 AND reference = $3 AND NOT reference_freed
        UNION ALL
       SELECT id FROM charge WHERE caller = $1 AND reference = $3 AND reference_freed))`

	// Whoever asks for all callers' asks for one after the other.
	listReferenceOfAnybody = ` WHERE $1 = '' AND c.id = ANY (ARRAY(
      WITH RECURSIVE callers AS (
          (SELECT caller FROM charge ORDER BY caller LIMIT 1)
           UNION ALL
          SELECT (SELECT n.caller FROM charge n WHERE n.caller > k.caller ORDER BY n.caller LIMIT 1) FROM callers k WHERE k.caller IS NOT NULL
      )
      SELECT o.id FROM callers k CROSS JOIN LATERAL (
             SELECT id FROM charge WHERE caller = k.caller AND reference = $3 AND NOT reference_freed
              UNION ALL
             SELECT id FROM charge WHERE caller = k.caller AND reference = $3 AND reference_freed) o))`
)

// listSQL is the text for a list: of a caller, or of all, and narrowed as f says.
func listSQL(caller string, f ListFilter) string {
	which, reference := ofCaller, listReference
	if caller == "" {
		which, reference = ofAnybody, listReferenceOfAnybody
	}
	switch {
	case f.Reference != "":
		which = reference + orAnyStatus
	case f.Status == "":
		which += withAnyReference + withAnyStatus
	case f.Status == Succeeded:
		which += withAnyReference + withStatus
	case f.Status.Waiting():
		which += withAnyReference + withStatus + listUnfinished
	default:
		which += withAnyReference + withStatus + listAside
	}
	return selectCharge + listIDs + which + listPage
}

// newestID is above every charge's.
var newestID = uuid.Max

func listCharges(ctx context.Context, db querier, caller string, f ListFilter) ([]Charge, error) {
	if f.After == uuid.Nil {
		f.After = newestID
	}
	rows, err := db.Query(ctx, listSQL(caller, f), caller, f.Status, f.Reference, f.After, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list charges: %w", err)
	}
	list, err := scanCharges(rows)
	if err != nil {
		return nil, fmt.Errorf("list charges: %w", err)
	}
	return list, nil
}

// settledChargesSQL reads those of the charges that nobody needs to wait for any longer.
const settledChargesSQL = selectCharge + `
 WHERE c.id = ANY ($1) AND c.status NOT IN ('pending', 'processing')`

func settledCharges(ctx context.Context, db querier, ids []uuid.UUID) ([]Charge, error) {
	rows, err := db.Query(ctx, settledChargesSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("read settled charges: %w", err)
	}
	list, err := scanCharges(rows)
	if err != nil {
		return nil, fmt.Errorf("read settled charges: %w", err)
	}
	return list, nil
}

const listEventsSQL = `
SELECT id, type, from_status, to_status, actor, at, data
  FROM charge_event
 WHERE charge_id = $1 AND id > $2
 ORDER BY id
 LIMIT $3`

func listEvents(ctx context.Context, db querier, charge uuid.UUID, after int64, limit int) ([]Event, error) {
	rows, err := db.Query(ctx, listEventsSQL, charge, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list events of charge %s: %w", charge, err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Event, error) {
		var e Event
		var data []byte
		if err := row.Scan(&e.ID, &e.Type, &e.From, &e.To, &e.Actor, &e.At, &data); err != nil {
			return e, err
		}
		e.At = e.At.UTC()
		return e, json.Unmarshal(data, &e.Data)
	})
	if err != nil {
		return nil, fmt.Errorf("list events of charge %s: %w", charge, err)
	}
	return events, nil
}

// A key whose stored answer has expired is still found, by its charge.
const findKeyUseSQL = `
SELECT c.id, c.created_at, k.expires_at
  FROM charge c
  LEFT JOIN idempotency_key k ON k.key = c.idempotency_key AND k.expires_at > now()
 WHERE c.idempotency_key = $1 AND ($2 = '' OR c.caller = $2)`

func findKeyUse(ctx context.Context, db querier, key uuid.UUID, caller string) (charge uuid.UUID, created time.Time, expires *time.Time, err error) {
	err = db.QueryRow(ctx, findKeyUseSQL, key, caller).Scan(&charge, &created, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		err = fmt.Errorf("find idempotency key: %w", err)
	}
	return charge, created, expires, err
}
