package charges

import (
	"testing"
	"time"
)

// Windows that touch are read as one, and each attempt's moment is inside one. Where a clock was set, the window goes on until now.
func TestWindows(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	minute := func(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }
	at := func(m int) Attempt { return Attempt{StripeSentAt: minute(m), SentAt: minute(m)} }
	lost := func(from, detected, stripe int) Restoration {
		r := Restoration{LostFrom: minute(from), DetectedAt: minute(detected)}
		if stripe >= 0 {
			r.LostFromStripe = minute(stripe)
		}
		return r
	}
	for _, tc := range []struct {
		name             string
		open             []Attempt
		restored         []Restoration
		stripe, database int // now
		want             [][2]int
	}{
		{"one", []Attempt{at(0)}, nil, 1500, 1500, [][2]int{{-5, 10}}},
		{"nothing open: since nothing was heard", nil, nil, 3000, 1500, [][2]int{{1495, 3010}}},
		{"some touch", []Attempt{at(600), at(0), at(15), at(14)}, nil, 1500, 1500, [][2]int{{-5, 25}, {595, 610}}},
		{"clocks that differ a little", []Attempt{at(0)}, nil, 1502, 1500, [][2]int{{-5, 10}}},
		{"Stripe's clock was set forward", []Attempt{at(0), at(3)}, nil, 1503, 3, [][2]int{{-5, 1513}}},
		{"PostgreSQL's clock was set forward", []Attempt{at(0)}, nil, 30, 1500, [][2]int{{-5, 40}}},
		{"Stripe's clock was set back", []Attempt{at(0)}, nil, -60, 3, [][2]int{{-65, 10}}},
		{"what a restoration may have lost", nil, []Restoration{lost(60, 90, 60)}, 1500, 1500, [][2]int{{55, 100}}},
		{"and another one", nil, []Restoration{lost(60, 90, 60), lost(600, 610, 600)}, 1500, 1500, [][2]int{{55, 100}, {595, 620}}},
		{"lost, and no attempt tells Stripe's time: the present difference of the clocks", nil, []Restoration{lost(60, 90, -1)}, 3000, 1500, [][2]int{{1555, 1600}}},
		{"lost, and Stripe's clock was set forward since", nil, []Restoration{lost(60, 90, 60)}, 3000, 1500, [][2]int{{55, 3010}}},
		{"lost, and PostgreSQL's clock was set forward since", nil, []Restoration{lost(60, 90, 60)}, 1500, 3000, [][2]int{{-1445, 1510}}},
	} {
		now := Clocks{Stripe: minute(tc.stripe), Database: minute(tc.database)}
		got := Permit{Open: tc.open, Since: start, Restored: tc.restored}.Windows(now)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %+v, want %v", tc.name, got, tc.want)
			continue
		}
		for i, w := range tc.want {
			if !got[i].From.Equal(minute(w[0])) || !got[i].To.Equal(minute(w[1])) {
				t.Errorf("%s: %+v, want %v", tc.name, got[i], w)
			}
		}
	}
}
