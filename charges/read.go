package charges

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ListFilter narrows a list of charges. Empty members match all.
type ListFilter struct {
	Status    Status
	Reference string
	After     uuid.UUID // the last charge of the page before; zero: from the newest
	Limit     int       // at least 1
}

// KeyUse is what an idempotency key was used for.
type KeyUse struct {
	Key       uuid.UUID  `json:"key" format:"uuid"`
	Operation string     `json:"operation" enum:"charge" doc:"What was asked for under the key."`
	ChargeID  uuid.UUID  `json:"charge_id" format:"uuid"`
	CreatedAt time.Time  `json:"created_at" doc:"When the key was first used (UTC)."`
	ExpiresAt *time.Time `json:"expires_at" doc:"Until when the first answer is stored; null: it has expired. The key itself stays taken for good."`
	Charge    Charge     `json:"charge" doc:"The charge as it is now."`
}

// Get returns one charge as it is now. An empty caller sees every caller's charges; any other only its own, and
// [ErrNotFound] for those of others.
func (s *Service) Get(ctx context.Context, caller string, id uuid.UUID) (Charge, error) {
	c, err := findCharge(ctx, s.reads, id)
	if err == nil && caller != "" && c.Caller != caller {
		return Charge{}, ErrNotFound
	}
	return c.shownTo(caller), err
}

// shownTo leaves out what only the charge's own caller may have: with the client secret anybody can act for the buyer.
func (c Charge) shownTo(caller string) Charge {
	if c.Caller != caller {
		c.NextAction = nil
	}
	return c
}

// List returns charges, newest first, and whether there are more. The order is that of their ids, so a
// page stays the same while new charges arrive. A page has at most 100, whatever the limit.
func (s *Service) List(ctx context.Context, caller string, f ListFilter) (page []Charge, more bool, err error) {
	limit := min(f.Limit, mostListed)
	f.Limit = limit + 1
	page, err = listCharges(ctx, s.reads, caller, f)
	for i, c := range page {
		page[i] = c.shownTo(caller)
	}
	if err != nil || len(page) <= limit {
		return page, false, err
	}
	return page[:limit], true, nil
}

// Events returns the audit trail of a charge that caller may see, oldest first, from the event after the given one.
func (s *Service) Events(ctx context.Context, caller string, id uuid.UUID, after int64, limit int) (page []Event, more bool, err error) {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return nil, false, err
	}
	page, err = listEvents(ctx, s.reads, id, after, limit+1)
	if err != nil || len(page) <= limit {
		return page, false, err
	}
	return page[:limit], true, nil
}

// Key tells what an idempotency key was used for, at any age. Another caller's key is [ErrNotFound].
func (s *Service) Key(ctx context.Context, caller string, key uuid.UUID) (KeyUse, error) {
	id, created, expires, err := findKeyUse(ctx, s.reads, key, caller)
	if err != nil {
		return KeyUse{}, err
	}
	c, err := findCharge(ctx, s.reads, id)
	if err != nil {
		return KeyUse{}, err
	}
	use := KeyUse{Key: key, Operation: "charge", ChargeID: id, CreatedAt: created.UTC(), Charge: c.shownTo(caller)}
	if expires != nil {
		utc := expires.UTC()
		use.ExpiresAt = &utc
	}
	return use, nil
}

func (s *Service) settled(ctx context.Context, ids []uuid.UUID) ([]Charge, error) {
	return settledCharges(ctx, s.reads, ids)
}
