package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Cost is what charges have cost one process.
type Cost struct {
	Section string  `json:"section"`
	Process string  `json:"process"`
	Charges int     `json:"charges"`
	CPU     float64 `json:"cpu_seconds_per_1000"`
	Peak    int64   `json:"peak_bytes"` // since the process began
}

// keepCost notes what the process, which handled n charges, has cost since it began, unless the system does not tell.
func (b *bench) keepCost(section, name string, p *process, n int) {
	b.keepCostOf(section, name, cpuOf(p.cmd.Process.Pid), peakOf(p.cmd.Process.Pid), n)
}

func (b *bench) keepCostOf(section, name string, cpu time.Duration, peak int64, n int) {
	if section == "" || cpu == 0 || n == 0 || !b.wants("cost") {
		return
	}
	b.report.Costs = append(b.report.Costs, Cost{section, name, n, cpu.Seconds() * 1000 / float64(n), peak})
}

// costOf brings the measurements of one process together: the median of the CPU time, and the most memory of all.
func (r *Report) costOf(section, name string) (cpu Spread, peak int64) {
	var all []float64
	for _, c := range r.Costs {
		if c.Section == section && c.Process == name {
			all = append(all, c.CPU)
			peak = max(peak, c.Peak)
		}
	}
	return spreadOf(all), peak
}

func (r *Report) writeCosts(w io.Writer) {
	if len(r.Costs) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", titles["cost"])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "process\twhile\tCPU seconds\tmin - max\tpeak memory")
	var done []string
	for _, c := range r.Costs {
		if key := c.Section + c.Process; !slices.Contains(done, key) {
			done = append(done, key)
			cpu, peak := r.costOf(c.Section, c.Process)
			fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f - %.3f\t%s\n", c.Process, strings.SplitN(titles[c.Section], ":", 2)[0], cpu.Median, cpu.Min, cpu.Max, orBlank(peak > 0, "%.0f MB", float64(peak)/1e6))
		}
	}
	_ = t.Flush()
}
