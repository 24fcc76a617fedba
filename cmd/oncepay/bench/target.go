package bench

import "fmt"

// Target is a ratio, or a size, that a run should come to, and what it came to.
type Target struct {
	What string `json:"what"`
	Is   string `json:"is"`
	Want string `json:"want"`
	Met  bool   `json:"met"`
}

func atLeast(what string, is, want float64) Target {
	return Target{what, fmt.Sprintf("%.2f", is), fmt.Sprintf("at least %.2f", want), is >= want}
}

func atMost(what string, is, want float64) Target {
	return Target{what, fmt.Sprintf("%.2f", is), fmt.Sprintf("at most %.2f", want), is <= want}
}

// nearly is the share of an equal's rate that noise alone may leave.
const nearly = 0.95

// targets judges what was measured.
func (r *Report) targets() (all []Target) {
	for _, s := range r.Stats {
		if s.Section != "accept" || s.Variant != shared {
			continue
		}
		at := fmt.Sprintf("accept, %d clients: ", s.Clients)
		a, b := find(r.Stats, "accept", plain, s.Clients), find(r.Stats, "accept", pgbench, anyClients)
		if a == nil {
			continue
		}
		ratio := s.PerSecond.Median / a.PerSecond.Median
		switch {
		case s.Clients >= 64:
			all = append(all, atLeast(at+"rate to (a)", ratio, 4))
			if b != nil {
				all = append(all, atLeast(at+"rate to (b)", s.PerSecond.Median/b.PerSecond.Median, 2))
			}
			all = append(all, atMost(at+"p99 to (a)'s", s.P99.Median/a.P99.Median, 1))
		case s.Clients == 1:
			// There is nothing to share, and the two are nearly the same: half of all runs of equal ones would not come to 1.
			all = append(all, Target{at + "rate to (a)", fmt.Sprintf("%.2f", ratio), fmt.Sprintf("at least 1.00, within noise: %.2f", nearly), ratio >= nearly})
		}
	}
	all = append(all, r.itemTargets()...)
	if us, c := find(r.Stats, "endtoend", settling, 0), find(r.Stats, "endtoend", engine, 0); us != nil && c != nil {
		all = append(all, atLeast("end to end: charges to no-op jobs (c)", us.PerSecond.Median/c.PerSecond.Median, 0.25))
	}
	for _, s := range r.Stats {
		if s.Section != "growth" || s.Existing == 0 {
			continue
		}
		if empty := r.emptyBeside(s); empty != nil {
			what := fmt.Sprintf("growth: %s with %s, to that of an empty database", s.Variant, s.there())
			all = append(all, atLeast(what, s.PerSecond.Median/empty.PerSecond.Median, 0.9))
		}
	}
	if d := r.Drain; d != nil {
		all = append(all, atLeast("drain: rate to the allowed one", d.Reached/d.Allowed, 0.95))
	}
	for _, c := range r.costs() {
		if most := mostMemory[c.process]; most > 0 && c.peak > 0 {
			all = append(all, Target{"cost: memory of the " + c.process, megabytes(c.peak), "below " + megabytes(most), c.peak < most})
		}
	}
	return all
}

// What is left of a rate where every charge wants the same item.
const (
	hotAccept = 0.75 // the SKU's row is locked by one transaction at a time, and there is a row more to write
	hotSettle = 0.85 // there is a row more to change
)

// itemTargets judges what items cost, beside the same without them.
func (r *Report) itemTargets() (all []Target) {
	for _, with := range r.Stats {
		without := find(r.Stats, with.Section, shared, with.Clients)
		if with.Section != "accept" || with.Clients < 64 || without == nil {
			continue
		}
		at, ratio := fmt.Sprintf("accept, %d clients: ", with.Clients), with.PerSecond.Median/without.PerSecond.Median
		switch with.Variant {
		case hotItem:
			all = append(all, atLeast(at+"with a hot item to without", ratio, hotAccept))
		case refused:
			all = append(all, atLeast(at+"refusals once it is sold out to charges without", ratio, 1))
		}
	}
	if with, without := find(r.Stats, "endtoend", settlingHot, 0), find(r.Stats, "endtoend", settling, 0); with != nil && without != nil {
		all = append(all, atLeast("end to end: with a hot item to without", with.PerSecond.Median/without.PerSecond.Median, hotSettle))
	}
	return all
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }

// mostMemory is what processes may have, in bytes, with 256 clients.
var mostMemory = map[string]int64{"api": 100e6, "worker": 150e6}

// emptyBeside is what the empty database did in turns with one that has grown.
func (r *Report) emptyBeside(s Stat) *Stat {
	for i, other := range r.Stats {
		if other.Section == s.Section && other.Variant == s.Variant && other.Beside == s.Existing {
			return &r.Stats[i]
		}
	}
	return nil
}
