package bench

import (
	"cmp"
	"slices"
)

// Sample is what one round of one variant measured.
type Sample struct {
	Section   string  `json:"section"`
	Variant   string  `json:"variant"`
	Clients   int     `json:"clients,omitempty"`
	Existing  int64   `json:"existing,omitempty"` // charges that were there before
	Beside    int64   `json:"beside,omitempty"`   // of the empty database: those in the one with which it took turns
	Round     int     `json:"round"`              // from 1
	Count     int     `json:"count"`              // what was done: charges, transactions or jobs
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms,omitempty"`
	P99       float64 `json:"p99_ms,omitempty"`

	// CPU seconds per second, by who used them; those that cannot be told are absent.
	CPU map[string]float64 `json:"cpu,omitempty"`
}

// Stat is what the rounds of one variant come to.
type Stat struct {
	Section   string             `json:"section"`
	Variant   string             `json:"variant"`
	Clients   int                `json:"clients,omitempty"`
	Existing  int64              `json:"existing,omitempty"`
	Beside    int64              `json:"beside,omitempty"`
	Rounds    int                `json:"rounds"`
	PerSecond Spread             `json:"per_second"`
	P50       Spread             `json:"p50_ms"`
	P99       Spread             `json:"p99_ms"`
	CPU       map[string]float64 `json:"cpu,omitempty"` // medians
}

// Spread is a median and what lies around it.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

type variant struct {
	section, name string
	clients       int
	existing      int64
	beside        int64
}

// summarise brings the rounds of each variant together, in the order in which the variants came first.
func summarise(samples []Sample) []Stat {
	var order []variant
	rounds := map[variant][]Sample{}
	for _, s := range samples {
		v := variant{s.Section, s.Variant, s.Clients, s.Existing, s.Beside}
		if rounds[v] == nil {
			order = append(order, v)
		}
		rounds[v] = append(rounds[v], s)
	}
	slices.SortStableFunc(order, func(a, b variant) int {
		return cmp.Or(cmp.Compare(slices.Index(Sections, a.section), slices.Index(Sections, b.section)), cmp.Compare(a.clients, b.clients),
			cmp.Compare(max(a.existing, a.beside), max(b.existing, b.beside)), cmp.Compare(a.name, b.name), cmp.Compare(a.existing, b.existing))
	})
	var stats []Stat
	for _, v := range order {
		of := func(value func(Sample) float64) Spread {
			var values []float64
			for _, s := range rounds[v] {
				values = append(values, value(s))
			}
			return spreadOf(values)
		}
		stat := Stat{Section: v.section, Variant: v.name, Clients: v.clients, Existing: v.existing, Beside: v.beside, Rounds: len(rounds[v]), CPU: map[string]float64{},
			PerSecond: of(func(s Sample) float64 { return s.PerSecond }), P50: of(func(s Sample) float64 { return s.P50 }),
			P99: of(func(s Sample) float64 { return s.P99 })}
		for who := range rounds[v][0].CPU {
			stat.CPU[who] = of(func(s Sample) float64 { return s.CPU[who] }).Median
		}
		stats = append(stats, stat)
	}
	return stats
}

// anyClients finds a variant whatever its number of clients.
const anyClients = -1

// find is the statistic of a variant; nil: it was not measured.
func find(stats []Stat, section, name string, clients int) *Stat {
	for i, s := range stats {
		if s.Section == section && s.Variant == name && (clients == anyClients || s.Clients == clients) {
			return &stats[i]
		}
	}
	return nil
}

// rotated begins with another element each round, so that none always follows the same one.
func rotated[T any](all []T, round int) []T {
	n := round % len(all)
	return slices.Concat(all[n:], all[:n])
}

// there says how many charges were there before, where that is what was varied.
func there(existing, beside int64) string {
	switch {
	case existing > 0:
		return short(float64(existing)) + " there"
	case beside > 0:
		return "empty (beside " + short(float64(beside)) + ")"
	}
	return ""
}

func (s Sample) there() string { return there(s.Existing, s.Beside) }
func (s Stat) there() string   { return there(s.Existing, s.Beside) }
