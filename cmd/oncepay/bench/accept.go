package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// Variants of accept.
const (
	shared  = "oncepay"             // waiting requests share a commit
	plain   = "a: tx a request"     // the same API with a transaction for each request
	pgbench = "b: pgbench"          // the same inserts without us
	hotItem = "oncepay, a hot item" // every charge wants one of the same SKU
	refused = "oncepay, sold out"   // of which none is left
)

// accepting is a variant of accept that is ready to be measured.
type accepting struct {
	name    string
	order   order
	db      *database
	api     *apiProcess // nil: pgbench
	accepts int         // all that was accepted, outside rounds as well
}

// accept measures how many charges are accepted per second.
func (b *bench) accept(ctx context.Context) error {
	variants := []*accepting{{name: plain, order: usual}, {name: pgbench}, {name: shared, order: usual}, {name: hotItem, order: hot}, {name: refused, order: soldOut}}
	for i, v := range variants {
		var err error
		if v.db, err = b.database(ctx, fmt.Sprint("accept_", "abohs"[i:i+1])); err != nil {
			return err
		}
		if v.name == pgbench {
			continue
		}
		if v.api, err = b.api(ctx, v.db, v.name != plain); err != nil {
			return err
		}
		if _, err := b.acceptFor(ctx, v, b.Clients[len(b.Clients)-1], b.warmUp()); err != nil {
			return err
		}
	}
	bare, err := b.newPgbench(ctx, variants[2].db)
	if err != nil {
		return err
	}
	if bare == nil {
		variants = slices.Delete(variants, 1, 2)
	} else if _, err := bare.run(ctx, variants[1], bare.clients, b.warmUp()); err != nil {
		return err
	}
	for i, clients := range b.Clients {
		for round := range b.Rounds {
			for _, v := range rotated(variants, round) {
				var s Sample
				if v.api == nil { // whatever the others' clients, it has the number with which it is best
					s, err = bare.run(ctx, v, bare.clients, b.RoundDuration)
					s.Clients, s.Round = bare.clients, i*b.Rounds+round+1
				} else {
					s, err = b.acceptRound(ctx, v, clients)
					s.Clients, s.Round = clients, round+1
				}
				if err != nil {
					return err
				}
				s.Section, s.Variant = "accept", v.name
				b.add(s)
			}
		}
	}
	for _, v := range variants {
		if err := v.check(ctx); err != nil {
			return err
		}
		if v.api == nil {
			continue
		}
		if err := v.api.stop(); err != nil {
			return err
		}
	}
	return nil
}

// warmUp is how long each is driven before it is measured.
func (b *bench) warmUp() time.Duration { return min(b.RoundDuration, 3*time.Second) }

// acceptFor lets clients post a variant's order for so long.
func (b *bench) acceptFor(ctx context.Context, v *accepting, clients int, d time.Duration) (driven, error) {
	came, err := b.driveFor(ctx, v.api, v.order, clients, d)
	if v.order.accepted() {
		v.accepts += came.acknowledged
	}
	return came, err
}

func (b *bench) acceptRound(ctx context.Context, v *accepting, clients int) (Sample, error) {
	pid := v.api.cmd.Process.Pid
	used := b.usedBy(map[string]int{"api": pid, "load": os.Getpid()})
	cpu, server := cpuOf(pid), familyCPU(b.postmaster)
	d, err := b.acceptFor(ctx, v, clients, b.RoundDuration)
	if most := b.Clients[len(b.Clients)-1]; v.name == shared && clients == most {
		b.keepCost("accept", "api", cpuOf(pid)-cpu, peakOf(pid), d.acknowledged)
		b.keepCost("accept", "postgres", familyCPU(b.postmaster)-server, 0, d.acknowledged)
	}
	return Sample{Count: d.counted, Seconds: d.took.Seconds(), PerSecond: d.perSecond(), P50: d.quantile(0.5), P99: d.quantile(0.99),
		CPU: used()}, err
}

// check compares what was accepted with what is in the database: a refusal leaves nothing there.
func (v *accepting) check(ctx context.Context) error {
	items := 0
	if v.name == hotItem {
		items = v.accepts
	}
	for what, query := range map[string]string{
		"items":           `SELECT count(*) FROM charge_item`,
		"allocated items": `SELECT coalesce(sum(allocated), 0) FROM inventory WHERE sku <> '` + soldOutSKU + `'`,
	} {
		if n, err := v.db.count(ctx, query); err != nil {
			return err
		} else if n != items {
			return fmt.Errorf("%s: %d items were sold, and %d %s are in the database", v.name, items, n, what)
		}
	}
	for what, query := range map[string]string{
		"charges":          `SELECT count(*) FROM charge`,
		"idempotency keys": `SELECT count(*) FROM idempotency_key`,
		"events":           `SELECT count(*) FROM charge_event`,
		"jobs":             `SELECT count(*) FROM river_job`,
	} {
		n, err := v.db.count(ctx, query)
		if err != nil {
			return err
		}
		if n != v.accepts {
			return fmt.Errorf("%s: %d charges were accepted, and %d %s are in the database", v.name, v.accepts, n, what)
		}
	}
	return nil
}
