package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// ErrBusy says that too much waits for the database already, or has waited for too long. Nothing was written.
var ErrBusy = errors.New("too much waits for the database")

// Together lets work that waits share a transaction: what arrives while one is under way goes into the next one, all of it together. A single
// piece of work is a batch of one, and waits for nobody. Safe for concurrent use.
//
// One member never fails the others. A run that fails is taken apart: each half is run again, and so on, until those that cannot work are alone with
// their error. That is done beside the runs of whatever comes next, which do not wait for it.
//
// Nor does it hold them up: a transaction of [InTx] in a run waits for others' locks only shortly. One that needs what is held for longer gets a
// last run of its own, which waits for it as long as any transaction does, when there is a place for it among the few that do so.
type Together[T any] struct {
	run     func(ctx context.Context, members []T) error
	bounds  TogetherBounds
	aside   chan struct{} // places for what is run again
	patient chan struct{} // places for those that wait for a lock

	mu      sync.Mutex
	running int // of the ordinary runs
	waiting []*seat[T]
}

// TogetherBounds say how much is done at once.
type TogetherBounds struct {
	Runs    int           // at a time; 0: 1
	Members int           // of one run; 0: 256. With 1, nothing is shared
	Waiting int           // beyond which [ErrBusy] is returned at once; 0: 4096
	Wait    time.Duration // for how long a member may wait for a run to begin, after which it is [ErrBusy]; 0: 3 s
	Observe func(members int, took time.Duration)
}

// rerunMost is how many runs are taken apart at a time, and patientMost how many wait for a lock: so many connections may that keep.
const (
	rerunMost   = 4
	patientMost = 2 // each may keep its connection for as long as a lock is waited for
)

// NewTogether returns what shares run, which does the work of all members in one transaction: an error of it says that nothing is left of any, or
// that nobody knows ([ErrInDoubt]). What came of each member is written into the member, which therefore is a pointer. Its context has no end:
// whoever gave one of the members may have gone.
func NewTogether[T any](b TogetherBounds, run func(ctx context.Context, members []T) error) *Together[T] {
	if b.Runs == 0 {
		b.Runs = 1
	}
	if b.Members == 0 {
		b.Members = 256
	}
	if b.Waiting == 0 {
		b.Waiting = 4096
	}
	if b.Wait == 0 {
		b.Wait = 3 * time.Second
	}
	if b.Observe == nil {
		b.Observe = func(int, time.Duration) {}
	}
	return &Together[T]{run: run, bounds: b, aside: make(chan struct{}, rerunMost), patient: make(chan struct{}, patientMost)}
}

// Waiting is how many wait for a run to begin.
func (t *Together[T]) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// seat is a member's place.
type seat[T any] struct {
	member T
	since  time.Time // it waits
	failed time.Time // when its latest run did; zero: it had none. From then on it waits for what others may have brought upon it
	cause  error     // why
	turn   chan turn[T]
}

// turn says that the work was done, with err; or, unless batch is empty, that whoever has the seat is to do that of the batch, of which it is one.
type turn[T any] struct {
	batch   []*seat[T]
	aside   bool // it has failed before
	patient bool // it needs what others hold
	err     error
}

// Do has the member's work done, together with that of others. Once a run has begun with it, it returns when that has ended, whatever becomes of
// ctx; before, it gives up when ctx ends. The values of ctx are the run's where the member leads it.
func (t *Together[T]) Do(ctx context.Context, member T) error {
	s := &seat[T]{member: member, since: time.Now(), turn: make(chan turn[T], 1)}
	if err := t.sit(s); err != nil {
		return err
	}
	waiting := ctx
	ctx = context.WithoutCancel(ctx)
	for {
		mine, err := t.await(waiting, s)
		switch {
		case err != nil:
			return err
		case len(mine.batch) == 0:
			return mine.err
		case mine.patient:
			t.wait(ctx, mine.batch)
		case mine.aside:
			t.again(ctx, mine.batch)
		default:
			t.lead(ctx, mine.batch)
		}
	}
}

// await waits for the seat's turn, and gives the seat up where that does not come in time, or ctx ends before.
func (t *Together[T]) await(ctx context.Context, s *seat[T]) (turn[T], error) {
	select {
	case mine := <-s.turn:
		return mine, nil
	default:
	}
	patience := time.NewTimer(t.bounds.Wait - time.Since(s.since))
	defer patience.Stop()
	select {
	case mine := <-s.turn:
		return mine, nil
	case <-patience.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, s)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	switch {
	case i >= 0 && ctx.Err() != nil:
		return turn[T]{}, ctx.Err()
	case i >= 0:
		return turn[T]{}, s.busy()
	}
	return <-s.turn, nil // it is in a run
}

// sit takes a place among those that wait, and begins a run where there is room for one.
func (t *Together[T]) sit(s *seat[T]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) >= t.bounds.Waiting {
		return ErrBusy
	}
	t.waiting = append(t.waiting, s)
	if t.running < t.bounds.Runs {
		t.running++
		t.next()
	}
	return nil
}

// next hands a place of the ordinary runs to the first of those that wait, with as many others as may come along, or gives it up. The caller holds mu.
func (t *Together[T]) next() {
	for len(t.waiting) > 0 {
		n := min(len(t.waiting), t.bounds.Members)
		var batch []*seat[T]
		for _, s := range t.waiting[:n] {
			if !t.tooLate(s) {
				batch = append(batch, s)
			}
		}
		t.waiting = append([]*seat[T](nil), t.waiting[n:]...) // not a part of the longest queue that there ever was
		if len(batch) > 0 {
			batch[0].turn <- turn[T]{batch: batch}
			return
		}
	}
	t.running--
}

// tooLate refuses a member that has waited for too long.
func (t *Together[T]) tooLate(s *seat[T]) bool {
	if time.Since(s.waits()) <= t.bounds.Wait {
		return false
	}
	s.turn <- turn[T]{err: s.busy()}
	return true
}

// lead runs a batch, and lets the next one begin when that has ended.
func (t *Together[T]) lead(ctx context.Context, batch []*seat[T]) {
	err := errGone
	defer func() {
		t.mu.Lock()
		t.next()
		t.mu.Unlock()
		t.end(batch, err)
	}()
	err = t.once(t.hurried(ctx), batch)
}

// errGone is what those are left with whose leader has gone without a word, as by [runtime.Goexit].
var errGone = fmt.Errorf("whoever led the run has gone: %w", ErrInDoubt)

// hurried is ctx for a run that others wait for.
func (t *Together[T]) hurried(ctx context.Context) context.Context {
	if t.bounds.Members == 1 {
		return ctx
	}
	return withHurry(ctx)
}

// end tells the members of a hurried run that it has ended, or has it taken apart.
func (t *Together[T]) end(batch []*seat[T], err error) {
	held := len(batch) == 1 && heldUp(err) && t.bounds.Members > 1
	if err == nil || !held && (len(batch) <= 1 || unreachable(err)) {
		for _, s := range batch {
			s.turn <- turn[T]{err: err}
		}
		return
	}
	for _, s := range batch {
		s.failed, s.cause = time.Now(), err
	}
	if held {
		batch[0].turn <- turn[T]{batch: batch, patient: true}
		return
	}
	for _, half := range [][]*seat[T]{batch[:len(batch)/2], batch[len(batch)/2:]} {
		half[0].turn <- turn[T]{batch: half, aside: true}
	}
}

// again runs a part of a run that has failed.
func (t *Together[T]) again(ctx context.Context, batch []*seat[T]) {
	if !t.takePlace(t.aside, batch) {
		return
	}
	batch = slices.DeleteFunc(batch, t.tooLate)
	err := errGone
	defer func() {
		<-t.aside
		t.end(batch, err)
	}()
	if len(batch) > 0 {
		err = t.once(t.hurried(ctx), batch)
	}
}

// wait runs one that needs what others hold.
func (t *Together[T]) wait(ctx context.Context, batch []*seat[T]) {
	if !t.takePlace(t.patient, batch) {
		return
	}
	err := errGone
	defer func() {
		<-t.patient
		batch[0].turn <- turn[T]{err: err}
	}()
	err = t.once(ctx, batch)
}

// takePlace takes a place for what is run again. There may be none in time: then all are refused.
func (t *Together[T]) takePlace(places chan struct{}, batch []*seat[T]) bool {
	patience := time.NewTimer(t.bounds.Wait - time.Since(batch[0].waits()))
	defer patience.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-patience.C:
	}
	for _, s := range batch {
		s.turn <- turn[T]{err: s.busy()}
	}
	return false
}

// waits is since when the member waits for the run that comes next.
func (s *seat[T]) waits() time.Time {
	if s.failed.IsZero() {
		return s.since
	}
	return s.failed
}

// busy is that the member has waited for too long, and what for.
func (s *seat[T]) busy() error {
	err := fmt.Errorf("waited for %s: %w", time.Since(s.since).Round(time.Millisecond), ErrBusy)
	if s.cause != nil {
		err = fmt.Errorf("%w (%w)", err, s.cause)
	}
	return err
}

// once does the work of a batch. A panic is an error of it, so that nobody waits for ever.
func (t *Together[T]) once(ctx context.Context, batch []*seat[T]) (err error) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		t.bounds.Observe(len(batch), time.Since(began))
	}()
	members := make([]T, len(batch))
	for i, s := range batch {
		members[i] = s.member
	}
	return t.run(ctx, members)
}
