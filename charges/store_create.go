package charges

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Rows are inserted in the order of their keys, so that two batches never wait for each other in a circle.
const insertChargesSQL = `
INSERT INTO charge (id, caller, idempotency_key, fingerprint, fingerprint_version, request,
                    amount, currency, reference, send_before, status, stock)
SELECT id, caller, key, fingerprint, $5, request, amount, currency, nullif(reference, ''), send_before, 'pending', stock
  FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bytea[], $6::text[],
              $7::bigint[], $8::text[], $9::text[], $10::timestamptz[], $11::text[])
       AS new (id, caller, key, fingerprint, request, amount, currency, reference, send_before, stock)
 ORDER BY key
    ON CONFLICT DO NOTHING
RETURNING id, created_at, updated_at`

// insertCharges inserts the claims whose key and reference are free, and tells them from the others.
func insertCharges(ctx context.Context, tx pgx.Tx, claims []*claim) (accepted, taken []*claim, err error) {
	n := len(claims)
	ids, callers, keys := make(uuids, n), make([]string, n), make(uuids, n)
	prints, requests, amounts := make([][]byte, n), make([]string, n), make([]int64, n)
	currencies, references, sendBefores, stocks := make([]string, n), make([]string, n), make([]*time.Time, n), make([]*Stock, n)
	for i, c := range claims {
		ids[i], callers[i], keys[i] = c.charge.ID, c.Caller, c.Key
		prints[i], requests[i], amounts[i] = c.fingerprint[:], string(c.canonical), c.Request.Amount
		currencies[i], references[i], sendBefores[i] = c.Request.Currency, c.Request.Reference, c.Request.SendBefore
		stocks[i] = c.charge.Stock
	}
	rows, err := tx.Query(ctx, insertChargesSQL, ids, callers, keys, prints, FingerprintVersion,
		requests, amounts, currencies, references, sendBefores, stocks)
	if err != nil {
		return nil, nil, fmt.Errorf("insert charges: %w", err)
	}
	type times struct{ created, updated time.Time }
	inserted := make(map[uuid.UUID]times, n)
	var id [16]byte
	var at times
	_, err = pgx.ForEachRow(rows, []any{&id, &at.created, &at.updated}, func() error {
		inserted[id] = at
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("insert charges: %w", err)
	}
	for _, c := range claims {
		if at, ok := inserted[c.charge.ID]; ok {
			c.charge.CreatedAt, c.charge.UpdatedAt = at.created.UTC(), at.updated.UTC()
			accepted = append(accepted, c)
		} else {
			taken = append(taken, c)
		}
	}
	return accepted, taken, nil
}

// uuids are sent to PostgreSQL as they are. Those of package uuid would take the way over their text.
type uuids = [][16]byte

// Keys come with what is held and the beginning of the audit trail in one statement.
const insertKeysSQL = `
WITH event AS (
    INSERT INTO charge_event (charge_id, type, to_status, actor, data)
    SELECT charge_id, 'charge.accepted', 'pending', 'caller:' || caller, CASE WHEN lost THEN '{"lost": true}'::jsonb ELSE '{}' END
      FROM unnest($2::text[], $3::uuid[], $11::boolean[]) AS new (caller, charge_id, lost)
), item AS (
    INSERT INTO charge_item (charge_id, sku, quantity, stock)
    SELECT charge_id, sku, quantity, stock FROM unnest($7::uuid[], $8::text[], $9::bigint[], $10::text[]) AS new (charge_id, sku, quantity, stock))
INSERT INTO idempotency_key (key, caller, operation, charge_id, response_status, response_body, expires_at)
SELECT key, caller, 'charge', charge_id, $5, body, $6
  FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bytea[]) AS new (key, caller, charge_id, body)`

// insertKeys stores under each key the answer that it gets from now on, writes down what each charge is to hold, and begins its audit trail.
func insertKeys(ctx context.Context, tx pgx.Tx, accepted []*claim, ttl time.Duration) error {
	accepted = slices.Clone(accepted)
	slices.SortFunc(accepted, func(a, b *claim) int { return bytes.Compare(a.Key[:], b.Key[:]) }) // as PostgreSQL sorts them
	n := len(accepted)
	keys, callers, ids, bodies := make(uuids, n), make([]string, n), make(uuids, n), make([][]byte, n)
	var holders uuids
	var skus []string
	var quantities []int64
	var stocks []Stock
	lost := make([]bool, n)
	expires := accepted[0].charge.CreatedAt.Add(ttl) // one transaction's charges have one age
	for i, c := range accepted {
		body, err := json.Marshal(c.charge)
		if err != nil {
			return fmt.Errorf("encode charge %s: %w", c.charge.ID, err)
		}
		c.answer = Answer{Status: http.StatusAccepted, Body: body, ChargeID: c.charge.ID, Expires: expires}
		keys[i], callers[i], ids[i], bodies[i], lost[i] = c.Key, c.Caller, c.charge.ID, body, c.adopts
		for _, item := range c.charge.Items {
			holders, skus, quantities = append(holders, c.charge.ID), append(skus, item.SKU), append(quantities, item.Quantity)
			stocks = append(stocks, *c.charge.Stock)
		}
	}
	if _, err := tx.Exec(ctx, insertKeysSQL, keys, callers, ids, bodies, http.StatusAccepted, expires, holders, skus, quantities, stocks, lost); err != nil {
		return fmt.Errorf("insert idempotency keys, items and events: %w", err)
	}
	return nil
}

// keyUse is what a key was used for. body is nil once the stored answer has expired.
type keyUse struct {
	chargeID    uuid.UUID
	caller      string
	version     int
	fingerprint []byte
	request     string
	status      int
	body        []byte
	expires     time.Time
}

const findKeysSQL = `
SELECT c.idempotency_key, c.id, c.caller, c.fingerprint_version, c.fingerprint, c.request,
       coalesce(k.response_status, 0), k.response_body, k.expires_at
  FROM charge c
  LEFT JOIN idempotency_key k ON k.key = c.idempotency_key AND k.expires_at > now()
 WHERE c.idempotency_key = ANY ($1)`

func findKeys(ctx context.Context, db querier, claims []*claim) (map[uuid.UUID]keyUse, error) {
	keys := make(uuids, len(claims))
	for i, c := range claims {
		keys[i] = c.Key
	}
	rows, err := db.Query(ctx, findKeysSQL, keys)
	if err != nil {
		return nil, fmt.Errorf("find idempotency keys: %w", err)
	}
	defer rows.Close()
	known := map[uuid.UUID]keyUse{}
	for rows.Next() {
		var key uuid.UUID
		var u keyUse
		var expires *time.Time
		if err := rows.Scan(&key, &u.chargeID, &u.caller, &u.version, &u.fingerprint, &u.request, &u.status, &u.body, &expires); err != nil {
			return nil, fmt.Errorf("find idempotency keys: %w", err)
		}
		if expires != nil {
			u.expires = expires.UTC()
		}
		known[key] = u
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("find idempotency keys: %w", err)
	}
	return known, nil
}

const findReferencesSQL = `
SELECT asked.place FROM unnest($1::integer[], $2::text[], $3::text[]) AS asked (place, caller, reference)
  JOIN charge c ON c.caller = asked.caller AND c.reference = asked.reference AND NOT c.reference_freed`

// markReferences marks the claims without stock whose reference belongs to a charge, which is what they are refused for then.
func markReferences(ctx context.Context, db querier, claims []*claim) error {
	var places []int32
	var callers, references []string
	for i, c := range claims {
		c.named = false
		if len(c.short) > 0 && !c.used && c.Request.Reference != "" {
			places, callers, references = append(places, int32(i)), append(callers, c.Caller), append(references, c.Request.Reference)
		}
	}
	if len(places) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, findReferencesSQL, places, callers, references)
	if err != nil {
		return fmt.Errorf("find references: %w", err)
	}
	var place int
	_, err = pgx.ForEachRow(rows, []any{&place}, func() error {
		claims[place].named = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("find references: %w", err)
	}
	return nil
}
