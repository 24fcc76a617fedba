package charges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// ReceiptRecord is what is known of a receipt, without the buyer's address.
type ReceiptRecord struct {
	ChargeID  uuid.UUID     `json:"charge_id"`
	Status    ReceiptStatus `json:"status"`
	Since     time.Time     `json:"since"`      // it has this status (UTC)
	Doubts    int           `json:"doubts"`     // how often a send of it ended as unknown
	Error     *string       `json:"error"`      // null: nothing went wrong
	MessageID *string       `json:"message_id"` // SendGrid's; null: it has not told us
}

const selectReceiptRecord = `SELECT r.charge_id, r.status, r.updated_at, r.doubts, r.error, r.message_id FROM receipt r`

func findReceipt(ctx context.Context, db querier, charge uuid.UUID) (*ReceiptRecord, error) {
	rows, err := db.Query(ctx, selectReceiptRecord+` WHERE r.charge_id = $1`, charge)
	if err != nil {
		return nil, fmt.Errorf("find receipt of charge %s: %w", charge, err)
	}
	r, err := pgx.CollectOneRow(rows, pgx.RowToStructByPos[ReceiptRecord])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find receipt of charge %s: %w", charge, err)
	}
	return &r, nil
}

const unknownReceiptsSQL = selectReceiptRecord + ` JOIN charge c ON c.id = r.charge_id
 WHERE r.status = 'unknown' AND r.charge_id > $1` + unfinishedFilter + `
 ORDER BY r.charge_id LIMIT $6`

// UnknownReceipts returns the receipts that may have been sent or not, at most limit of them, on charges with an id greater than after, and
// whether there are more.
func (s *Service) UnknownReceipts(ctx context.Context, f outbox.Filter, after uuid.UUID, limit int) (list []ReceiptRecord, more bool, err error) {
	rows, err := s.reads.Query(ctx, unknownReceiptsSQL, after, orNull(f.Since), orNull(f.Until), f.Caller, f.ChargeIDs, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list unknown receipts: %w", err)
	}
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ReceiptRecord])
	if err != nil {
		return nil, false, fmt.Errorf("list unknown receipts: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// RuleReceipt settles an unknown receipt as a person decides: ReceiptSent, ReceiptFailed, or ReceiptPending: it is sent once more, and the
// buyer may get two mails. An event that comes before it is sent settles it instead. It is [ErrNotFound] where there is no receipt, and a
// [*RulingError] where it is not unknown any more.
func (s *Service) RuleReceipt(ctx context.Context, charge uuid.UUID, as ReceiptStatus, because, actor string) error {
	kind := map[ReceiptStatus]string{ReceiptSent: "receipt.sent", ReceiptFailed: "receipt.failed", ReceiptPending: "receipt.resend"}[as]
	because = cleanText(because)
	switch {
	case kind == "":
		return refuse("nobody can settle a receipt as %s", as)
	case because == "":
		return refuse("a reason is needed, for whoever reads the charge's trail")
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "receipt.rule", func(tx pgx.Tx) error {
		c, _, err := lockCharge(ctx, tx, charge)
		if err != nil {
			return err
		}
		row, err := lockReceipt(ctx, tx, charge)
		switch {
		case err != nil:
			return err
		case row.status != ReceiptUnknown:
			return refuse("the receipt is %s: there is nothing to settle", row.status)
		}
		r := ReceiptResult{Status: as}
		if as == ReceiptFailed {
			r.Error = because
		}
		if err := updateReceipt(ctx, tx, charge, r); err != nil {
			return err
		}
		if err := recordSaid(ctx, tx, c, kind, actor, map[string]any{"because": because, "doubts": row.doubts}, nil); err != nil {
			return err
		}
		if as != ReceiptPending {
			return nil
		}
		return s.outbox.Hurry(ctx, tx, outbox.Entry{Kind: outbox.KindReceipt, ChargeID: charge})
	})
}

// ResendUnknown sends every receipt again that is unknown now, on a person's word, and returns how many. See [Service.RuleReceipt].
func (s *Service) ResendUnknown(ctx context.Context, f outbox.Filter, because, actor string) (n int64, err error) {
	const page = 500
	for after := uuid.Nil; ; {
		list, more, err := s.UnknownReceipts(ctx, f, after, page)
		if err != nil {
			return n, err
		}
		for _, r := range list {
			err := s.RuleReceipt(ctx, r.ChargeID, ReceiptPending, because, actor)
			if errors.As(err, new(*RulingError)) {
				continue // an event has settled it meanwhile
			}
			if err != nil {
				return n, err
			}
			n++
		}
		if !more {
			return n, nil
		}
		after = list[len(list)-1].ChargeID
	}
}
