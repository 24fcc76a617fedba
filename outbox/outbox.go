package outbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// Kind is what a job of the outbox does for its charge.
type Kind string

// The kinds of work that leave the building.
const (
	KindCharge  Kind = "charge_send"
	KindFollow  Kind = "payment_follow"
	KindRefunds Kind = "refunds_read"
	KindReceipt Kind = "receipt_send"
)

// Entry is one job wanted: this kind of work for this charge.
type Entry struct {
	Kind     Kind
	ChargeID uuid.UUID
}

func (e Entry) args() (river.JobArgs, error) {
	switch e.Kind {
	case KindCharge:
		return SendCharge{ChargeID: e.ChargeID, Version: argsVersion}, nil
	case KindFollow:
		return FollowPayment{ChargeID: e.ChargeID, Version: argsVersion}, nil
	case KindRefunds:
		return ReadRefunds{ChargeID: e.ChargeID, Version: argsVersion}, nil
	case KindReceipt:
		return SendReceipt{ChargeID: e.ChargeID, Version: argsVersion}, nil
	}
	return nil, fmt.Errorf("outbox: unknown kind %q", e.Kind)
}

// Outbox writes jobs. It is safe for concurrent use.
type Outbox struct {
	pool  *pgxpool.Pool
	river *river.Client[pgx.Tx]
	sweep sweeping

	depths Figure[map[string]int64]
}

// New returns an outbox that writes through pool. It starts nothing: workers run elsewhere.
func New(pool *pgxpool.Pool) (*Outbox, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return &Outbox{pool: pool, river: client}, nil
}

// Enqueue writes one job per entry into tx. The jobs become visible to workers with tx's commit, and not without it.
func (o *Outbox) Enqueue(ctx context.Context, tx pgx.Tx, entries []Entry) error {
	return o.enqueue(ctx, tx, entries, false)
}

// enqueue writes jobs as Enqueue does; late ones do not stand in the way of new charges.
func (o *Outbox) enqueue(ctx context.Context, tx pgx.Tx, entries []Entry, late bool) error {
	if len(entries) == 0 {
		return nil
	}
	params := make([]river.InsertManyParams, len(entries))
	for i, e := range entries {
		args, err := e.args()
		if err != nil {
			return err
		}
		params[i] = river.InsertManyParams{Args: args}
		if late && e.Kind == KindCharge {
			params[i].InsertOpts = &river.InsertOpts{Queue: QueueBacklog}
		}
	}
	if m, ok := tx.(*memberTx); ok {
		m.enqueue(o, params)
		return nil
	}
	return o.insert(ctx, tx, params)
}

func (o *Outbox) insert(ctx context.Context, tx pgx.Tx, params []river.InsertManyParams) error {
	if _, err := o.river.InsertManyFastTx(ctx, tx, params); err != nil { // COPY; none of the kinds is unique at River
		return fmt.Errorf("enqueue %d jobs: %w", len(params), err)
	}
	return nil
}

const hurryJob = `
UPDATE river_job
   SET scheduled_at = least(scheduled_at, now())
 WHERE args ->> 'charge_id' = $1 AND kind = $2 AND state IN ('available', 'pending', 'retryable', 'scheduled')`

// Hurry makes the job that waits for this work run as soon as it can, or writes one if none waits. With the one that may be running
// just now, there are never more than two, however often it is called under the charge's lock.
func (o *Outbox) Hurry(ctx context.Context, tx pgx.Tx, e Entry) error {
	tag, err := tx.Exec(ctx, hurryJob, e.ChargeID.String(), string(e.Kind))
	if err != nil {
		return fmt.Errorf("hurry %s of charge %s: %w", e.Kind, e.ChargeID, err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	return o.Enqueue(ctx, tx, []Entry{e})
}
