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

// The two kinds of work that leave the building.
const (
	KindCharge  Kind = "charge_send"
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
	case KindReceipt:
		return SendReceipt{ChargeID: e.ChargeID, Version: argsVersion}, nil
	}
	return nil, fmt.Errorf("outbox: unknown kind %q", e.Kind)
}

// Outbox writes jobs. It is safe for concurrent use.
type Outbox struct {
	pool  *pgxpool.Pool
	river *river.Client[pgx.Tx]
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
	}
	if _, err := o.river.InsertManyTx(ctx, tx, params); err != nil {
		return fmt.Errorf("enqueue %d jobs: %w", len(entries), err)
	}
	return nil
}
