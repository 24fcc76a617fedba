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

// targets judges what was measured.
func (r *Report) targets() (all []Target) {
	for _, s := range r.Stats {
		if s.Section != "accept" || s.Variant != shared {
			continue
		}
		at := fmt.Sprintf("accept, %d clients: ", s.Clients)
		a, b := find(r.Stats, "accept", plain, s.Clients, 0), find(r.Stats, "accept", pgbench, s.Clients, 0)
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
			all = append(all, atLeast(at+"rate to (a)", ratio, 1))
		}
	}
	if us, c := find(r.Stats, "endtoend", settling, 0, 0), find(r.Stats, "endtoend", engine, 0, 0); us != nil && c != nil {
		ratio := us.PerSecond.Median / c.PerSecond.Median
		all = append(all, atLeast("end to end: charges to no-op jobs (c)", ratio, 0.25),
			Target{"end to end: charges to what two jobs each allow", fmt.Sprintf("%.2f", 2*ratio), "at least 0.50", ratio >= 0.25})
	}
	for _, c := range []struct {
		what, section, process string
		most                   int64
	}{{"cost: memory of the api", "accept", "api, 256 clients", 100e6}, {"cost: memory of the worker", "endtoend", "worker", 150e6}} {
		if _, peak := r.costOf(c.section, c.process); peak > 0 {
			all = append(all, Target{c.what, fmt.Sprintf("%.0f MB", float64(peak)/1e6), fmt.Sprintf("below %.0f MB", float64(c.most)/1e6), peak < c.most})
		}
	}
	return all
}
