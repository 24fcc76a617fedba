package charges

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// accept commits charge, key with its answer, event, items and job of every claim whose key and reference are free and whose items are to be had, and
// marks the others as taken.
func (s *Service) accept(ctx context.Context, claims []*claim) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	claims = s.stuck.without(claims)
	for len(claims) > 0 {
		err := outbox.InTx(ctx, s.pool, "charge.accept", func(tx pgx.Tx) error { return s.acceptIn(ctx, tx, claims) })
		switch {
		case errors.Is(err, errSoldOut):
			claims = slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return len(c.short) > 0 })
		case errors.Is(err, ErrInventoryBusy):
			if err := s.findStuck(ctx, skusOf(itemsOf(claims))); err != nil {
				return err
			}
			claims = s.stuck.without(claims)
		default:
			return err
		}
	}
	return nil
}

// errSoldOut says that some of the claims have come too late, which are marked, and that nothing was kept of the others either.
var errSoldOut = errors.New("the items of some are gone")

// acceptIn writes what claims need. The rows of SKUs are locked last, for no longer than the commit takes, since everybody who buys the same queues
// for them: so whoever is too late has been written already, and the others are written once more without. That is once for each time that
// something sells out, or a piece of what was sold out comes back; from then on passOver knows.
func (s *Service) acceptIn(ctx context.Context, tx pgx.Tx, claims []*claim) error {
	for _, c := range claims {
		c.taken, c.short, c.stuck = false, nil, false
	}
	inStock, err := passOver(ctx, tx, claims)
	if err != nil {
		return err
	}
	// Also where there are none: what a primary that has become a standby says of the stock is old, and it refuses a write.
	accepted, taken, err := insertCharges(ctx, tx, inStock)
	for _, c := range taken {
		c.taken = true
	}
	if err != nil || len(accepted) == 0 {
		return err
	}
	if err := insertKeys(ctx, tx, accepted, s.keyTTL); err != nil {
		return err
	}
	jobs := make([]outbox.Entry, len(accepted))
	for i, c := range accepted {
		jobs[i] = outbox.Entry{Kind: outbox.KindCharge, ChargeID: c.charge.ID}
	}
	if err := s.outbox.Enqueue(ctx, tx, jobs); err != nil {
		return err
	}
	return hold(ctx, tx, accepted)
}

// passOver marks the claims for more than is available, before anything is written or locked for them: once something is sold out, most are such.
// What was available a moment ago is good enough to refuse them, and not to accept the others.
//
// Nobody is refused while the same request is being accepted somewhere else: "nothing was written" would have the caller take another key for what
// is just being charged.
func passOver(ctx context.Context, tx pgx.Tx, claims []*claim) (inStock []*claim, err error) {
	skus := skusOf(itemsOf(claims))
	if len(skus) == 0 {
		return claims, nil
	}
	if err := awaitTwins(ctx, tx, claims); err != nil {
		return nil, err
	}
	available, err := readAvailable(ctx, tx, skus)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if c.short = shortOf(c.wants(), available); len(c.short) > 0 {
			c.taken = true
		} else {
			inStock = append(inStock, c)
		}
	}
	return inStock, nil
}

// hold allocates their items to the claims, in the order in which they have come.
func hold(ctx context.Context, tx pgx.Tx, accepted []*claim) error {
	selling := slices.DeleteFunc(slices.Clone(accepted), func(c *claim) bool { return len(c.wants()) == 0 })
	if len(selling) == 0 {
		return nil
	}
	if err := boundLocks(ctx, tx); err != nil {
		return err
	}
	short, err := allocate(ctx, tx, itemsOf(selling))
	if err != nil {
		return err
	}
	for i, c := range selling {
		if c.short = short[i]; len(c.short) > 0 {
			c.taken, err = true, errSoldOut
		}
	}
	return err
}

func itemsOf(claims []*claim) [][]Item {
	items := make([][]Item, len(claims))
	for i, c := range claims {
		items[i] = c.wants()
	}
	return items
}

// wants are the items that the claim's charge is to hold. One that is accepted for what was lost gets what there is when its payment is adopted.
func (c *claim) wants() []Item {
	if c.adopts {
		return nil
	}
	return c.charge.Items
}

// twin is the name of the lock that a transaction has while it accepts or refuses what sells something under the claim's key. Two keys of one name
// wait for each other, and that is all.
func (c *claim) twin() int64 {
	return int64(binary.BigEndian.Uint64(c.Key[:8]) ^ binary.BigEndian.Uint64(c.Key[8:]))
}
