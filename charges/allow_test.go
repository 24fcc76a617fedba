package charges

import (
	"testing"
	"time"
)

// TestAllow has a row for each cell of what attempts allow (I2).
func TestAllow(t *testing.T) {
	t.Parallel()
	var (
		start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		home  = Account{ID: "acct_home"}
		live  = Account{ID: "acct_home", Livemode: true}
		other = Account{ID: "acct_other"}
	)
	// at makes an attempt sent so long after start, by both clocks, that ended a second later unless unseen.
	at := func(after time.Duration, o Outcome, change ...func(*Attempt)) Attempt {
		a := Attempt{Account: home, ProviderKey: "k1", Request: "amount=1", SentAt: start.Add(after), StripeSentAt: start.Add(after), Outcome: o}
		if o != Unseen {
			a.EndedAt = a.SentAt.Add(time.Second)
		}
		for _, c := range change {
			c(&a)
		}
		return a
	}
	in := func(acct Account) func(*Attempt) { return func(a *Attempt) { a.Account = acct } }
	key := func(k string) func(*Attempt) { return func(a *Attempt) { a.ProviderKey = k } }
	code := func(c string) func(*Attempt) { return func(a *Attempt) { a.Code = c } }
	look := func(after time.Duration, complete bool) Look { return Look{At: start.Add(after), Complete: complete} }
	restored := func(id int64, detected time.Duration) Restoration {
		return Restoration{ID: id, LostFrom: start.Add(detected - time.Hour), DetectedAt: start.Add(detected)}
	}
	lost := func(after time.Duration, id int64, complete bool) Look {
		return Look{At: start.Add(after + time.Minute), Begun: start.Add(after), Complete: complete, Restoration: id}
	}
	const day = 24 * time.Hour
	rekey := DefaultPolicy
	rekey.Rekey = true
	hasty := Policy{Window: DefaultPolicy.Window, LookDelays: []time.Duration{0}}

	for _, tc := range []struct {
		name     string
		attempts []Attempt
		looks    []Look
		restored []Restoration
		database time.Duration // both clocks, since start
		stripe   time.Duration // Stripe's, if it differs
		stale    bool          // Stripe's clock was not just read
		policy   *Policy
		want     Action
		check    func(Permit) bool
	}{
		{name: "no attempt: send", database: 22 * time.Hour, want: Send,
			check: func(p Permit) bool { return p.Key == "" && p.Request == "" && !p.NewKey }},
		{name: "no attempt of a charge that Stripe would have forgotten: the database may be older than what was sent", database: 23 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return p.Since.Equal(start) && p.Final && len(p.Open) == 0 }},
		{name: "no attempt, old, Stripe's clock not read", database: 23 * time.Hour, stale: true, want: ReadClock},
		{name: "no attempt, old, just looked: send at any age", looks: []Look{look(400*time.Hour, true)}, database: 400*time.Hour + time.Second, want: Send,
			check: func(p Permit) bool { return p.Key == "" && p.Request == "" }},
		{name: "a payment was found and not adopted: a person", looks: []Look{{At: start, Complete: true, Found: []string{"pi_1"}}}, database: time.Minute, want: Park},
		{name: "no attempt, old, the look was cut short", looks: []Look{look(400*time.Hour, false)}, database: 400*time.Hour + time.Second, want: LookFirst},
		{name: "answered: use it", attempts: []Attempt{at(0, Answered)}, want: UseResult},
		{name: "answered after an open one: use it", attempts: []Attempt{at(0, Unknown), at(time.Minute, Answered)}, database: 40 * time.Hour, want: UseResult,
			check: func(p Permit) bool { return p.Last.Outcome == Answered }},
		{name: "unseen and young: somebody may be in that call", attempts: []Attempt{at(0, Unseen)}, database: 59 * time.Second, want: WaitFor,
			check: func(p Permit) bool { return p.Until.Equal(start.Add(60 * time.Second)) }},
		{name: "unseen and young by PostgreSQL although Stripe's clock jumped: still wait", attempts: []Attempt{at(0, Unseen)}, database: 10 * time.Second, stripe: 25 * time.Hour, want: WaitFor},
		{name: "an unseen young one behind an old open one: wait", attempts: []Attempt{at(0, Unknown), at(30*time.Hour, Unseen)}, database: 30*time.Hour + time.Second, want: WaitFor},
		{name: "unseen and old enough: the same again", attempts: []Attempt{at(0, Unseen)}, database: 60 * time.Second, want: Send,
			check: func(p Permit) bool { return p.Key == "k1" && p.Request == "amount=1" && !p.NewKey }},
		{name: "open and Stripe's clock not read: read it", attempts: []Attempt{at(0, Unknown)}, database: time.Hour, stale: true, want: ReadClock},
		{name: "nothing open needs no clock", attempts: []Attempt{at(0, NotSent)}, database: time.Hour, stale: true, want: Send},
		{name: "unknown: the same again at once", attempts: []Attempt{at(0, Unknown)}, database: 2 * time.Second, want: Send,
			check: func(p Permit) bool { return p.Key == "k1" && p.Request == "amount=1" && len(p.Open) == 1 }},
		{name: "just inside the window", attempts: []Attempt{at(0, Unknown)}, database: 23*time.Hour - time.Second, want: Send},
		{name: "at the window: look first", attempts: []Attempt{at(0, Unknown)}, database: 23 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return p.Final && len(p.Open) == 1 }},
		{name: "past the window by Stripe's clock alone", attempts: []Attempt{at(0, Unknown)}, database: time.Minute, stripe: 25 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return p.Final }},
		{name: "past the window by PostgreSQL's clock alone", attempts: []Attempt{at(0, Unknown)}, database: 25 * time.Hour, stripe: time.Minute, want: LookFirst},
		{name: "the first open attempt's age counts, not the last's", attempts: []Attempt{at(0, Unknown), at(22*time.Hour, Unknown)}, database: 23 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return len(p.Open) == 2 }},
		{name: "past the window, the last too young for an empty list to prove anything: wait", attempts: []Attempt{at(0, Unknown), at(23*time.Hour-time.Minute, Unknown)}, database: 23 * time.Hour, want: WaitFor,
			check: func(p Permit) bool { return p.Until.Equal(start.Add(23*time.Hour + 14*time.Minute)) }},
		{name: "a closed attempt's age does not count", attempts: []Attempt{at(0, NotSent), at(30*time.Hour, Unknown)}, database: 31 * time.Hour, want: Send},
		{name: "all closed: send under the same key", attempts: []Attempt{at(0, NotSent), at(24*time.Hour, Refused)}, database: 25 * time.Hour, want: Send,
			check: func(p Permit) bool { return p.Key == "k1" && p.Request == "amount=1" }},
		{name: "all closed, and nothing heard for longer than Stripe remembers: look", attempts: []Attempt{at(0, NotSent), at(time.Hour, Refused)}, database: 50 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return p.Since.Equal(start.Add(time.Hour)) && p.Final }},
		{name: "absent after a look: send", attempts: []Attempt{at(0, Absent)}, looks: []Look{look(25*time.Hour, true)}, database: 25*time.Hour + time.Second, want: Send},
		{name: "another account: neither send nor look", attempts: []Attempt{at(0, Unknown, in(other))}, database: time.Hour, want: Misconfigured},
		{name: "another account, past the window", attempts: []Attempt{at(0, Unknown, in(other))}, database: 30 * time.Hour, want: Misconfigured},
		{name: "the other mode", attempts: []Attempt{at(0, Unknown, in(live))}, database: time.Hour, want: Misconfigured},
		{name: "another account, where nothing was written: send here", attempts: []Attempt{at(0, NotSent, in(other))}, database: time.Hour, want: Send},
		{name: "idempotency error: a person", attempts: []Attempt{at(0, Refused, code("idempotency_error"))}, database: time.Hour, want: Park,
			check: func(p Permit) bool { return p.Reason == "idempotency_error" }},
		{name: "invalid with nothing open: final", attempts: []Attempt{at(0, Absent), at(time.Minute, Invalid)}, database: 2 * time.Minute, want: UseResult,
			check: func(p Permit) bool { return p.Last.Outcome == Invalid }},
		{name: "invalid behind an open one: look at once, not final", attempts: []Attempt{at(0, Unknown), at(time.Minute, Invalid)}, database: time.Minute + time.Second, want: LookFirst,
			check: func(p Permit) bool { return !p.Final && len(p.Open) == 1 }},
		{name: "invalid behind an open one: the next look has its time", attempts: []Attempt{at(0, Unknown), at(time.Minute, Invalid)}, looks: []Look{look(62*time.Second, true)}, database: 90 * time.Second, want: WaitFor,
			check: func(p Permit) bool { return p.Until.Equal(start.Add(121 * time.Second)) }},
		{name: "invalid behind an open one: the last look is final", attempts: []Attempt{at(0, Unknown), at(0, Invalid)},
			looks: []Look{look(time.Second, true), look(2*time.Minute, true), look(6*time.Minute, true), look(16*time.Minute, true)}, database: 61 * time.Minute, want: LookFirst,
			check: func(p Permit) bool { return p.Final }},
		{name: "invalid behind an open one: a young one is not believed absent, whatever the delays", attempts: []Attempt{at(0, Unknown), at(0, Invalid)}, database: time.Minute, policy: &hasty, want: LookFirst,
			check: func(p Permit) bool { return !p.Final }},
		{name: "invalid behind an open one: nor after that look", attempts: []Attempt{at(0, Unknown), at(0, Invalid)}, looks: []Look{look(time.Minute, true)}, database: 2 * time.Minute, policy: &hasty, want: WaitFor,
			check: func(p Permit) bool { return p.Until.Equal(start.Add(15 * time.Minute)) }},
		{name: "invalid behind an open one: until it is old enough", attempts: []Attempt{at(0, Unknown), at(0, Invalid)}, looks: []Look{look(time.Minute, true)}, database: 15 * time.Minute, policy: &hasty, want: LookFirst,
			check: func(p Permit) bool { return p.Final }},
		{name: "stored failure: look at once", attempts: []Attempt{at(0, StoredFailure)}, database: 2 * time.Second, want: LookFirst,
			check: func(p Permit) bool { return !p.Final }},
		{name: "stored failure: a look that was cut short does not count", attempts: []Attempt{at(0, StoredFailure)}, looks: []Look{look(time.Second, false)}, database: 2 * time.Second, want: LookFirst},
		{name: "stored failure: looks before it do not count", attempts: []Attempt{at(0, Unknown), at(time.Hour, StoredFailure)}, looks: []Look{look(time.Minute, true)}, database: time.Hour + 2*time.Second, want: LookFirst},
		{name: "stored failure: between looks", attempts: []Attempt{at(0, StoredFailure)}, looks: []Look{look(time.Second, true)}, database: 10 * time.Second, want: WaitFor},
		{name: "stored failure: all looks done: a person", attempts: []Attempt{at(0, StoredFailure)}, looks: allLooks(start), database: 62 * time.Minute, want: Park,
			check: func(p Permit) bool { return p.Reason == "stored_failure" }},
		{name: "stored failure: a new key right after the last look", attempts: []Attempt{at(0, StoredFailure)}, looks: allLooks(start), database: 61*time.Minute + 30*time.Second, policy: &rekey, want: Send,
			check: func(p Permit) bool { return p.NewKey && p.Request == "amount=1" && len(p.Open) == 1 }},
		{name: "stored failure: a new key only right after a look", attempts: []Attempt{at(0, StoredFailure)}, looks: allLooks(start), database: 2 * time.Hour, policy: &rekey, want: LookFirst},
		{name: "stored failure, the worker away past the window: one look, which proves nothing", attempts: []Attempt{at(0, StoredFailure)}, database: 40 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return !p.Final }},
		{name: "stored failure, looked at past the window: still a person", attempts: []Attempt{at(0, StoredFailure)}, looks: []Look{look(40*time.Hour, true)}, database: 40*time.Hour + time.Second, want: Park},
		{name: "new key in doubt: look before it goes again", attempts: []Attempt{at(0, StoredFailure), at(62*time.Minute, Unknown, key("k2"))}, looks: allLooks(start), database: 63 * time.Minute, policy: &rekey, want: LookFirst,
			check: func(p Permit) bool { return !p.Final && len(p.Open) == 2 }},
		{name: "new key not sent for hours: look before it goes again", attempts: []Attempt{at(0, StoredFailure), at(62*time.Minute, NotSent, key("k2"))}, looks: allLooks(start), database: 7 * time.Hour, policy: &rekey, want: LookFirst},
		{name: "new key in doubt, just looked: the same new key again", attempts: []Attempt{at(0, StoredFailure), at(62*time.Minute, Unknown, key("k2"))}, looks: append(allLooks(start), look(63*time.Minute, true)), database: 63*time.Minute + time.Second, policy: &rekey, want: Send,
			check: func(p Permit) bool { return p.Key == "k2" && !p.NewKey }},
		{name: "new key refused, days later: the old key's age still counts", attempts: []Attempt{at(0, StoredFailure), at(62*time.Minute, Refused, key("k2"))}, looks: allLooks(start), database: 72 * time.Hour, policy: &rekey, want: LookFirst,
			check: func(p Permit) bool { return p.Final && len(p.Open) == 1 }},
		{name: "no attempt, looked within the window, an older look would not do: Stripe remembers what was sent since", looks: []Look{look(20*time.Hour, true)}, database: 42 * time.Hour, want: Send},
		{name: "no attempt, looked a window ago: look", looks: []Look{look(20*time.Hour, true)}, database: 43 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return p.Since.Equal(start) }},
		{name: "a look is as old as its beginning", looks: []Look{{At: start.Add(30 * time.Hour), Begun: start.Add(20 * time.Hour), Complete: true}}, database: 43 * time.Hour, want: LookFirst},
		{name: "stored failure: the last look began too early for the last delay", attempts: []Attempt{at(0, StoredFailure)}, looks: []Look{{At: start.Add(62 * time.Minute), Begun: start.Add(50 * time.Minute), Complete: true}},
			database: 62 * time.Minute, want: LookFirst},
		{name: "stored failure: looks for a new key must be recent", attempts: []Attempt{at(0, StoredFailure)}, looks: allLooks(start), database: 2 * time.Hour, policy: &rekey, want: LookFirst,
			check: func(p Permit) bool { return p.NotBefore.Equal(start.Add(2*time.Hour - time.Minute)) }},

		{name: "restored, no attempt: look at what may be lost", restored: []Restoration{restored(1, time.Minute)}, database: 2 * time.Minute, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 1 && p.Final && len(p.Open) == 0 && p.Since.IsZero() }},
		{name: "restored before the charge was accepted: its key may have been used", restored: []Restoration{restored(1, -29*day)}, database: time.Second, want: LookFirst},
		{name: "restored a month ago: callers have long given up", restored: []Restoration{restored(1, -30*day)}, database: time.Second, want: Send},
		{name: "restored, all attempts closed: look", attempts: []Attempt{at(0, NotSent)}, restored: []Restoration{restored(1, time.Minute)}, database: 2 * time.Minute, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 1 }},
		{name: "restored, an open attempt: the same again, which Stripe remembers", attempts: []Attempt{at(0, Unknown)}, restored: []Restoration{restored(1, time.Minute)}, database: 2 * time.Minute, want: Send},
		{name: "restored, an open attempt past the window: around it first", attempts: []Attempt{at(0, Unknown)}, restored: []Restoration{restored(1, time.Minute)}, database: 25 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return len(p.Open) == 1 && len(p.Restored) == 0 }},
		{name: "restored, found absent around the attempt: a later one may be lost", attempts: []Attempt{at(0, Absent)}, looks: []Look{look(25*time.Hour, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 25*time.Hour + time.Minute, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 1 }},
		{name: "restored, a new key is due: it may have been used", attempts: []Attempt{at(0, StoredFailure)}, looks: allLooks(start), restored: []Restoration{restored(1, 61*time.Minute)}, database: 61*time.Minute + 30*time.Second, policy: &rekey, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 1 }},
		{name: "restored and looked: send", looks: []Look{lost(2*time.Minute, 1, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 3 * time.Minute, want: Send},
		{name: "restored, the look was cut short", looks: []Look{lost(2*time.Minute, 1, false)}, restored: []Restoration{restored(1, time.Minute)}, database: 3 * time.Minute, want: LookFirst},
		{name: "restored, a look around attempts does not count", looks: []Look{look(2*time.Minute, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 3 * time.Minute, want: LookFirst},
		{name: "restored, looked, and restored again: look at what that may have lost", looks: []Look{lost(2*time.Minute, 1, true)}, restored: []Restoration{restored(1, time.Minute), restored(2, time.Hour)}, database: time.Hour, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 1 && p.Restored[0].ID == 2 }},
		{name: "restored twice: one look for both", restored: []Restoration{restored(1, time.Minute), restored(2, time.Hour)}, database: time.Hour, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 2 && p.NewestRestoration() == 2 }},
		{name: "restored, looked at once: good while Stripe remembers", attempts: []Attempt{at(21*time.Hour, NotSent)}, looks: []Look{lost(2*time.Minute, 1, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 22*time.Hour + 46*time.Minute, want: Send},
		{name: "restored, looked at once: not for ever, the last sends may not have been listed", attempts: []Attempt{at(21*time.Hour, NotSent)}, looks: []Look{lost(2*time.Minute, 1, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 22*time.Hour + 47*time.Minute, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 1 }},
		{name: "restored, looked when all was listed: for ever", attempts: []Attempt{at(21*time.Hour, NotSent)}, looks: []Look{lost(16*time.Minute, 1, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 40 * time.Hour, want: Send},
		{name: "restored, looked, quiet for longer than Stripe remembers: that look is not about it", looks: []Look{lost(22*time.Hour, 1, true)}, restored: []Restoration{restored(1, time.Minute)}, database: 30 * time.Hour, want: LookFirst,
			check: func(p Permit) bool { return len(p.Restored) == 0 && p.Since.Equal(start) }},
		{name: "restored just now by somebody else's clock", restored: []Restoration{restored(1, time.Minute)}, database: 59 * time.Second, want: WaitFor,
			check: func(p Permit) bool { return p.Until.Equal(start.Add(time.Minute)) }},
		{name: "restored, a window too short for an early look", restored: []Restoration{restored(1, time.Minute)}, database: 2 * time.Minute, policy: &Policy{Window: 10 * time.Minute, LookDelays: []time.Duration{0}}, want: WaitFor,
			check: func(p Permit) bool { return p.Until.Equal(start.Add(16 * time.Minute)) }},
		{name: "restored, but its payment is known", attempts: []Attempt{at(0, Answered)}, restored: []Restoration{restored(1, time.Minute)}, database: 2 * time.Minute, want: UseResult},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now := Clocks{Database: start.Add(tc.database), Stripe: start.Add(tc.database), Fresh: !tc.stale}
			if tc.stripe != 0 {
				now.Stripe = start.Add(tc.stripe)
			}
			policy := DefaultPolicy
			if tc.policy != nil {
				policy = *tc.policy
			}
			got := Allow(History{start, tc.attempts, tc.looks, tc.restored}, now, home, policy)
			if got.Action != tc.want {
				t.Fatalf("action %q, want %q (%+v)", got.Action, tc.want, got)
			}
			if tc.check != nil && !tc.check(got) {
				t.Errorf("unexpected permit: %+v", got)
			}
		})
	}
}

func allLooks(start time.Time) []Look {
	var looks []Look
	for _, d := range DefaultPolicy.LookDelays {
		looks = append(looks, Look{At: start.Add(time.Minute + d), Complete: true})
	}
	return looks
}
