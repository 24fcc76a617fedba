package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

var titles = map[string]string{
	"accept":   "accept: POST /charge, clients that each wait for their answer",
	"endtoend": "end to end: charges that wait, until each is paid and its receipt is mailed",
	"growth":   "growth: the same with charges that are there already",
	"drain":    "drain: what waits behind an outage, while new charges come",
	"cost":     "cost: of 1,000 charges",
}

func (r *Report) writeHead(w io.Writer) {
	fmt.Fprintf(w, "oncepay %s, %s, %s, %d cores (%s), a page synced in %.2f ms\nPostgreSQL", r.Version, r.Go, r.System, r.Cores, r.CPU, r.DiskSync)
	for i, name := range shown {
		separator := ","
		if i == 0 {
			separator, name = "", "server_version"
			fmt.Fprintf(w, " %s", r.Settings[name])
			continue
		}
		fmt.Fprintf(w, "%s %s=%s", separator, name, r.Settings[name])
	}
	fmt.Fprintln(w)
}

// writeSection writes the table of one section, if anything of it was measured.
func (r *Report) writeSection(w io.Writer, section string) {
	var of []Stat
	for _, s := range r.Stats {
		if s.Section == section {
			of = append(of, s)
		}
	}
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", titles[section])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tclients\tdatabase\tper second\tmin - max\tp50 ms\tp99 ms\tCPUs used")
	for _, s := range of {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.0f - %.0f\t%s\t%s\t%s\n", s.Variant, orBlank(s.Clients > 0, "%d", s.Clients), s.there(),
			s.PerSecond.Median, s.PerSecond.Min, s.PerSecond.Max, orBlank(s.P50.Max > 0, "%.1f", s.P50.Median), orBlank(s.P99.Max > 0, "%.1f", s.P99.Median), shares(s.CPU))
	}
	_ = t.Flush() // as all of the table: what cannot be shown is in the files
}

func orBlank(known bool, format string, value any) string {
	if !known {
		return ""
	}
	return fmt.Sprintf(format, value)
}

// shares are the CPUs that each has used.
func shares(of map[string]float64) string {
	var all []string
	for who, share := range of {
		all = append(all, fmt.Sprintf("%s %.2f", who, share))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (r *Report) writeTargets(w io.Writer) {
	if len(r.Targets) == 0 {
		return
	}
	fmt.Fprintf(w, "\ntargets\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, target := range r.Targets {
		verdict := "not met"
		if target.Met {
			verdict = "met"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", target.What, target.Is, target.Want, verdict)
	}
	_ = t.Flush()
}

// short writes large round numbers as people say them.
func short(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%gM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%gk", n/1e3)
	}
	return fmt.Sprintf("%g", n)
}
