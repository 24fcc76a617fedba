package bench

import (
	"fmt"
	"io"
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

// keepCost notes what a process has cost, of which the peak is unknown where it is 0, unless the system does not tell.
func (b *bench) keepCost(section, name string, cpu time.Duration, peak int64, n int) {
	if section == "" || cpu == 0 || n == 0 || !b.wants("cost") {
		return
	}
	b.report.Costs = append(b.report.Costs, Cost{section, name, n, cpu.Seconds() * 1000 / float64(n), peak})
}

// costs is what each process came to: the median of its CPU time, and the most memory of all its rounds.
type costs struct {
	section, process string
	cpu              Spread
	peak             int64
}

func (r *Report) costs() (all []costs) {
	cpu := map[costs][]float64{}
	var order []costs
	peaks := map[costs]int64{}
	for _, c := range r.Costs {
		of := costs{section: c.Section, process: c.Process}
		if cpu[of] == nil {
			order = append(order, of)
		}
		cpu[of] = append(cpu[of], c.CPU)
		peaks[of] = max(peaks[of], c.Peak)
	}
	for _, of := range order {
		all = append(all, costs{of.section, of.process, spreadOf(cpu[of]), peaks[of]})
	}
	return all
}

func (r *Report) writeCosts(w io.Writer) {
	if len(r.Costs) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", titles["cost"])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "process\twhile\tCPU seconds\tmin - max\tpeak memory")
	for _, c := range r.costs() {
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f - %.3f\t%s\n", c.process, while(c.section), c.cpu.Median, c.cpu.Min, c.cpu.Max,
			orBlank(c.peak > 0, "%.0f MB", float64(c.peak)/1e6))
	}
	_ = t.Flush()
}

// while is the section's name as it is written.
func while(section string) string {
	name, _, _ := strings.Cut(titles[section], ":")
	return name
}
