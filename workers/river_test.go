package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncepay/oncepay/charges"
)

// I3: whatever another release, River or a person has made of a charge's job, the charge goes on, and it is visible.
func TestJobsAreNeverLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	const running = `state = 'running', attempt = 1, attempted_at = now() - interval '2 minutes', attempted_by = '{gone}'`
	var ids []uuid.UUID
	for _, tc := range []struct {
		what, set string
		swept     bool
	}{
		{"of a newer release's kind", `kind = 'charge_send_v2'`, true},
		{"of a newer release's kind, whose worker was killed: River discards it", `kind = 'charge_send_v3', ` + running, true},
		{"of a known kind, whose worker was killed", running, false},
		{"discarded", `state = 'discarded', finalized_at = now()`, true},
		{"cancelled", `state = 'cancelled', finalized_at = now()`, true},
		{"of a newer release's form", `args = args || '{"v": "two", "more": [1]}'`, false},
		{"without a version", `args = args - 'v'`, false},
		{"without a charge", `args = '{"v": 1}'`, true},
		{"with a charge of another form", `args = '{"charge_id": 7}'`, true},
	} {
		id := r.create()
		ids = append(ids, id)
		r.exec(`UPDATE river_job SET metadata = metadata || jsonb_build_object('was', $2::text), `+tc.set+` WHERE args ->> 'charge_id' = $1`, id.String(), tc.what)
		t.Logf("%s: %s", id, tc.what)
	}
	r.start()
	for _, id := range ids {
		r.awaitStatus(id, charges.Succeeded)
		r.wantPayments(id, 1)
	}
	was := func(what string) (state string, attempt int) {
		t.Helper()
		if err := r.pool.QueryRow(t.Context(), `SELECT state::text, attempt FROM river_job WHERE metadata ->> 'was' LIKE $1 || '%'`, what).Scan(&state, &attempt); err != nil {
			t.Fatal(err)
		}
		return state, attempt
	}
	if state, attempt := was("of a newer release's kind"); state != "available" || attempt != 0 {
		t.Errorf("a newer release's job is %s after %d attempts, and its own workers must find it", state, attempt)
	}
	r.await("River to discard what it does not know", func() bool { state, _ := was("of a newer release's kind, whose"); return state == "discarded" })
	if n := r.figure("oncepay_outbox_swept_total"); n != 6 {
		t.Errorf("%v jobs swept, want 6", n)
	}
	if n := r.figure("oncepay_jobs_unknown"); n != 1 {
		t.Errorf("%v jobs of unknown kinds, want 1", n)
	}
}

// What River stores of an error is short, on one line and without secrets, and the list of a job's errors ends.
func TestErrorsThatRiverStores(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION E'first\nsecond sk_live_sesame %', repeat('x', 5000); END $$`)
	r.exec(`CREATE TRIGGER refuse BEFORE INSERT ON attempt FOR EACH ROW EXECUTE FUNCTION refuse()`)
	fresh, full := r.create(), r.create()
	r.exec(`UPDATE river_job SET errors = (SELECT array_agg(jsonb_build_object('at', now(), 'attempt', n, 'error', 'before', 'trace', '')) FROM generate_series(1, $2) n)
	 WHERE args ->> 'charge_id' = $1`, full.String(), mostErrors)
	r.start()
	r.await("an error to be stored", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE args ->> 'charge_id' = $1 AND errors IS NOT NULL`, fresh.String()) == 1
	})
	var text string
	if err := r.pool.QueryRow(t.Context(), `SELECT errors[1] ->> 'error' FROM river_job WHERE args ->> 'charge_id' = $1`, fresh.String()).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if len(text) > 500 || strings.Contains(text, "\n") || strings.Contains(text, "sesame") || !strings.Contains(text, "first second [removed]") {
		t.Errorf("stored: %q", text)
	}
	r.await("a failure that is not stored", func() bool {
		return r.count(`SELECT count(*) FROM river_job WHERE args ->> 'charge_id' = $1 AND (metadata ->> 'snoozes')::int > 0`, full.String()) == 1
	})
	if n := r.count(`SELECT cardinality(errors) FROM river_job WHERE args ->> 'charge_id' = $1`, full.String()); n != mostErrors {
		t.Errorf("%d errors are kept", n)
	}
	r.exec(`DROP TRIGGER refuse ON attempt`)
	r.exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state IN ('available', 'retryable', 'scheduled') AND kind = 'charge_send'`)
	r.awaitStatus(fresh, charges.Succeeded)
	r.awaitStatus(full, charges.Succeeded)
}

func TestGuard(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	g := &guard{log: slog.New(slog.NewTextHandler(&logged, nil))}
	full := &rivertype.JobRow{Kind: "charge_send", Errors: make([]rivertype.AttemptError, mostErrors)}
	for _, tc := range []struct {
		name   string
		job    *rivertype.JobRow
		run    func() error
		text   string
		target any // what errors.As must find
	}{
		{"done", &rivertype.JobRow{}, func() error { return nil }, "", nil},
		{"snoozed", full, func() error { return river.JobSnooze(1) }, "JobSnoozeError: 1ns", new(*river.JobSnoozeError)},
		{"an error with NUL", &rivertype.JobRow{}, func() error { return errors.New("a\x00b\nc") }, "ab c", nil},
		{"a panic", &rivertype.JobRow{}, func() error { panic("oh\x00\nno sk_test_sesame") }, "panic: oh no [removed]", nil},
		{"cancelled for good", full, func() error { return river.JobCancel(errors.New("a\x00")) }, "JobCancelError: a", new(*river.JobCancelError)},
		{"one error too many", full, func() error { return errors.New("again") }, "", new(*river.JobSnoozeError)},
		{"one panic too many", full, func() error { panic("again") }, "", new(*river.JobSnoozeError)},
	} {
		err := g.Work(t.Context(), tc.job, func(context.Context) error { return tc.run() })
		if tc.text != "" && (err == nil || err.Error() != tc.text) || tc.text == "" && tc.target == nil && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if tc.target != nil && !errors.As(err, tc.target) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// River restores the attempt of a job that it stopped only if it can see that.
	if err := g.Work(t.Context(), full, func(context.Context) error { return fmt.Errorf("begin: %w", context.Canceled) }); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if said := logged.String(); strings.Contains(said, "sesame") || strings.Count(said, "msg=job.panicked") != 2 || strings.Count(said, "msg=job.failed") != 2 {
		t.Errorf("logged: %s", said)
	}
}
