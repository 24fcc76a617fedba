package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// runBound is for one run of a job to end or to stop where it should: reached only by a defect.
const runBound = time.Minute

// job is a row of river_job that River would run, now or later.
type job struct {
	id     int64
	kind   outbox.Kind
	charge uuid.UUID
}

// jobs are the live ones that nobody runs, oldest first. They are run whether they are due or not: a job that comes early does no harm.
func (w *world) jobs() []job {
	w.t.Helper()
	rows, err := w.stage.pool.Query(context.Background(), `SELECT id, kind, (args ->> 'charge_id')::uuid FROM river_job
		WHERE state IN ('available', 'pending', 'retryable', 'scheduled') AND args ? 'charge_id' ORDER BY id`)
	if err != nil {
		w.t.Fatal(err)
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j job, err error) { return j, row.Scan(&j.id, &j.kind, &j.charge) })
	if err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

// jobOf is the live job of this kind for a charge, or one without a row: a duplicate does no harm.
func (w *world) jobOf(charge int, kind outbox.Kind) job {
	for _, j := range w.jobs() {
		if j.kind == kind && j.charge == w.ids[charge] {
			return j
		}
	}
	return job{kind: kind, charge: w.ids[charge]}
}

// work runs a job in a process, up to its end or to where it is to stop. faults are armed at the providers meanwhile.
func (w *world) work(process int, j job, stop moment, faults ...sandbox.Fault) *run {
	w.t.Helper()
	for _, f := range faults {
		w.fail(f)
	}
	r := w.start(process, j, stop)
	w.watch(r)
	return r
}

// twice runs a job in both processes at once. What then happens has no order, so that this is for no list that is to be played again.
func (w *world) twice(j job) {
	w.t.Helper()
	first, second := w.start(0, j, moment{}), w.start(1, job{kind: j.kind, charge: j.charge}, moment{})
	w.watch(first)
	w.watch(second)
}

func (w *world) start(process int, j job, stop moment) *run {
	w.t.Helper()
	p := w.process[process]
	if _, _, err := p.probe.State(); err != nil || len(p.probe.doubt) > 0 {
		p.probeNow()
	}
	r := &run{name: fmt.Sprintf("%s of charge %d in process %d", j.kind, slices.Index(w.ids, j.charge), process), process: process, job: j.id, charge: j.charge, stop: stop,
		asleep: make(chan struct{}), wake: make(chan bool), done: make(chan struct{})}
	if j.id != 0 {
		w.exec(`UPDATE river_job SET state = 'running', attempt = attempt + 1, attempted_at = now() WHERE id = $1`, j.id)
	}
	ctx := context.WithValue(context.Background(), runKey{}, r)
	go func() {
		defer close(r.done)
		r.err = p.work(ctx, j.kind, j.charge, &rivertype.JobRow{ID: j.id, CreatedAt: time.Now(), Kind: string(j.kind)})
	}()
	return r
}

// watch waits until a run ends or goes to sleep, and writes down what River would.
func (w *world) watch(r *run) {
	w.t.Helper()
	select {
	case <-r.asleep:
		w.t.Logf("%s sleeps", r.name)
		r.naps = append(r.naps, nap{})
		w.asleep = append(w.asleep, r)
	case <-r.done:
		w.end(r)
	case <-time.After(runBound):
		w.t.Fatalf("%s does not end", r.name)
	}
	w.sandbox.ClearFaults()
	if w.outage {
		w.fail(away)
	}
}

func (w *world) end(r *run) {
	w.t.Helper()
	snooze, cancel := (*rivertype.JobSnoozeError)(nil), (*rivertype.JobCancelError)(nil)
	state, at, final := "completed", time.Duration(0), true
	switch {
	case r.died:
		w.t.Logf("%s died", r.name)
		w.kill(r.process)
		return
	case r.err == nil:
		w.t.Logf("%s is done", r.name)
	case errors.As(r.err, &snooze):
		w.t.Logf("%s waits %v", r.name, snooze.Duration.Round(time.Second))
		state, at, final = "scheduled", snooze.Duration, false
	case errors.As(r.err, &cancel) && r.job == 0:
		// there is nothing for a job that nobody wrote
	default:
		w.t.Fatalf("I6: %s failed, though the database was there: %v", r.name, r.err)
	}
	// Only a job that still runs: one that was rescued meanwhile is somebody else's.
	w.exec(`UPDATE river_job SET state = $2::river_job_state, scheduled_at = now() + $3::interval, finalized_at = CASE WHEN $4 THEN now() END
		WHERE id = $1 AND state = 'running'`, r.job, state, at, final)
}

// rouse wakes the run that has slept for the longest but i others, or lets it die.
func (w *world) rouse(i int, lives bool, faults ...sandbox.Fault) {
	w.t.Helper()
	r := w.asleep[i]
	w.asleep = slices.Delete(w.asleep, i, i+1)
	for _, f := range faults {
		w.fail(f)
	}
	r.naps[len(r.naps)-1].until = time.Now()
	r.wake <- lives
	w.watch(r)
}

// kill ends a process without a word, all of its runs with it, and starts another in its place.
func (w *world) kill(process int) {
	w.t.Helper()
	for {
		i := slices.IndexFunc(w.asleep, func(r *run) bool { return r.process == process })
		if i < 0 {
			break
		}
		r := w.asleep[i]
		w.asleep = slices.Delete(w.asleep, i, i+1)
		r.wake <- false
		<-r.done
	}
	w.process[process].close()
	w.process[process] = w.newProcess()
}

func (w *world) fail(f sandbox.Fault) {
	w.t.Helper()
	if err := w.sandbox.Fail(f); err != nil {
		w.t.Fatal(err)
	}
}

// away is an outage of both providers.
var away = sandbox.Fault{Kind: sandbox.DropBefore, Times: sandbox.Forever}

// setOutage begins or ends one.
func (w *world) setOutage(on bool) {
	w.outage = on
	w.sandbox.ClearFaults()
	if on {
		w.fail(away)
	}
	for _, p := range w.process {
		p.probeNow()
	}
}

// post posts a charge, and fails if it is not accepted.
func (w *world) post(method, receiptTo string) int {
	w.t.Helper()
	return w.sell(method, receiptTo, sale{})
}

// sweep and replay see to it that everything that waits has a job; see [world.wantJobs] for what they may write.
func (w *world) sweep() {
	w.t.Helper()
	w.wantJobs(func() error { _, err := w.box.Sweep(context.Background(), w.charges); return err })
}

func (w *world) replay() {
	w.t.Helper()
	w.wantJobs(func() error {
		_, err := w.box.Replay(context.Background(), w.charges, outbox.Filter{}, "operator", nil)
		return err
	})
}
