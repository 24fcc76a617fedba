package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

var _ outbox.Source = (*Service)(nil)

// Each part walks a small index of what is unfinished in the order of ids, so that a page costs the same however many
// charges are settled, and however many came before it.
const unfinishedIDsSQL = `
SELECT id FROM (
    (SELECT c.id
       FROM charge c
      WHERE c.status NOT IN ('succeeded', 'failed', 'canceled') AND c.id > $1
        AND (NOT $7 OR c.status <> 'needs_review')` + unfinishedFilter + `
      ORDER BY c.id LIMIT $6)
    UNION
    (SELECT c.id
       FROM receipt r JOIN charge c ON c.id = r.charge_id
      WHERE r.status IN ('pending', 'sending', 'unknown') AND r.charge_id > $1
        AND (NOT $7 OR r.status <> 'unknown' OR r.doubts < $8)` + unfinishedFilter + `
      ORDER BY r.charge_id LIMIT $6)
    UNION
    (SELECT DISTINCT c.id
       FROM payment p JOIN charge c ON c.id = p.charge_id
      WHERE p.followed AND p.charge_id > $1` + unfinishedFilter + `
      ORDER BY c.id LIMIT $6)
    UNION
    (SELECT c.id
       FROM refund_reading w JOIN charge c ON c.id = w.charge_id
      WHERE w.charge_id > $1` + unfinishedFilter + `
      ORDER BY w.charge_id LIMIT $6)) page
 ORDER BY id LIMIT $6`

const unfinishedFilter = `
        AND ($2::timestamptz IS NULL OR c.created_at >= $2)
        AND ($3::timestamptz IS NULL OR c.created_at < $3)
        AND ($4 = '' OR c.caller = $4)
        AND ($5::uuid[] IS NULL OR c.id = ANY ($5))`

const unfinishedSQL = `
SELECT c.id, c.status, c.payment_intent IS NOT NULL, EXISTS (SELECT FROM payment p WHERE p.charge_id = c.id AND p.followed), c.send_before, c.created_at, coalesce(c.review_reason, ''),
       r.status, coalesce(r.error, ''), coalesce(r.doubts, 0), EXISTS (SELECT FROM refund_reading w WHERE w.charge_id = c.id), clock_timestamp()
  FROM charge c
  LEFT JOIN receipt r ON r.charge_id = c.id
 WHERE c.id = ANY ($1)
 ORDER BY c.id`

var lockClause = map[outbox.Lock]string{
	outbox.NoLock:   "",
	outbox.LockWait: " FOR NO KEY UPDATE OF c",
	outbox.LockSkip: " FOR NO KEY UPDATE OF c SKIP LOCKED",
}

type unfinished struct {
	id         uuid.UUID
	status     Status
	paid       bool // it has its payment, whatever that is worth yet
	followed   bool // one of its payments may still change
	sendBefore *time.Time
	created    time.Time
	review     string // why it needs_review, or ""
	receipt    *string
	doubt      string // what went wrong with the receipt, or ""
	doubts     int    // how often its sending was unknown
	unread     bool   // its refunds and disputes are to be listed
	now        time.Time
}

// Unfinished implements [outbox.Source]: what still waits, and what may be done about it by the same fold that the
// worker will ask, judged on PostgreSQL's clock alone.
func (s *Service) Unfinished(ctx context.Context, tx pgx.Tx, f outbox.Filter, after uuid.UUID, limit int, lock outbox.Lock) ([]outbox.Item, uuid.UUID, error) {
	rows, err := tx.Query(ctx, unfinishedIDsSQL, after, orNull(f.Since), orNull(f.Until), f.Caller, f.ChargeIDs, limit, f.Wanting, s.resendable())
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list unfinished charges: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list unfinished charges: %w", err)
	}
	last := uuid.Nil
	if len(ids) == limit {
		last = ids[limit-1]
	}
	rows, err = tx.Query(ctx, unfinishedSQL+lockClause[lock], ids)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("read unfinished charges: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u unfinished, err error) {
		return u, row.Scan(&u.id, &u.status, &u.paid, &u.followed, &u.sendBefore, &u.created, &u.review, &u.receipt, &u.doubt, &u.doubts, &u.unread, &u.now)
	})
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("read unfinished charges: %w", err)
	}
	attempts, err := listAttempts(ctx, tx, ids)
	if err != nil {
		return nil, uuid.Nil, err
	}
	looks, err := listLooks(ctx, tx, ids)
	if err != nil {
		return nil, uuid.Nil, err
	}
	restorations, err := listRestorations(ctx, tx)
	if err != nil {
		return nil, uuid.Nil, err
	}

	var items []outbox.Item
	for _, u := range page {
		if u.followed && (u.status.Final() || u.status == NeedsReview) { // a second payment, or one that was called failed
			items = append(items, outbox.Item{Entry: outbox.Entry{Kind: outbox.KindFollow, ChargeID: u.id}, Class: outbox.AtProvider, Wants: true, CreatedAt: u.created})
		}
		if !u.status.Final() {
			class, wants := classify(u, History{u.created, attempts[u.id], looks[u.id], restorations}, s.policy)
			kind := outbox.KindCharge
			if class == outbox.AtProvider {
				kind = outbox.KindFollow
			}
			items = append(items, outbox.Item{Entry: outbox.Entry{Kind: kind, ChargeID: u.id}, Class: class, Wants: wants, Reason: u.review, CreatedAt: u.created})
		}
		if u.unread {
			items = append(items, outbox.Item{Entry: outbox.Entry{Kind: outbox.KindRefunds, ChargeID: u.id}, Class: outbox.AtProvider, Wants: true, CreatedAt: u.created})
		}
		if class, wants, due := classifyReceipt(u.receipt, s.receipts.resends(u.doubts)); due {
			item := outbox.Item{Entry: outbox.Entry{Kind: outbox.KindReceipt, ChargeID: u.id}, Class: class, Wants: wants, CreatedAt: u.created}
			if class == outbox.ReceiptUnknown {
				item.Reason = u.doubt
			}
			items = append(items, item)
		}
	}
	return items, last, nil
}

func classify(u unfinished, h History, p Policy) (class outbox.Class, wants bool) {
	switch {
	case u.status == NeedsReview:
		return outbox.NeedsReview, false
	case !u.status.Waiting() || u.paid:
		return outbox.AtProvider, true
	}
	open := anyOpen(h.Attempts)
	var here Account
	for _, a := range h.Attempts {
		if a.Open() {
			here = a.Account
		}
	}
	switch permit := Allow(h, Clocks{Database: u.now, Fresh: true}, here, p); {
	case permit.Action == UseResult && permit.Last.Outcome == Answered:
		return outbox.AtProvider, true
	case permit.Action == LookFirst && (open || len(h.Attempts) > 0 || len(permit.Restored) > 0):
		return outbox.PastWindow, true
	case !open && u.sendBefore != nil && !u.now.Before(*u.sendBefore):
		return outbox.PastSendBefore, true
	case !open:
		return outbox.NeverSent, true
	default:
		return outbox.InWindow, true
	}
}

func classifyReceipt(status *string, resends bool) (class outbox.Class, wants, due bool) {
	if status == nil {
		return "", false, false
	}
	switch ReceiptStatus(*status) {
	case ReceiptPending:
		return outbox.ReceiptWaiting, true, true
	case ReceiptSending:
		return outbox.ReceiptSending, true, true
	case ReceiptUnknown:
		return outbox.ReceiptUnknown, resends, true
	}
	return "", false, false
}

// resendable is how often a receipt must have become unknown to be left alone.
func (s *Service) resendable() int {
	if !s.receipts.Resend {
		return 0
	}
	return s.receipts.Most
}

const countSettledSQL = `
SELECT count(*) FROM (
SELECT 1
  FROM charge c
  LEFT JOIN receipt r ON r.charge_id = c.id
 WHERE c.status IN ('succeeded', 'failed', 'canceled')
   AND coalesce(r.status, '') NOT IN ('pending', 'sending', 'unknown')
   AND ($1::timestamptz IS NULL OR c.created_at >= $1)
   AND ($2::timestamptz IS NULL OR c.created_at < $2)
   AND ($3 = '' OR c.caller = $3)
   AND ($4::uuid[] IS NULL OR c.id = ANY ($4))
 LIMIT 1000000) settled`

// CountSettled implements [outbox.Source]. It stops at a million: the figure is for the operator's eye, and a table of
// years must not hold up a replay.
func (s *Service) CountSettled(ctx context.Context, tx pgx.Tx, f outbox.Filter) (n int64, err error) {
	err = tx.QueryRow(ctx, countSettledSQL, orNull(f.Since), orNull(f.Until), f.Caller, f.ChargeIDs).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count settled charges: %w", err)
	}
	return n, nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
