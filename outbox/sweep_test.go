package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// pages is a source that notes where its pages begin, and refuses some of them.
type pages struct {
	outbox.Source
	refuse func(after uuid.UUID) error
	began  []uuid.UUID
}

func (p *pages) Unfinished(ctx context.Context, tx pgx.Tx, f outbox.Filter, after uuid.UUID, n int, lock outbox.Lock) ([]outbox.Item, uuid.UUID, error) {
	p.began = append(p.began, after)
	if err := p.refuse(after); err != nil {
		return nil, uuid.Nil, err
	}
	return p.Source.Unfinished(ctx, tx, f, after, n, lock)
}

// A sweep that was cut short is gone on with by the next, round to where it began. A page that cannot be read keeps nobody from the others.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.create(t, 1100)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	f.exec(t, `DELETE FROM river_job`)
	second, third := ids[499], ids[999] // what the pages come after
	cut := errors.New("cut short")
	sweep := func(when string, refused uuid.UUID, enqueued int64, began ...uuid.UUID) {
		t.Helper()
		src := &pages{Source: f.src, refuse: func(after uuid.UUID) error {
			if refused != uuid.Nil && after == refused {
				return cut
			}
			return nil
		}}
		r, err := f.Sweep(t.Context(), src)
		if refused != uuid.Nil && !errors.Is(err, cut) || refused == uuid.Nil && err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if r.Enqueued != enqueued || !slices.Equal(src.began, began) {
			t.Errorf("%s: %d jobs, pages after %v; want %d, %v", when, r.Enqueued, src.began, enqueued, began)
		}
	}
	sweep("cut short", second, 500, uuid.Nil, second)
	f.exec(t, `DELETE FROM river_job WHERE args ->> 'charge_id' = $1`, ids[3].String())
	sweep("the next", uuid.Nil, 601, second, third, uuid.Nil)
	sweep("one that went round", uuid.Nil, 0, uuid.Nil, second, third)
	for range 2 {
		sweep("a page that cannot be read", third, 0, uuid.Nil, second, third)
		sweep("the next, which gets nowhere", third, 0, third)
	}
	sweep("the next, which can read it", uuid.Nil, 0, uuid.Nil, second, third)
}
