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

// ReceiptStatus tells how far a receipt is.
type ReceiptStatus string

// The statuses of a receipt. ReceiptUnknown says that it may have been sent: evidence settles it, not a second mail.
// Those from ReceiptDeferred on are what SendGrid tells later.
const (
	ReceiptPending   ReceiptStatus = "pending"
	ReceiptSending   ReceiptStatus = "sending"
	ReceiptSent      ReceiptStatus = "sent"
	ReceiptUnknown   ReceiptStatus = "unknown"
	ReceiptFailed    ReceiptStatus = "failed"    // SendGrid refused it
	ReceiptDeferred  ReceiptStatus = "deferred"  // the buyer's mail server has put it off; SendGrid goes on trying
	ReceiptDropped   ReceiptStatus = "dropped"   // SendGrid has not tried to deliver it
	ReceiptDelivered ReceiptStatus = "delivered" // the buyer's mail server has taken it
	ReceiptBounced   ReceiptStatus = "bounced"   // the buyer's mail server has refused it
)

// ReceiptClaim is what a worker may do about a receipt now. With neither Send nor Wait set: nothing.
type ReceiptClaim struct {
	Send      bool // it was claimed for this worker, which must send it and call SettleReceipt
	Wait      time.Duration
	Charge    Charge
	Recipient string
}

// ReceiptResult is what came of a claimed receipt.
type ReceiptResult struct {
	Status    ReceiptStatus // ReceiptPending: it was surely not sent, and may be claimed again
	MessageID string        // SendGrid's X-Message-Id
	Error     string        // cleaned text
}

// ClaimReceipt claims a charge's receipt before it is sent. A claim whose worker did not come back within a minute is
// over: the mail may have gone out, so the receipt becomes unknown and is not sent again.
func (s *Service) ClaimReceipt(ctx context.Context, charge uuid.UUID) (claim ReceiptClaim, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	err = outbox.InTx(ctx, s.pool, "receipt.claim", func(tx pgx.Tx) error {
		claim = ReceiptClaim{}
		status, recipient, age, err := lockReceipt(ctx, tx, charge)
		if err != nil {
			return err
		}
		switch {
		case status == ReceiptPending:
			claim.Send, claim.Recipient = true, recipient
			if claim.Charge, err = findCharge(ctx, tx, charge); err != nil {
				return err
			}
			return updateReceipt(ctx, tx, charge, ReceiptResult{Status: ReceiptSending})
		case status == ReceiptSending && age < inCall:
			claim.Wait = inCall - age
		case status == ReceiptSending:
			return updateReceipt(ctx, tx, charge, ReceiptResult{Status: ReceiptUnknown, Error: "the worker that sent it did not come back"})
		}
		return nil
	})
	return claim, err
}

// SettleReceipt writes down what came of a claimed receipt. One that has been settled otherwise meanwhile, as by an event
// that came before the answer, stays so, but for the news that an unknown one was sent after all.
func (s *Service) SettleReceipt(ctx context.Context, charge uuid.UUID, r ReceiptResult) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTx(ctx, s.pool, "receipt.settle", func(tx pgx.Tx) error {
		status, _, _, err := lockReceipt(ctx, tx, charge)
		if err != nil {
			return err
		}
		if status == ReceiptSending || status == ReceiptUnknown && r.Status == ReceiptSent {
			return updateReceipt(ctx, tx, charge, r)
		}
		return recordMessage(ctx, tx, charge, r.MessageID)
	})
}

// insertReceipt makes a charge's one receipt due; it reports false if there is one already.
func insertReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID, recipient string) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO receipt (charge_id, recipient, status) VALUES ($1, $2, 'pending')
		ON CONFLICT (charge_id) DO NOTHING`, charge, recipient)
	if err != nil {
		return false, fmt.Errorf("insert receipt of charge %s: %w", charge, err)
	}
	return tag.RowsAffected() == 1, nil
}

const lockReceiptSQL = `
SELECT status, recipient, coalesce(clock_timestamp() - claimed_at, '0')
  FROM receipt WHERE charge_id = $1 FOR UPDATE`

func lockReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID) (status ReceiptStatus, recipient string, age time.Duration, err error) {
	err = tx.QueryRow(ctx, lockReceiptSQL, charge).Scan(&status, &recipient, &age)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		err = fmt.Errorf("lock receipt of charge %s: %w", charge, err)
	}
	return status, recipient, age, err
}

const updateReceiptSQL = `
UPDATE receipt
   SET status = $2::text, message_id = nullif($3, ''), error = nullif($4, ''), updated_at = clock_timestamp(),
       claimed_at = CASE WHEN $2::text = 'sending' THEN clock_timestamp() ELSE claimed_at END
 WHERE charge_id = $1`

func updateReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID, r ReceiptResult) error {
	if _, err := tx.Exec(ctx, updateReceiptSQL, charge, r.Status, r.MessageID, r.Error); err != nil {
		return fmt.Errorf("update receipt of charge %s: %w", charge, err)
	}
	return nil
}

// recordMessage notes the id of a mail whose receipt's status it does not change.
func recordMessage(ctx context.Context, tx pgx.Tx, charge uuid.UUID, id string) error {
	_, err := tx.Exec(ctx, `UPDATE receipt SET message_id = $2 WHERE charge_id = $1 AND message_id IS NULL AND $2 <> ''`, charge, id)
	if err != nil {
		return fmt.Errorf("record message of receipt of charge %s: %w", charge, err)
	}
	return nil
}
