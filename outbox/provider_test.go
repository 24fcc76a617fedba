package outbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/outbox"
)

// paused are the queues that River will not fetch from.
func (f fixture) paused(t *testing.T) (names string) {
	t.Helper()
	err := f.pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM river_queue WHERE paused_at IS NOT NULL`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (f fixture) wantPaused(t *testing.T, when, want string) {
	t.Helper()
	if got := f.paused(t); got != want {
		t.Errorf("%s: %q are paused, want %q", when, got, want)
	}
}

func (f fixture) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := f.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (f fixture) failed(t *testing.T, enough, onTrial bool) (outbox.Health, outbox.Change) {
	t.Helper()
	h, c, err := f.ProviderFailed(t.Context(), outbox.Stripe, outbox.Down, "no route", enough, onTrial)
	if err != nil {
		t.Fatal(err)
	}
	return h, c
}

func (f fixture) trialDue(t *testing.T) {
	t.Helper()
	f.exec(t, `UPDATE provider SET trial_at = now() WHERE outage IS NOT NULL`)
}

func (f fixture) try(t *testing.T) (outbox.Health, outbox.Change) {
	t.Helper()
	h, c, err := f.StartTrial(t.Context(), outbox.Stripe)
	if err != nil {
		t.Fatal(err)
	}
	return h, c
}

func (f fixture) lease(t *testing.T, lane outbox.Lane) outbox.Lease {
	t.Helper()
	l, err := f.Lease(t.Context(), outbox.Stripe, lane, 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// I6: an outage pauses the provider's queues, also those that no worker has started yet, and a trial runs them; one that fails pauses them
// again and waits longer; a success ends it.
func TestOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, 3)
	if _, c := f.failed(t, false, false); c != outbox.Unchanged || f.paused(t) != "" {
		t.Fatalf("one failure: %q", c)
	}
	h, c := f.failed(t, true, false)
	if c != outbox.Stop || h.Outage != outbox.Down || h.Reason != "no route" || !h.TrialAt.Equal(h.Now.Add(5*time.Second)) {
		t.Fatalf("%q %+v", c, h)
	}
	f.wantPaused(t, "outage", "backlog charges")
	if l := f.lease(t, outbox.Fresh); !l.Stopped() || l.Tokens != 0 {
		t.Errorf("a lease in the outage: %+v", l)
	}
	if _, c := f.try(t); c != outbox.Unchanged {
		t.Errorf("a trial before its time: %q", c)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE queue = 'charges' AND state = 'available'`); n != 3 {
		t.Errorf("%d of 3 jobs were left alone", n)
	}

	since := h.Since
	for _, wait := range []time.Duration{10, 20, 40, 60, 60} {
		f.trialDue(t)
		h, c := f.try(t)
		if c != outbox.Try || !h.Trial() || h.Stopped() || !h.Since.Equal(since) {
			t.Fatalf("%q %+v", c, h)
		}
		f.wantPaused(t, "trial", "")
		if _, c := f.failed(t, true, false); c != outbox.Unchanged {
			t.Fatal("a failure that the trial did not cause ended it")
		}
		h, c = f.failed(t, false, true)
		if c != outbox.Stop || h.TrialAt.Sub(h.Now) != wait*time.Second || !h.Since.Equal(since) {
			t.Fatalf("%q, next trial in %v, want %v s", c, h.TrialAt.Sub(h.Now), int(wait))
		}
		f.wantPaused(t, "a failed trial", "backlog charges")
	}
	f.trialDue(t)
	f.try(t)
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE queue = 'backlog' AND state = 'available' AND attempt = 0`); n != 3 {
		t.Errorf("%d of 3 jobs are backlog", n)
	}
	if l := f.lease(t, outbox.Backlog); l.Tokens != 1 || l.Rate > 2 || !l.Trial() {
		t.Errorf("the first lease of a trial: %+v", l)
	}
	if h, c, err := f.ProviderSucceeded(t.Context(), outbox.Stripe); err != nil || c != outbox.Over || h.Outage != "" {
		t.Errorf("%q %+v, %v", c, h, err)
	}
	if _, c := f.failed(t, true, false); c != outbox.Unchanged {
		t.Error("a failure was believed a moment after a success")
	}
	f.exec(t, `UPDATE provider SET succeeded_at = now() - interval '11 seconds'`)
	if h, c := f.failed(t, true, false); c != outbox.Stop || h.FailedTrials != 0 {
		t.Errorf("%q %+v", c, h)
	}
	if h, _, err := f.ProviderSucceeded(t.Context(), outbox.Stripe); err != nil || !h.TrialDue() || !h.Stopped() {
		t.Errorf("a success in an outage: %+v, %v", h, err)
	}
}

// A trial in which there is nothing to send ends by itself.
func TestTrialWithoutWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failed(t, true, false)
	f.trialDue(t)
	f.try(t)
	if _, c, _, err := f.Reconcile(t.Context(), outbox.Stripe); err != nil || c != outbox.Unchanged {
		t.Errorf("%q, %v", c, err)
	}
	f.exec(t, `UPDATE provider SET trial_since = now() - interval '61 seconds' WHERE outage IS NOT NULL`)
	if h, c, _, err := f.Reconcile(t.Context(), outbox.Stripe); err != nil || c != outbox.Over || h.Outage != "" {
		t.Errorf("%q %+v, %v", c, h, err)
	}
}

// A trial makes one call at a time, of all lanes and processes, until that has succeeded, ended without a word, or been given up; it is not over by
// itself meanwhile.
func TestTrialMakesOneCallAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failed(t, true, false)
	f.trialDue(t)
	f.try(t)
	began := func() outbox.Lease {
		t.Helper()
		l := f.lease(t, outbox.Fresh)
		if l.Tokens != 1 || l.TrialCall.IsZero() {
			t.Fatalf("a call of the trial: %+v", l)
		}
		for _, lane := range []outbox.Lane{outbox.Fresh, outbox.Backlog} {
			f.exec(t, `UPDATE provider SET fresh_tokens = 3, backlog_tokens = 3`)
			if l := f.lease(t, lane); l.Tokens != 0 || l.Wait <= 0 || l.Wait > time.Second {
				t.Errorf("one beside it on lane %d: %+v", lane, l)
			}
		}
		return l
	}
	ended := func(at time.Time) {
		t.Helper()
		if err := f.TrialCallEnded(t.Context(), outbox.Stripe, at); err != nil {
			t.Fatal(err)
		}
	}
	first := began()
	ended(first.TrialCall.Add(-time.Second)) // another one
	if l := f.lease(t, outbox.Fresh); l.Tokens != 0 {
		t.Errorf("after the end of another call: %+v", l)
	}
	ended(first.TrialCall)
	began()
	f.exec(t, `UPDATE provider SET trial_since = now() - interval '80 seconds', trial_call_at = now() - interval '70 seconds' WHERE trial_call_at IS NOT NULL`)
	if l := f.lease(t, outbox.Fresh); l.Tokens != 0 {
		t.Errorf("within the bound: %+v", l)
	}
	if _, c, _, err := f.Reconcile(t.Context(), outbox.Stripe); err != nil || c != outbox.Unchanged {
		t.Errorf("the trial ended while its call was under way: %q, %v", c, err)
	}
	for _, lost := range []string{`now() - interval '76 seconds'`, `now() + interval '1 hour'`} {
		f.exec(t, `UPDATE provider SET trial_call_at = `+lost+` WHERE trial_call_at IS NOT NULL`)
		began()
	}
	if h, c, err := f.ProviderSucceeded(t.Context(), outbox.Stripe); err != nil || c != outbox.Over || !h.TrialCallAt.IsZero() {
		t.Errorf("%q %+v, %v", c, h, err)
	}
	for _, lane := range []outbox.Lane{outbox.Fresh, outbox.Backlog} { // side by side
		if l := f.lease(t, lane); l.Tokens != 1 || !l.TrialCall.IsZero() || l.Rate > 3 {
			t.Errorf("after the trial: %+v", l)
		}
	}
}

// Queues that do not agree with the row, for whatever reason, are brought to.
func TestReconcile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	reconcile := func() []string {
		t.Helper()
		_, _, fixed, err := f.Reconcile(t.Context(), outbox.Stripe)
		if err != nil {
			t.Fatal(err)
		}
		return fixed
	}
	if fixed := reconcile(); len(fixed) != 0 {
		t.Errorf("nothing was wrong, and %v were changed", fixed)
	}
	f.exec(t, `INSERT INTO river_queue (name, paused_at, updated_at) VALUES ('charges', now(), now()), ('upkeep', now(), now())`)
	if fixed := reconcile(); !slices.Equal(fixed, []string{"charges"}) {
		t.Errorf("paused by nobody: %v", fixed)
	}
	f.wantPaused(t, "reconciled", "upkeep")
	f.failed(t, true, false)
	f.exec(t, `DELETE FROM river_queue WHERE name = 'charges'`)
	f.exec(t, `UPDATE river_queue SET paused_at = NULL WHERE name = 'backlog'`)
	if fixed := reconcile(); !slices.Equal(fixed, []string{"backlog", "charges"}) {
		t.Errorf("in an outage: %v", fixed)
	}
	f.wantPaused(t, "reconciled in an outage", "backlog charges upkeep")
}

// An operator's pause and an outage do not end each other, and who paused and resumed is written down for good.
func TestOperatorsPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, 2)
	pause := func() {
		t.Helper()
		if h, err := f.PauseProvider(t.Context(), outbox.Stripe, "operator:ada", "wrong prices"); err != nil || h.PausedBecause != "wrong prices" || h.PausedAt.IsZero() {
			t.Fatalf("%+v, %v", h, err)
		}
	}
	resume := func() (outbox.Health, bool) {
		t.Helper()
		h, paused, err := f.ResumeProvider(t.Context(), outbox.Stripe, "operator:bob", "mended")
		if err != nil {
			t.Fatal(err)
		}
		return h, paused
	}
	if _, paused := resume(); paused {
		t.Error("resumed what was not paused")
	}
	pause()
	f.wantPaused(t, "pause", "backlog charges")
	pause() // again, in the same words
	if n := f.count(t, `SELECT count(*) FROM operator_action WHERE action = 'provider.pause'`); n != 1 {
		t.Errorf("one pause is on record %d times", n)
	}
	already := (*outbox.PausedError)(nil)
	if _, err := f.PauseProvider(t.Context(), outbox.Stripe, "operator:bob", "lunch"); !errors.As(err, &already) || already.PausedBecause != "wrong prices" {
		t.Errorf("a second pause: %v", err)
	}
	f.exec(t, `UPDATE river_job SET scheduled_at = now() - interval '1 minute'`)
	if n, err := f.MoveOverdue(t.Context()); err != nil || n != 0 {
		t.Errorf("%d jobs were moved while paused, %v", n, err)
	}
	f.failed(t, true, false)
	f.trialDue(t)
	if h, c := f.try(t); c != outbox.Try || !h.Stopped() {
		t.Errorf("%q %+v", c, h)
	}
	if _, _, err := f.ProviderSucceeded(t.Context(), outbox.Stripe); err != nil {
		t.Fatal(err)
	}
	if _, _, fixed, err := f.Reconcile(t.Context(), outbox.Stripe); err != nil || len(fixed) > 0 {
		t.Errorf("%v, %v", fixed, err)
	}
	f.wantPaused(t, "after the provider's recovery", "backlog charges")
	if l := f.lease(t, outbox.Fresh); !l.Stopped() {
		t.Errorf("%+v", l)
	}
	if h, paused := resume(); !paused || h.Stopped() {
		t.Errorf("%+v", h)
	}
	f.wantPaused(t, "resume", "")
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE queue = 'backlog'`); n != 2 {
		t.Errorf("%d of 2 jobs are backlog", n)
	}
	pause()
	f.exec(t, `UPDATE provider SET succeeded_at = NULL`)
	f.failed(t, true, false)
	if h, _ := resume(); !h.Stopped() {
		t.Errorf("the outage ended with the pause: %+v", h)
	}
	f.wantPaused(t, "resume in an outage", "backlog charges")

	audit := `SELECT count(*) FROM operator_action WHERE action = $1 AND actor = $2 AND target = 'stripe' AND data ->> 'because' = $3`
	if n := f.count(t, audit, "provider.pause", "operator:ada", "wrong prices"); n != 2 {
		t.Errorf("%d pauses on record", n)
	}
	if n := f.count(t, audit+` AND data ->> 'paused_by' = 'operator:ada'`, "provider.resume", "operator:bob", "mended"); n != 2 {
		t.Errorf("%d resumes on record", n)
	}
	for _, sql := range []string{`DELETE FROM operator_action`, `UPDATE operator_action SET actor = 'nobody'`} {
		if _, err := f.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// What has been due for long makes way for what is new; what runs, or is not due, stays where it is. More than one transaction moves it.
func TestOverdueIsBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, 8)
	f.exec(t, `UPDATE river_job SET scheduled_at = now() - interval '31 seconds'`)
	f.exec(t, `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() WHERE id IN (SELECT id FROM river_job ORDER BY id LIMIT 2)`)
	f.exec(t, `INSERT INTO river_job (args, kind, max_attempts, queue, state, scheduled_at)
	           SELECT '{}', 'charge_send', 9, 'charges', 'available', now() - interval '1 minute' FROM generate_series(1, 4100)`)
	f.create(t, 3)
	if n, err := f.MoveOverdue(t.Context()); err != nil || n != 4106 {
		t.Errorf("%d moved, %v; want 4106", n, err)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE queue = 'charges' AND (state = 'running' OR scheduled_at > now() - interval '30 seconds')`); n != 5 {
		t.Errorf("%d stayed, want 5", n)
	}
}

// A replay at a rate writes no faster than that, and what it writes is backlog.
func TestReplayAtRate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, 25)
	f.exec(t, `DELETE FROM river_job`)
	began := time.Now()
	r, err := f.ReplayAt(t.Context(), f.src, outbox.Filter{}, "operator:ada", 10, nil)
	if err != nil || r.Enqueued != 25 {
		t.Errorf("%+v, %v", r, err)
	}
	if took := time.Since(began); took < 2*time.Second { // the third ten need not be waited out
		t.Errorf("25 jobs at 10/s took %v", took)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE queue = 'backlog' AND kind = 'charge_send'`); n != 25 {
		t.Errorf("%d are backlog", n)
	}
}
