package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Report is everything that a run found out, as bench.json holds it.
type Report struct {
	Began    time.Time         `json:"began"`
	Version  string            `json:"oncepay"`
	Go       string            `json:"go"`
	System   string            `json:"system"`
	CPU      string            `json:"cpu,omitempty"`
	Cores    int               `json:"cores"`
	DiskSync float64           `json:"disk_sync_ms"` // a page, written and synced; median
	Settings map[string]string `json:"postgres"`
	Options  map[string]any    `json:"options"`
	Notes    []string          `json:"notes,omitempty"`
	Samples  []Sample          `json:"samples"`
	Stats    []Stat            `json:"stats"`
	Costs    []Cost            `json:"costs,omitempty"`
	Drain    *Drained          `json:"drain,omitempty"`
	Targets  []Target          `json:"targets"`
}

func newReport(o Options) Report {
	return Report{Began: time.Now().UTC().Truncate(time.Second), Version: o.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuModel(), Cores: runtime.NumCPU(), Settings: map[string]string{}, Options: map[string]any{
			"rounds": o.Rounds, "round_seconds": o.RoundDuration.Seconds(), "clients": o.Clients, "charges": o.Charges, "concurrency": o.Concurrency,
			"database_conns": o.Conns, "provider_latency_ms": o.ProviderLatency.Milliseconds(), "growth": o.Growth, "growth_clients": o.GrowthClients,
			"drain": o.Drain, "drain_rate": o.DrainRate, "drain_new": o.DrainNew,
		}}
}

// cpuModel is the name of the processor; empty where that cannot be told.
func cpuModel() string {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// note keeps something that the reader of the figures should know.
func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.report.Notes = append(b.report.Notes, text)
	b.say("  note: %s", text)
}

func (r *Report) summarise() {
	r.Stats = summarise(r.Samples)
	r.Targets = r.targets()
}

// write leaves bench.json, bench.svg and bench.txt in a directory, and ends the output with the tables.
func (r *Report) write(dir string, table io.Writer) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var text strings.Builder
	r.writeHead(&text)
	for _, section := range Sections {
		r.writeSection(&text, section)
	}
	r.writeCosts(&text)
	r.writeTargets(&text)
	r.writeTargets(table)
	for name, content := range map[string][]byte{"bench.json": append(raw, '\n'), "bench.txt": []byte(text.String()), "bench.svg": r.plot()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(table, "\nwritten: %s, bench.svg, bench.txt\n", filepath.Join(dir, "bench.json"))
	return err
}
