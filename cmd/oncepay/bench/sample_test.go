package bench

import (
	"slices"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{9, 1, 4}, Spread{4, 1, 9}},
		{[]float64{9, 1, 4, 6}, Spread{5, 1, 9}},
	} {
		if got := spreadOf(test.values); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.values, got, test.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var d driven
	for ms := range 200 {
		d.latencies = append(d.latencies, time.Duration(ms+1)*time.Millisecond)
	}
	for share, want := range map[float64]float64{0.5: 101, 0.99: 199, 1: 200} {
		if got := d.quantile(share); got != want {
			t.Errorf("%g: %g ms, want %g", share, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	stats := summarise([]Sample{
		{Section: "accept", Variant: "x", Clients: 4, PerSecond: 3}, {Section: "accept", Variant: "x", Clients: 1, PerSecond: 9, CPU: map[string]float64{"api": 1}},
		{Section: "accept", Variant: "x", Clients: 4, PerSecond: 5}, {Section: "accept", Variant: "y", Clients: 4, PerSecond: 7},
	})
	if len(stats) != 3 || stats[0].Clients != 1 || stats[0].CPU["api"] != 1 {
		t.Fatalf("%+v", stats)
	}
	if x := find(stats, "accept", "x", 4); x == nil || x.Rounds != 2 || x.PerSecond != (Spread{4, 3, 5}) {
		t.Errorf("%+v", x)
	}
	if y := find(stats, "accept", "y", anyClients); y == nil || y.Clients != 4 {
		t.Errorf("whatever its clients: %+v", y)
	}
	if find(stats, "accept", "y", 1) != nil {
		t.Error("what was not measured is found")
	}
}

// With one client two equal ways are equal but for noise, and pgbench is compared whatever its own clients.
func TestTargetsOfAccept(t *testing.T) {
	t.Parallel()
	stat := func(variant string, clients int, rate float64) Stat {
		return Stat{Section: "accept", Variant: variant, Clients: clients, PerSecond: Spread{rate, rate, rate}, P99: Spread{1, 1, 1}}
	}
	for rate, met := range map[float64]bool{94: false, 95: true, 100: true} {
		r := Report{Stats: []Stat{stat(plain, 1, 100), stat(shared, 1, rate), stat(plain, 64, 100), stat(shared, 64, 500), stat(pgbench, 16, 200)}}
		want := map[string]bool{"accept, 1 clients: rate to (a)": met, "accept, 64 clients: rate to (a)": true, "accept, 64 clients: rate to (b)": true,
			"accept, 64 clients: p99 to (a)'s": true}
		all := r.targets()
		for _, target := range all {
			if is, known := want[target.What]; !known || is != target.Met {
				t.Errorf("%g: %+v", rate, target)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%g: %+v", rate, all)
		}
		lines := r.acceptPanel().lines
		if len(lines) != 3 || len(lines[2].points) != 2 || lines[2].points[1].Median != 200 || lines[2].name != "pgbench, 16 clients" {
			t.Errorf("drawn: %+v", lines)
		}
	}
}

// What items cost is judged beside the same without them, and not where either was not measured.
func TestTargetsOfItems(t *testing.T) {
	t.Parallel()
	stat := func(section, variant string, clients int, rate float64) Stat {
		return Stat{Section: section, Variant: variant, Clients: clients, PerSecond: Spread{rate, rate, rate}}
	}
	with := []Stat{
		stat("accept", hotItem, 16, 1), stat("accept", hotItem, 64, 74), stat("accept", refused, 64, 100), stat("accept", hotItem, 256, 75), stat("accept", refused, 256, 99),
		stat("endtoend", settlingHot, 0, 85),
	}
	without := []Stat{stat("accept", shared, 16, 100), stat("accept", shared, 64, 100), stat("accept", shared, 256, 100), stat("endtoend", settling, 0, 100)}
	want := map[string]bool{
		"accept, 64 clients: with a hot item to without": false, "accept, 64 clients: refusals once it is sold out to charges without": true,
		"accept, 256 clients: with a hot item to without": true, "accept, 256 clients: refusals once it is sold out to charges without": false,
		"end to end: with a hot item to without": true,
	}
	all := (&Report{Stats: slices.Concat(with, without)}).targets()
	for _, target := range all {
		if met, known := want[target.What]; !known || met != target.Met {
			t.Errorf("%+v", target)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%+v", all)
	}
	for _, alone := range [][]Stat{with, without} {
		if all := (&Report{Stats: alone}).targets(); len(all) > 0 {
			t.Errorf("judged beside nothing: %+v", all)
		}
	}
	if p := (&Report{Stats: without}).itemPanel(); len(p.lines) > 0 {
		t.Errorf("drawn without items: %+v", p)
	}
}

// Either kind of key is judged beside an empty database, and drawn; a run that knew one kind is shown as it was.
func TestTargetsOfGrowth(t *testing.T) {
	t.Parallel()
	var stats []Stat
	for variant, rates := range map[string][2]float64{orderly: {95, 100}, scattered: {80, 90}, settle: {18, 20}} {
		for i, rate := range rates {
			s := Stat{Section: "growth", Variant: variant, Existing: 10e6, PerSecond: Spread{rate, rate, rate}}
			if i == 1 {
				s.Existing, s.Beside = 0, 10e6
			}
			stats = append(stats, s)
		}
	}
	judge := func(r Report, met map[string]bool) {
		t.Helper()
		all := r.targets()
		for _, target := range all {
			if is, known := met[target.What]; !known || is != target.Met || target.Want != "at least 0.90" {
				t.Errorf("%+v", target)
			}
		}
		bars := r.growthPanel().bars
		if len(all) != len(met) || len(bars) != 2*len(met) {
			t.Errorf("judged %+v, drawn %+v", all, bars)
		}
		for _, b := range bars {
			if len(b.label) > 22 {
				t.Errorf("there is no room for %q", b.label)
			}
		}
	}
	with := map[string]bool{
		"growth: accept with 10M there, to that of an empty database":              true,
		"growth: accept, random keys with 10M there, to that of an empty database": false,
		"growth: settle with 10M there, to that of an empty database":              true,
	}
	judge(Report{Stats: stats}, with)
	delete(with, "growth: accept, random keys with 10M there, to that of an empty database")
	judge(Report{Stats: slices.DeleteFunc(stats, func(s Stat) bool { return s.Variant == scattered })}, with)
}

// Whoever comes first, each comes first as often.
func TestRotated(t *testing.T) {
	t.Parallel()
	for round, want := range [][]string{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}, {"a", "b", "c"}} {
		if got := rotated([]string{"a", "b", "c"}, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v", round, got)
		}
	}
}

// The axis ends above all that is drawn, and its marks can be counted.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, top := range []float64{0, 0.03, 1, 1.01, 7, 99, 100, 4321, 1e7} {
		all := steps(top)
		if last := all[len(all)-1]; all[0] != 0 || last < top || last > 2*top && top > 0 || len(all) > 7 || len(all) < 2 {
			t.Errorf("%g: %v", top, all)
		}
	}
}

func TestSubstitutes(t *testing.T) {
	t.Parallel()
	s := substitutes{texts: map[string]string{"AAA": "new.id", "BBB": "new.key"}, from: time.Unix(1000, 0), now: "new.at"}
	for _, test := range []struct{ value, kind, want string }{
		{"AAA", "uuid", "((new.id)::text)::uuid"},
		{"it's", "text", `(E'it''s')::text`},
		{"", "text", `(E'')::text`},
		{`{"v":"AAA","k":"BBB"}`, "jsonb", `(E'{"v"\x3a"' || (new.id)::text || E'","k"\x3a"' || (new.key)::text || E'"}')::jsonb`},
		{"1000", "timestamp with time zone", "new.at"},
		{"1003.5", "timestamp with time zone", "new.at + interval '3.500 seconds'"},
	} {
		got, err := s.expression(test.value, test.kind)
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", test.value, got, err, test.want)
		}
	}
}
