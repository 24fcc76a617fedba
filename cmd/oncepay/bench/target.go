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
	return all
}
