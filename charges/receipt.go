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

// The statuses of a receipt. ReceiptUnknown says that it may have been sent: evidence settles it, or a person, and a second mail only where that was
// asked for.
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

// ReceiptPolicy says what becomes of a receipt whose sending is unknown and that no event settles.
type ReceiptPolicy struct {
	Resend bool          // send it again; the buyer may get two mails
	Wait   time.Duration // how long an event may settle it before that; 0: 15 min
	Most   int           // how often it may become unknown before only a person can send it again; 0: 3
}

func (p ReceiptPolicy) withDefaults() ReceiptPolicy {
	if p.Wait == 0 {
		p.Wait = 15 * time.Minute // SendGrid's events come within seconds, and are repeated for a day
	}
	if p.Most == 0 {
		p.Most = 3
	}
	return p
}

// resends tells whether a receipt that has been unknown so often is sent again by itself.
func (p ReceiptPolicy) resends(doubts int) bool { return p.Resend && doubts < p.Most }

// ReceiptClaim is what a worker may do about a receipt now. With neither Send nor Wait set: nothing.
type ReceiptClaim struct {
	ID        uuid.UUID
	Send      bool // it was claimed for this worker, which must send it and call SettleReceipt
	Wait      time.Duration
	Charge    Charge
	Recipient string
	Detected  *Restoration // that the database was restored, as the claim has just found
}

// ReceiptResult is what came of a claimed receipt.
type ReceiptResult struct {
	Status    ReceiptStatus // ReceiptPending: it was surely not sent, and may be claimed again
	MessageID string        // SendGrid's X-Message-Id
	Error     string        // cleaned text
}

// ClaimReceipt claims a charge's receipt before it is sent. A claim whose worker did not come back within a minute is
// over: the mail may have gone out, so the receipt becomes unknown and is sent again only as [ReceiptPolicy] says, and so does one that may have
// been mailed in the time that a restore of the database has lost. A claim whose commit is in doubt is asked for again under the same id, since
// nothing has been sent yet.
func (s *Service) ClaimReceipt(ctx context.Context, charge uuid.UUID) (ReceiptClaim, error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	id, err := uuid.NewV7()
	if err != nil {
		return ReceiptClaim{}, fmt.Errorf("claim id: %w", err)
	}
	c := &claiming{charge: charge, id: id}
	once := func() error { return s.claims.Do(ctx, c) }
	if err = once(); errors.Is(err, outbox.ErrInDoubt) {
		err = untilAnswered(ctx, once)
	}
	return c.claim, err
}

// claiming is a receipt that somebody wants to claim, and what may be done about it.
type claiming struct {
	charge, id uuid.UUID
	claim      ReceiptClaim
}

// LockKey is the charge.
func (c *claiming) LockKey() uuid.UUID { return c.charge }

func (s *Service) claimTogether(ctx context.Context, all []*claiming) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	try := func() error {
		return outbox.InTxEach(ctx, s.pool, "receipt.claim", all, func(ctx context.Context, tx pgx.Tx, c *claiming) (err error) {
			c.claim, err = s.claimReceipt(ctx, tx, c.charge, c.id)
			return err
		})
	}
	err := try()
	if errors.Is(err, errNoIdentity) {
		s.blind.Store(true)
		err = try()
	}
	return err
}

func (s *Service) claimReceipt(ctx context.Context, tx pgx.Tx, charge, id uuid.UUID) (claim ReceiptClaim, err error) {
	claim.ID = id
	row, err := lockReceipt(ctx, tx, charge)
	if err != nil {
		return claim, err
	}
	again := row.status == ReceiptUnknown && s.receipts.resends(row.doubts)
	if row.status == ReceiptPending || again || row.claim == id {
		claim.Recipient = row.recipient
		if claim.Charge, err = readCharge(ctx, tx, charge); err != nil {
			return claim, err
		}
	}
	restored := false
	if row.status == ReceiptPending {
		if restored, claim.Detected, err = s.perhapsMailed(ctx, tx, claim.Charge, row); err != nil {
			return claim, err
		}
	}
	switch {
	case restored:
		err = s.doubt(ctx, tx, charge, row, mailedBefore, &claim)
	case row.status == ReceiptSending && row.claim == id: // the commit of a moment ago, whose answer was lost
		claim.Send = true
	case again && row.unchanged < s.receipts.Wait:
		claim.Wait = s.receipts.Wait - row.unchanged
	case row.status == ReceiptPending || again:
		claim.Send = true
		err = claimRow(ctx, tx, charge, id)
	case row.status == ReceiptSending && row.age < inCall:
		claim.Wait = inCall - row.age
	case row.status == ReceiptSending:
		err = s.doubt(ctx, tx, charge, row, "the worker that sent it did not come back", &claim)
	}
	return claim, err
}

// doubt writes down that a receipt may have been sent. Where the policy sends it again, the claim says when.
func (s *Service) doubt(ctx context.Context, tx pgx.Tx, charge uuid.UUID, row receiptRow, why string, claim *ReceiptClaim) error {
	if s.receipts.resends(row.doubts + 1) {
		claim.Wait = s.receipts.Wait
	}
	return updateReceipt(ctx, tx, charge, ReceiptResult{Status: ReceiptUnknown, Error: why})
}

// SettleReceipt writes down what came of a claimed receipt, however often it has to try within some seconds. One that has been settled otherwise
// meanwhile, as by an event that came before the answer, or claimed by somebody else, stays so, but for the news that an unknown one was sent after all.
// It says after what wait the receipt is to be claimed again; 0: it is not.
func (s *Service) SettleReceipt(ctx context.Context, charge, claim uuid.UUID, r ReceiptResult) (again time.Duration, err error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	m := &mailed{charge: charge, claim: claim, result: r}
	err = untilAnswered(ctx, func() error { return s.mails.Do(ctx, m) })
	return m.again, err
}

// mailed is what came of a claimed receipt, and after what wait it is to be claimed again.
type mailed struct {
	charge, claim uuid.UUID
	result        ReceiptResult
	again         time.Duration
}

// LockKey is the charge.
func (m *mailed) LockKey() uuid.UUID { return m.charge }

func (s *Service) mailedTogether(ctx context.Context, all []*mailed) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	return outbox.InTxEach(ctx, s.pool, "receipt.settle", all, func(ctx context.Context, tx pgx.Tx, m *mailed) (err error) {
		m.again, err = s.settleReceipt(ctx, tx, m.charge, m.claim, m.result)
		return err
	})
}

func (s *Service) settleReceipt(ctx context.Context, tx pgx.Tx, charge, claim uuid.UUID, r ReceiptResult) (again time.Duration, err error) {
	row, err := lockReceipt(ctx, tx, charge)
	if err != nil {
		return 0, err
	}
	if r.Status == ReceiptUnknown && s.receipts.resends(row.doubts+1) {
		again = s.receipts.Wait
	}
	inHand := row.status == ReceiptSending && row.claim == claim
	if inHand || r.Status == ReceiptSent && (row.status == ReceiptUnknown || row.status == ReceiptPending) {
		return again, updateReceipt(ctx, tx, charge, r)
	}
	return again, recordMessage(ctx, tx, charge, r.MessageID)
}

// untilAnswered tries again for as long as ctx lasts while the database cannot be asked, too much waits for it, a lock was not to be had, or its answer
// was lost. What is tried does no harm if it is done twice.
func untilAnswered(ctx context.Context, try func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := try()
		if !outbox.Unavailable(err) && !errors.Is(err, outbox.ErrBusy) && !lockRefused(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

const insertReceiptSQL = `
WITH due AS (
    INSERT INTO receipt (charge_id, recipient, status)
    SELECT charge_id, recipient, 'pending' FROM unnest($2::uuid[], $3::text[]) AS new (charge_id, recipient)
        ON CONFLICT (charge_id) DO NOTHING
    RETURNING charge_id
)
SELECT place FROM due JOIN unnest($1::integer[], $2::uuid[]) AS new (place, charge_id) USING (charge_id)`

// insertReceipt makes a charge's one receipt due; it reports false if there is one already.
func insertReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID, recipient string) (bool, error) {
	created, err := outbox.WriteRow(ctx, tx, insertReceiptSQL, charge, recipient)
	if err != nil {
		return false, fmt.Errorf("insert receipt of charge %s: %w", charge, err)
	}
	return created, nil
}

const lockReceiptSQL = `
SELECT asked.place, status, recipient, coalesce(clock_timestamp() - claimed_at, '0'), clock_timestamp() - updated_at, updated_at,
       coalesce(claim_id, '00000000-0000-0000-0000-000000000000'), doubts
  FROM unnest($1::integer[], $2::uuid[]) AS asked (place, charge)
  JOIN receipt ON charge_id = asked.charge
 ORDER BY charge_id
   FOR UPDATE OF receipt`

// receiptRow is a locked receipt.
type receiptRow struct {
	status    ReceiptStatus
	recipient string
	age       time.Duration // of its latest claim
	unchanged time.Duration // since its status changed
	changed   time.Time     // when that was
	claim     uuid.UUID     // the latest; zero: none
	doubts    int           // how often it became unknown
}

func lockReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID) (r receiptRow, err error) {
	err = outbox.ReadRow(ctx, tx, lockReceiptSQL, charge).Scan(&r.status, &r.recipient, &r.age, &r.unchanged, &r.changed, &r.claim, &r.doubts)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		err = fmt.Errorf("lock receipt of charge %s: %w", charge, err)
	}
	return r, err
}

const claimReceiptSQL = `
UPDATE receipt
   SET status = 'sending', claim_id = claim.id, claimed_at = clock_timestamp(), message_id = NULL, error = NULL, updated_at = clock_timestamp()
  FROM unnest($1::integer[], $2::uuid[], $3::uuid[]) AS claim (place, charge_id, id)
 WHERE receipt.charge_id = claim.charge_id
RETURNING claim.place`

func claimRow(ctx context.Context, tx pgx.Tx, charge, claim uuid.UUID) error {
	if _, err := outbox.WriteRow(ctx, tx, claimReceiptSQL, charge, claim); err != nil {
		return fmt.Errorf("claim receipt of charge %s: %w", charge, err)
	}
	return nil
}

const updateReceiptSQL = `
UPDATE receipt
   SET status = new.status, message_id = nullif(new.message_id, ''), error = nullif(new.error, ''), updated_at = clock_timestamp(),
       doubts = doubts + CASE WHEN new.status = 'unknown' THEN 1 ELSE 0 END
  FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::text[]) AS new (place, charge_id, status, message_id, error)
 WHERE receipt.charge_id = new.charge_id
RETURNING new.place`

func updateReceipt(ctx context.Context, tx pgx.Tx, charge uuid.UUID, r ReceiptResult) error {
	if _, err := outbox.WriteRow(ctx, tx, updateReceiptSQL, charge, r.Status, r.MessageID, r.Error); err != nil {
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
