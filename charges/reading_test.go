package charges

import (
	"testing"
	"time"
)

// TestReadingServes has a row for each reason for which a reading is, or is not, an answer for a charge that never saw it begin (I2).
func TestReadingServes(t *testing.T) {
	t.Parallel()
	var (
		start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		home  = Account{ID: "acct_home"}
	)
	clocks := func(after time.Duration) Clocks { return Clocks{start.Add(after), start.Add(after), true} }
	at := func(after time.Duration, o Outcome) Attempt {
		return Attempt{Account: home, ProviderKey: "k1", SentAt: start.Add(after), StripeSentAt: start.Add(after), EndedAt: start.Add(after), Outcome: o}
	}
	// reading is of the hour around start, and began so long after it.
	reading := func(begun time.Duration, change ...func(*Reading)) Reading {
		r := Reading{ID: 7, Account: home, From: start.Add(-30 * time.Minute), To: start.Add(30 * time.Minute), Begun: clocks(begun)}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	until := func(to time.Duration) func(*Reading) { return func(r *Reading) { r.To = start.Add(to) } }
	lost := []Attempt{at(0, Unknown)}
	stored := []Attempt{at(0, StoredFailure)}
	looks := allLooks(start)
	restored := []Restoration{{ID: 1, LostFrom: start, DetectedAt: start.Add(10 * time.Minute)}}
	// ahead, added to a time, says that Stripe's clock was set forward by 25 h.
	const ahead = 10000 * time.Hour
	rekey := DefaultPolicy
	rekey.Rekey = true

	for _, tc := range []struct {
		name    string
		history History
		now     time.Duration
		policy  *Policy
		reading Reading
		want    bool
	}{
		{"begun when the attempt was past the window", History{Attempts: lost}, 24 * time.Hour, nil, reading(23 * time.Hour), true},
		{"begun since, by another charge's clocks", History{Attempts: lost}, 24 * time.Hour, nil, reading(24*time.Hour + time.Second), true},
		{"begun just before that: the key was still good, and nobody was to look", History{Attempts: lost}, 24 * time.Hour, nil, reading(23*time.Hour - time.Second), false},
		{"begun when the last attempt was too young to be listed for sure", History{Attempts: []Attempt{at(0, Unknown), at(22*time.Hour+55*time.Minute, Unknown)}}, 24 * time.Hour, nil, reading(23*time.Hour+9*time.Minute, until(30*time.Hour)), false},
		{"another account", History{Attempts: lost}, 24 * time.Hour, nil, reading(23*time.Hour, func(r *Reading) { r.Account.ID = "acct_other" }), false},
		{"the other mode", History{Attempts: lost}, 24 * time.Hour, nil, reading(23*time.Hour, func(r *Reading) { r.Account.Livemode = true }), false},
		{"its stretch begins late", History{Attempts: lost}, 24 * time.Hour, nil, reading(23*time.Hour, func(r *Reading) { r.From = start.Add(-4 * time.Minute) }), false},
		{"its stretch ends early", History{Attempts: lost}, 24 * time.Hour, nil, reading(23*time.Hour, until(9*time.Minute)), false},
		{"half a day old", History{Attempts: lost}, 36 * time.Hour, nil, reading(23 * time.Hour), false},
		{"Stripe's clock was set forward before it began: the payment may be anywhere until then", History{Attempts: lost}, ahead + time.Hour, nil,
			reading(30*time.Minute, func(r *Reading) { r.Begun.Stripe = start.Add(25 * time.Hour) }), false},
		{"the same, and the stretch goes on until then", History{Attempts: lost}, ahead + time.Hour, nil,
			reading(30*time.Minute, until(26*time.Hour), func(r *Reading) { r.Begun.Stripe = start.Add(25 * time.Hour) }), true},
		{"PostgreSQL's clock was set back since: it began before the attempt", History{Attempts: lost}, 24 * time.Hour, nil,
			reading(23*time.Hour, func(r *Reading) { r.Begun.Stripe = start.Add(-time.Hour) }), false},
		{"a closed attempt was sent since", History{Attempts: []Attempt{at(0, Unknown), at(23*time.Hour+30*time.Minute, Refused)}}, 24 * time.Hour, nil, reading(23 * time.Hour), false},

		{"stored failure: begun when the look was due", History{Attempts: stored}, 30 * time.Second, nil, reading(20 * time.Second), true},
		{"stored failure: begun after the look before, and not when the next was due", History{Attempts: stored, Looks: looks[:2]}, 6 * time.Minute, nil, reading(4 * time.Minute), false},
		{"stored failure: begun when the next was due", History{Attempts: stored, Looks: looks[:2]}, 6 * time.Minute, nil, reading(5*time.Minute + time.Second), true},
		{"stored failure: for a new key, begun a minute ago", History{Attempts: stored, Looks: looks}, 2 * time.Hour, &rekey, reading(119 * time.Minute), true},
		{"stored failure: for a new key, begun earlier", History{Attempts: stored, Looks: looks}, 2 * time.Hour, &rekey, reading(118 * time.Minute), false},
		{"stored failure: for a new key, begun earlier by its own look, which was cut short",
			History{Attempts: stored, Looks: append(looks, Look{At: start.Add(118 * time.Minute), Readings: []int64{7}})}, 2 * time.Hour, &rekey, reading(118 * time.Minute), true},

		{"never sent: begun when it had been quiet for long", History{Accepted: start}, 24 * time.Hour, nil, reading(23*time.Hour, until(24*time.Hour)), true},
		{"never sent: its stretch ends before the beginning", History{Accepted: start}, 24 * time.Hour, nil, reading(23*time.Hour, until(23*time.Hour)), false},
		{"never sent: begun too early", History{Accepted: start}, 24 * time.Hour, nil, reading(22*time.Hour, until(24*time.Hour)), false},

		{"restored: begun since", History{Accepted: start, Restorations: restored}, time.Hour, nil, reading(10 * time.Minute), true},
		{"restored: begun before", History{Accepted: start, Restorations: restored}, time.Hour, nil, reading(9 * time.Minute), false},
		{"restored: an early reading is good for a day", History{Accepted: start.Add(20 * time.Hour), Restorations: restored}, 22 * time.Hour, nil, reading(10 * time.Minute), true},
		{"restored: and not longer", History{Accepted: start.Add(20 * time.Hour), Restorations: restored}, 23 * time.Hour, nil, reading(10 * time.Minute), false},
		{"restored: a later reading is good for as long as it matters", History{Accepted: start.Add(600 * time.Hour), Restorations: restored}, 601 * time.Hour, nil, reading(25 * time.Minute), true},
		{"restored: its stretch ends early", History{Accepted: start, Restorations: restored}, time.Hour, nil, reading(10*time.Minute, until(19*time.Minute)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			policy := DefaultPolicy
			if tc.policy != nil {
				policy = *tc.policy
			}
			now := clocks(tc.now)
			if tc.now >= ahead {
				now.Database = now.Database.Add(-ahead)
				now.Stripe = now.Stripe.Add(25*time.Hour - ahead)
			}
			q := lookup{history: tc.history, now: now, here: home, policy: policy}
			q.permit = Allow(q.history, q.now, home, policy)
			if q.permit.Action != LookFirst || len(q.windows()) == 0 {
				t.Fatalf("the charge asks for %+v", q.permit)
			}
			if got := q.servedBy(tc.reading, 0); got != tc.want {
				t.Errorf("serves: %t, want %t", got, tc.want)
			}
			// What a charge cannot use it would begin again and again.
			w := q.windows()[0].stretch()
			if fresh := (Reading{ID: 8, Account: home, From: w.From, To: w.To, Begun: q.now}); !q.servedBy(fresh, 0) {
				t.Error("a reading begun now would not serve")
			}
		})
	}
}

// Stretches are rounded outwards, so that charges of one time have the same.
// I2: PostgreSQL's clock was set back by an hour after the reading began, so that the attempt, sent half a minute later, looks older.
func TestReadingBeganBeforeTheAttempt(t *testing.T) {
	t.Parallel()
	zero := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	here := Account{ID: "acct_home"}
	r := Reading{ID: 1, Account: here, From: zero.Add(-24 * time.Hour), To: zero.Add(24 * time.Hour), Begun: Clocks{Database: zero, Stripe: zero, Fresh: true}, Complete: true}
	lost := Attempt{Number: 1, ProviderKey: "k", Account: here, SentAt: zero.Add(-62*time.Minute + 30*time.Second), StripeSentAt: zero.Add(30 * time.Second), EndedAt: zero.Add(-62*time.Minute + 31*time.Second), Outcome: Unknown}
	invalid := Attempt{Number: 2, ProviderKey: "k", Account: here, SentAt: lost.SentAt.Add(5 * time.Second), StripeSentAt: lost.StripeSentAt.Add(5 * time.Second),
		EndedAt: lost.SentAt.Add(6 * time.Second), Outcome: Invalid}
	h := History{Accepted: lost.SentAt, Attempts: []Attempt{lost, invalid}}
	now := Clocks{Database: zero.Add(5 * time.Minute), Stripe: zero.Add(67 * time.Minute), Fresh: true}
	permit := Allow(h, now, here, DefaultPolicy)
	if permit.Action != LookFirst {
		t.Fatalf("%+v", permit)
	}
	if (lookup{h, permit, now, here, DefaultPolicy}).servedBy(r, 0) {
		t.Error("a reading that began before the attempt serves it")
	}
}

func TestStretch(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct{ from, to, wantFrom, wantTo time.Duration }{
		{time.Second, 2 * time.Second, 0, grain},
		{0, grain, 0, grain},
		{-time.Second, grain + time.Second, -grain, 2 * grain},
	} {
		got := Window{From: noon.Add(tc.from), To: noon.Add(tc.to)}.stretch()
		if !got.From.Equal(noon.Add(tc.wantFrom)) || !got.To.Equal(noon.Add(tc.wantTo)) {
			t.Errorf("%v to %v: %+v", tc.from, tc.to, got)
		}
	}
}

// A look that needs two stretches is answered by two readings, the better one of each, and not by one twice.
func TestBestReadings(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) Attempt {
		return Attempt{SentAt: start.Add(after), StripeSentAt: start.Add(after), EndedAt: start.Add(after), Outcome: Unknown}
	}
	now := Clocks{start.Add(30 * time.Hour), start.Add(30 * time.Hour), true}
	q := lookup{history: History{Attempts: []Attempt{at(0), at(5 * time.Hour)}}, now: now, policy: DefaultPolicy}
	q.permit = Allow(q.history, now, Account{}, DefaultPolicy)
	around := func(id int64, after time.Duration, change ...func(*Reading)) Reading {
		r := Reading{ID: id, From: start.Add(after - time.Hour), To: start.Add(after + time.Hour), Begun: now}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	done := func(r *Reading) { r.Complete = true }
	held := func(r *Reading) { r.Held = true }
	seen := func(r *Reading) { r.Seen = 100 }
	first := q.served([]Reading{around(1, 0), around(2, 0, seen)})
	if first[0].ID != 2 || first[1].ID != 0 || complete(first) {
		t.Errorf("%+v", first)
	}
	second := q.served([]Reading{around(2, 0, seen), around(3, 0, held), around(4, 5*time.Hour, done)})
	if second[0].ID != 3 || second[1].ID != 4 || complete(second) {
		t.Errorf("%+v", second)
	}
	third := q.served([]Reading{around(3, 0, held), around(5, 0, done), around(4, 5*time.Hour, done)})
	if third[0].ID != 5 || third[1].ID != 4 || !complete(third) {
		t.Errorf("%+v", third)
	}
}

// A look of its own list that was cut short is gone on with only if its first pages are as good as what is wanted now.
func TestCutShort(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := Clocks{start.Add(24 * time.Hour), start.Add(24 * time.Hour), true}
	attempt := func(after time.Duration) Attempt {
		return Attempt{SentAt: start.Add(after), StripeSentAt: start.Add(after), Outcome: Unknown}
	}
	look := func(begun time.Duration, change ...func(*Look)) Look {
		l := Look{ID: 3, At: now.Database, Begun: start.Add(begun), Seen: 100, Rest: []Window{{After: "pi_1"}}}
		for _, c := range change {
			c(&l)
		}
		return l
	}
	for _, tc := range []struct {
		name     string
		attempts []Attempt
		look     Look
		permit   Permit
		seen     int // 0: begun anew
		row      int64
	}{
		{"gone on with", []Attempt{attempt(0)}, look(23 * time.Hour), Permit{Final: true}, 100, 3},
		{"complete", []Attempt{attempt(0)}, look(23*time.Hour, func(l *Look) { l.Complete = true }), Permit{Final: true}, 0, 0},
		{"about a restoration", []Attempt{attempt(0)}, look(23*time.Hour, func(l *Look) { l.Restoration = 1 }), Permit{Final: true}, 0, 0},
		{"sent since", []Attempt{attempt(0), attempt(23*time.Hour + time.Minute)}, look(23 * time.Hour), Permit{Final: true}, 0, 0},
		{"begun when nothing was proven yet", []Attempt{attempt(0)}, look(14 * time.Minute), Permit{Final: true}, 0, 3},
		{"the same, where nothing is to be proven", []Attempt{attempt(0)}, look(14 * time.Minute), Permit{}, 100, 3},
		{"shared, so that there is no rest of its own", []Attempt{attempt(0)}, look(23*time.Hour, func(l *Look) { l.Rest = nil }), Permit{Final: true}, 0, 3},
	} {
		tc.permit.Open = tc.attempts
		got := cutShort(lookup{history: History{Attempts: tc.attempts, Looks: []Look{tc.look}}, permit: tc.permit, now: now})
		if got.Seen != tc.seen || got.ID != tc.row {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}
