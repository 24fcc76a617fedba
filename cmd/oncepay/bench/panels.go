package bench

import (
	"fmt"
	"slices"
	"strings"
)

// across is one line over the numbers of clients.
func (r *Report) across(variant, name, color string, of func(Stat) Spread) series {
	l := series{name: name, color: color}
	for _, s := range r.Stats {
		if s.Section == "accept" && s.Variant == variant {
			l.points = append(l.points, point{fmt.Sprint(s.Clients), of(s)})
		}
	}
	return l
}

// level is a line of what does not depend on what the other line is over.
func level(name, color string, is Spread, along series) series {
	l := series{name: name, color: color}
	for _, at := range along.points {
		l.points = append(l.points, point{at.label, is})
	}
	return l
}

func drawn(all ...series) []series {
	return slices.DeleteFunc(all, func(l series) bool { return len(l.points) == 0 })
}

func (r *Report) acceptPanel() panel {
	rate := func(s Stat) Spread { return s.PerSecond }
	lines := drawn(r.across(shared, "Oncepay", ours, rate), r.across(plain, "a transaction a request", other, rate))
	if b := find(r.Stats, "accept", pgbench, anyClients); b != nil && len(lines) > 0 {
		lines = append(lines, level(fmt.Sprintf("pgbench, %d clients", b.Clients), another, b.PerSecond, lines[0]))
	}
	return panel{title: "Accepted charges per second", under: "over the number of clients that post at once", lines: lines}
}

func (r *Report) latencyPanel() panel {
	slowest := func(s Stat) Spread { return s.P99 }
	return panel{title: "Answered within, ms", under: "99 of 100 requests, over the number of clients", lines: drawn(
		r.across(shared, "Oncepay", ours, slowest), r.across(plain, "a transaction a request", other, slowest))}
}

func (r *Report) itemPanel() panel {
	rate := func(s Stat) Spread { return s.PerSecond }
	with := r.across(hotItem, "the same item in each", another, rate)
	if len(with.points) == 0 {
		return panel{}
	}
	return panel{title: "Every charge wants the same item", under: "answers per second, over the number of clients", lines: drawn(
		r.across(shared, "no items", ours, rate), with, r.across(refused, "sold out, refused", other, rate))}
}

func perSecond(rate float64) string { return fmt.Sprintf("%.0f/s", rate) }

func (r *Report) endToEndPanel() panel {
	us, c := find(r.Stats, "endtoend", settling, 0), find(r.Stats, "endtoend", engine, 0)
	if us == nil || c == nil {
		return panel{}
	}
	rate, jobs := us.PerSecond.Median, c.PerSecond.Median
	p := panel{title: "Settled charges per second", under: "paid and mailed at the simulators; a charge is two jobs of the queue", bars: []bar{
		{"Oncepay, charges", ours, rate, perSecond(rate)},
	}}
	if with := find(r.Stats, "endtoend", settlingHot, 0); with != nil {
		p.bars = append(p.bars, bar{"with a hot item", ours, with.PerSecond.Median, perSecond(with.PerSecond.Median)})
	}
	p.bars = append(p.bars, bar{"half of the queue's jobs", another, jobs / 2, perSecond(jobs / 2)}, bar{"the queue, no-op jobs", other, jobs, perSecond(jobs)})
	return p
}

func (r *Report) growthPanel() panel {
	p := panel{title: "With charges that are there already", under: "charges per second"}
	for _, s := range r.Stats {
		if s.Section == "growth" {
			color, label := ours, short(float64(s.Existing))
			if s.Existing == 0 {
				color, label = other, "empty"
			}
			name := strings.TrimPrefix(s.Variant, orderly+", ") // which stands above it
			p.bars = append(p.bars, bar{name + ", " + label, color, s.PerSecond.Median, perSecond(s.PerSecond.Median)})
		}
	}
	return p
}

func (r *Report) drainPanel() panel {
	d, late := r.Drain, find(r.Stats, "drain", newCharges, 0)
	if d == nil || late == nil {
		return panel{}
	}
	return panel{title: fmt.Sprintf("%s charges behind an outage", short(float64(d.Waiting))), under: "calls to Stripe per second, once it is over", bars: []bar{
		{"allowed", other, d.Allowed, perSecond(d.Allowed)},
		{"made", ours, d.Reached, fmt.Sprintf("%.0f/s, %.0f %%", d.Reached, 100*d.Reached/d.Allowed)},
		{"for new charges", another, late.PerSecond.Median,
			fmt.Sprintf("%.0f/s, settled in %.0f ms (p99 %.0f ms)", late.PerSecond.Median, late.P50.Median, late.P99.Median)},
	}}
}

func (r *Report) costPanel() panel {
	p := panel{title: "CPU seconds per 1,000 charges", under: "and the most memory"}
	for _, c := range r.costs() {
		text := fmt.Sprintf("%.2f s", c.cpu.Median)
		if c.peak > 0 {
			text += fmt.Sprintf(", %.0f MB", float64(c.peak)/1e6)
		}
		color := ours
		if c.process == "postgres" {
			color = other
		}
		p.bars = append(p.bars, bar{while(c.section) + ": " + c.process, color, c.cpu.Median, text})
	}
	return p
}
