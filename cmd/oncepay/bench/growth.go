package bench

import (
	"context"
	"fmt"
	"time"
)

// Variants of growth.
const (
	orderly   = "accept"              // keys in order of time, as our client library makes them
	scattered = "accept, random keys" // what is put there is the same but for the kind of key, and of the reference that holds it
	settle    = "settle"              // what orderly has put there
)

// arrivals are the variants that accept.
var arrivals = []arrival{{orderly, inTime}, {scattered, usual}}

type arrival struct {
	variant string
	order   order
}

// growing is a database with charges, and its API.
type growing struct {
	*database
	api      *apiProcess
	existing int64
}

// growth measures whether a database with many charges is slower than an empty one.
func (b *bench) growth(ctx context.Context) error {
	empty, grown := &growing{}, &growing{}
	for name, g := range map[string]*growing{"growth_empty": empty, "growth_grown": grown} {
		var err error
		if g.database, err = b.database(ctx, name); err != nil {
			return err
		}
		if g.api, err = b.api(ctx, g.database, true); err != nil {
			return err
		}
	}
	// What is put there is copied from the last of these.
	if _, err := b.settleRound(ctx, "", grown.database, grown.api, usual, 10); err != nil {
		return err
	}
	for _, size := range b.Growth {
		if size == 0 {
			continue // it is always beside the others
		}
		began := time.Now()
		if err := grown.fill(ctx, size-grown.existing); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
		grown.existing = size
		bytes, err := grown.count(ctx, `SELECT pg_database_size(current_database())`)
		if err != nil {
			return err
		}
		b.say("  %s charges are there after %s, in %.1f GB", short(float64(size)), time.Since(began).Round(time.Second), float64(bytes)/1e9)
		for _, g := range []*growing{empty, grown} { // caches and plans are those of the size
			if err := b.warm(ctx, g); err != nil {
				return err
			}
		}
		for round := range b.Rounds {
			for _, g := range rotated([]*growing{empty, grown}, round) {
				if err := b.growthRound(ctx, g, size, round); err != nil {
					return err
				}
			}
		}
	}
	for _, g := range []*growing{empty, grown} {
		if err := g.api.stop(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) warm(ctx context.Context, g *growing) error {
	began, n := time.Now(), 0
	for _, a := range arrivals {
		d, err := b.driveFor(ctx, g.api, a.order, b.GrowthClients, b.warmUp())
		if err != nil {
			return err
		}
		n += d.acknowledged
	}
	_, err := b.settle(ctx, "", g.database, began, n)
	return err
}

// growthRound accepts charges for a while, with either kind of key, and settles each lot before it goes on, so that none waits in the next.
func (b *bench) growthRound(ctx context.Context, g *growing, size int64, round int) error {
	keep := func(s Sample, variant string) {
		s.Section, s.Variant, s.Round, s.Existing = "growth", variant, round+1, g.existing
		if g.existing == 0 {
			s.Beside = size
		}
		b.add(s)
	}
	for _, a := range rotated(arrivals, round) {
		began := time.Now()
		used := b.usedBy(map[string]int{"api": g.api.cmd.Process.Pid})
		d, err := b.driveFor(ctx, g.api, a.order, b.GrowthClients, b.RoundDuration)
		if err != nil {
			return err
		}
		keep(Sample{Count: d.counted, Seconds: d.took.Seconds(), PerSecond: d.perSecond(), P50: d.quantile(0.5), P99: d.quantile(0.99), CPU: used()}, a.variant)
		s, err := b.settle(ctx, "", g.database, began, d.acknowledged)
		if err != nil {
			return err
		}
		if a.variant == orderly {
			keep(s, settle)
		}
	}
	return nil
}
