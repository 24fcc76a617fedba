package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/cmd/oncepay/bench"
)

// benchLaunch is a bench of a few seconds.
func benchLaunch(dir string, flags ...string) launch {
	return oncepayArgs(append([]string{"bench", "--out=" + filepath.Join(dir, "out"), "--data-dir=" + filepath.Join(dir, "data"), "--rounds=1",
		"--round-duration=200ms", "--clients=1,4", "--pgbench-clients=3", "--charges=40", "--concurrency=8", "--database-conns=4",
		"--growth=0,300", "--growth-clients=4", "--drain=40", "--drain-rate=40/s", "--drain-new=5/s"}, flags...)...)
}

// Everything that is measured is in the table, the JSON and the plot, and agrees with itself. How fast it was is no matter here.
func TestBench(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	p := benchLaunch(dir).start(t)
	await(t, 5*patience, "the bench ends", func() error { // it starts some thirty processes
		if !p.hasEnded() {
			return errors.New("it runs")
		}
		return nil
	})
	table := p.stdout.String()
	if code := p.exitCode(); code != 0 {
		t.Fatalf("exit %d: %s%s", code, table, p.stderr.String())
	}
	raw, err := os.ReadFile(filepath.Join(dir, "out", "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if r.Settings["fsync"] != "on" || r.Settings["synchronous_commit"] != "on" || r.Settings["full_page_writes"] != "on" {
		t.Errorf("PostgreSQL ran with %v", r.Settings)
	}

	rounds := map[string]int{}
	for _, s := range r.Samples {
		rounds[fmt.Sprintf("%s/%s/%d/%d", s.Section, s.Variant, s.Clients, s.Existing)]++
		if s.Count < 1 || s.Seconds <= 0 || math.Abs(s.PerSecond*s.Seconds/float64(s.Count)-1) > 0.01 {
			t.Errorf("a round does not agree with itself: %+v", s)
		}
		if s.Section == "accept" && !strings.Contains(s.Variant, "pgbench") && (s.P50 <= 0 || s.P99 < s.P50) {
			t.Errorf("latencies: %+v", s)
		}
	}
	want := map[string]int{"endtoend/oncepay, charges/0/0": 1, "endtoend/oncepay, a hot item/0/0": 1, "endtoend/c: no-op jobs/0/0": 1,
		"drain/calls to Stripe/0/0": 1, "drain/new, until they are settled/0/0": 1}
	for _, clients := range []int{1, 4} {
		for _, variant := range []string{"oncepay", "oncepay, a hot item", "oncepay, sold out", "a: tx a request"} {
			want[fmt.Sprintf("accept/%s/%d/0", variant, clients)] = 1
		}
	}
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, "pgbench is not among") { // else it is not there
		want["accept/b: pgbench/3/0"] = 2 // in turns with each number of the others' clients
	}
	if !strings.Contains(notes, "of what its no-op jobs allow") {
		t.Errorf("notes: %s", notes)
	}
	for _, variant := range []string{"accept", "accept, random keys", "settle"} {
		want["growth/"+variant+"/0/0"], want["growth/"+variant+"/0/300"] = 1, 1
	}
	for what, n := range want {
		if rounds[what] != n {
			t.Errorf("%d rounds of %s, want %d", rounds[what], what, n)
		}
		if variant := strings.Split(what, "/")[1]; !strings.Contains(table, variant) {
			t.Errorf("the table has no line for %s", variant)
		}
	}
	if len(rounds) != len(want) {
		t.Errorf("there are rounds of %v", rounds)
	}
	for _, s := range r.Stats {
		if p := s.PerSecond; p.Min > p.Median || p.Median > p.Max || p.Min <= 0 {
			t.Errorf("%s, %s: %+v", s.Section, s.Variant, p)
		}
	}
	if d := r.Drain; d == nil || d.Waiting != 40 || d.Reached <= 0 || d.Busiest > 2*40 {
		t.Errorf("drained %+v", r.Drain)
	}
	costs := map[string]bool{}
	for _, c := range r.Costs {
		costs[c.Section+"/"+c.Process] = true
	}
	// What took less than a tick of the system's clock, of 10 ms, has no cost: on a slow machine the round accepts a handful of charges.
	for _, s := range r.Samples {
		if runtime.GOOS != "linux" || s.Section == "accept" && (s.Variant != "oncepay" || s.Clients != 4) || s.Section == "endtoend" && s.Variant != "oncepay, charges" {
			continue
		}
		for process, cpus := range s.CPU {
			measured := s.Section == "accept" && (process == "api" || process == "postgres") || s.Section == "endtoend" && (process == "worker" || process == "postgres")
			if measured && cpus*s.Seconds > 0.02 && !costs[s.Section+"/"+process] {
				t.Errorf("%s took %.3f s to %s, and has no cost: %+v", process, cpus*s.Seconds, s.Section, r.Costs)
			}
		}
	}
	if runtime.GOOS == "linux" && !costs["endtoend/worker"] {
		t.Errorf("costs: %+v", r.Costs)
	}
	for _, known := range []string{"accept/api", "accept/postgres", "endtoend/worker", "endtoend/postgres"} {
		delete(costs, known)
	}
	if len(costs) > 0 {
		t.Errorf("costs of something else: %v", costs)
	}
	for _, text := range []string{"rate to (a)", "end to end: with a hot item", "no-op jobs (c)", "to that of an empty database", "rate to the allowed one"} {
		if !strings.Contains(table, text) {
			t.Errorf("no target speaks of %q in\n%s", text, table)
		}
	}
	checkPlot(t, filepath.Join(dir, "out", "bench.svg"))
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
}

func checkPlot(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	elements := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(raw))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			texts.Write(token)
		}
	}
	for _, text := range []string{"Accepted charges", "Answered within", "wants the same item", "sold out, refused", "Settled charges", "with a hot item", "there already", "random keys, 300", "behind an outage", "CPU seconds", "a transaction a request"} {
		if !strings.Contains(texts.String(), text) {
			t.Errorf("the plot has no panel %q", text)
		}
	}
	if elements["path"] < 4 || strings.Contains(string(raw), "NaN") || strings.Contains(string(raw), "Inf") {
		t.Errorf("the plot has %v", elements)
	}
}

func TestBenchRefusesWhatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--only=speed": `no section "speed"`, "--rounds=0": "--rounds", "--clients=4,1": "ascend", "--clients=0": "--clients",
		"--round-duration=1ms": "--round-duration", "--drain-new=300/s": "--drain-new",
	} {
		r := oncepayArgs("bench", "--out="+t.TempDir(), flag).run(t)
		if r.code != 2 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s", flag, r.code, r.stderr)
		}
	}
}

// No session of the product makes its commits less durable than the server's settings say, so that the settings can be asserted for all. The
// one exception is a lease of rate, which holds nothing that a crash must not forget.
func TestCommitsAreAsDurableAsTheServerSays(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"outbox/lease.go": false, "migrations/pgtest/launch.go": false, "migrations/pgtest/own.go": false, "cmd/oncepay/bench/server.go": false}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		sql := strings.HasSuffix(name, ".sql")
		if err != nil || entry.IsDir() || !sql && !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), "synchronous_commit") {
			return err
		}
		if _, known := allowed[name]; !known {
			t.Errorf("%s changes how durable commits are", name)
		}
		allowed[name] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, met := range allowed {
		if !met {
			t.Errorf("%s is allowed what it does not do", name)
		}
	}
}
