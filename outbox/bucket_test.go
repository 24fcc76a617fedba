package outbox

import (
	"math"
	"testing"
	"time"
)

// spend lets lanes take whatever they can, for so long, and counts.
func spend(b bucket, configured float64, from time.Time, d time.Duration, lanes ...Lane) (after bucket, taken [2]int) {
	for now := from; now.Before(from.Add(d)); now = now.Add(5 * time.Millisecond) {
		b = b.refill(configured, now)
		for _, l := range lanes {
			var n int
			b, n, _ = b.lease(l, 100, configured, now)
			taken[l] += n
		}
	}
	return b, taken
}

// Each lane has its share while both want more, and all of it while the other is idle.
func TestLanes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name       string
		configured float64
		lanes      []Lane
		want       [2]float64 // in 100 s
	}{
		{"both", 25, []Lane{Fresh, Backlog}, [2]float64{1875, 625}},
		{"fresh alone", 25, []Lane{Fresh}, [2]float64{2500, 0}},
		{"backlog alone", 25, []Lane{Backlog}, [2]float64{0, 2500}},
		{"both, slowly", 1, []Lane{Backlog, Fresh}, [2]float64{75, 25}},
		{"backlog alone, slowly", 0.5, []Lane{Backlog}, [2]float64{0, 50}},
		{"both, fast", 1000, []Lane{Fresh, Backlog}, [2]float64{75000, 25000}},
	} {
		_, got := spend(bucket{Refilled: start}, tc.configured, start, 100*time.Second, tc.lanes...)
		for l := range got {
			if math.Abs(float64(got[l])-tc.want[l]) > 0.02*tc.want[l]+2 {
				t.Errorf("%s: lane %d took %d, want %v", tc.name, l, got[l], tc.want[l])
			}
		}
	}
}

// A bucket that nobody asked for a day holds 400 ms worth for each lane, and a lease holds what is wanted of it and no more, since what is leased and
// not used is lost.
func TestBurst(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := start.Add(24 * time.Hour)
	b := bucket{Refilled: start}.refill(100, now)
	leased := 0
	for _, want := range []int{1, 7, 100} {
		var n int
		if b, n, _ = b.lease(Fresh, want, 100, now); n != min(want, 40-leased) {
			t.Errorf("a lease of %d, %d were wanted", n, want)
		}
		leased += n
	}
	if leased != 40 {
		t.Errorf("leased %d, want all of 40", leased)
	}
	if _, n, wait := b.lease(Fresh, 1, 100, now); n != 0 || wait <= 0 || wait > leaseFor {
		t.Errorf("leased %d of nothing, or asked to wait %v", n, wait)
	}
}

// Too fast: half the rate, at most once a second, nobody before the time that was asked for, and then it climbs by a twentieth a second.
func TestSlowDown(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	const configured = 20
	b := bucket{Refilled: start}
	b = b.refill(configured, at(1)).slow(configured, 4*time.Second, at(1))
	b = b.refill(configured, at(1.5)).slow(configured, 0, at(1.5)) // of a call that left before
	if got := b.rate(configured, at(2)); got != 10 {
		t.Errorf("after one 429, and another of the same second: %v, want 10", got)
	}
	b = b.refill(configured, at(2))
	if _, n, wait := b.lease(Fresh, 1, configured, at(2)); n != 0 || wait != 3*time.Second {
		t.Errorf("while it is held: %d tokens, wait %v", n, wait)
	}
	for _, tc := range []struct{ at, want float64 }{{5, 10}, {6, 11}, {10, 15}, {15, 20}, {1000, 20}} {
		if got := b.rate(configured, at(tc.at)); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%v s: rate %v, want %v", tc.at, got, tc.want)
		}
	}
	_, taken := spend(b, configured, at(5), 10*time.Second, Fresh, Backlog)
	if n := taken[Fresh] + taken[Backlog]; n < 140 || n > 155 { // 10 to 20 a second
		t.Errorf("%d calls in the ten seconds of the climb, want about 150", n)
	}
	for range 20 {
		b = b.slow(configured, 0, *b.HeldUntil)
	}
	if got := b.rate(configured, *b.HeldUntil); got != leastRate {
		t.Errorf("after many: %v", got)
	}
	if low := (bucket{}).slow(0.5, 0, start); low.rate(0.5, *low.HeldUntil) != 0.5 {
		t.Errorf("a rate below the floor was changed: %v", *low.Rate)
	}
}

// A trial begins with one call of each lane and a rate of one a second.
func TestTrialClimbs(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := bucket{Refilled: start.Add(-time.Hour), Tokens: [2]float64{9, 9}}.trial(20, start)
	_, first := spend(b, 20, start, 10*time.Millisecond, Fresh, Backlog)
	_, second := spend(b, 20, start, 2*time.Second, Backlog)
	if first != [2]int{1, 1} || second[Backlog] < 3 || second[Backlog] > 5 {
		t.Errorf("%v at once, %v in two seconds", first, second)
	}
	if got := b.rate(20, start.Add(19*time.Second)); got != 20 {
		t.Errorf("rate after 19 s: %v", got)
	}
}

// A hold that a clock made which was set back since, by less than the longest hold, stops nobody for longer than was asked for.
func TestHoldOfAClockSetBack(t *testing.T) {
	t.Parallel()
	const configured = 10
	later := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := later.Add(-30 * time.Minute)
	held := bucket{Refilled: later}.slow(configured, time.Second, later)
	after, taken := spend(held, configured, now, 10*time.Second, Fresh)
	if taken[Fresh] < 50 { // from half the rate
		t.Errorf("%d calls in ten seconds, at half of 10/s and climbing", taken[Fresh])
	}
	if got := after.rate(configured, now.Add(11*time.Second)); got != configured {
		t.Errorf("rate after 11 s: %v", got)
	}
	if _, taken := spend(held, configured, later, time.Second, Fresh); taken[Fresh] != 0 {
		t.Errorf("%d calls during a hold on a clock that goes on", taken[Fresh])
	}
}

// A clock that was set back, as by a failover, stops nobody.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	later := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := later.Add(-5 * time.Hour)
	held := later.Add(time.Minute)
	_, taken := spend(bucket{Refilled: later, HeldUntil: &held, SlowedAt: &later}, 10, now, 10*time.Second, Fresh)
	if taken[Fresh] < 95 {
		t.Errorf("%d calls in ten seconds at 10/s", taken[Fresh])
	}
	h := Health{Now: now, SucceededAt: later}
	if _, c := h.failed(Down, "no route", true, false); c != Stop {
		t.Error("a success that is yet to come spoke against an outage")
	}
	if away := (Health{Now: now, Outage: Down, TrialAt: later}); !away.TrialDue() {
		t.Error("a trial waits for hours")
	}
}
