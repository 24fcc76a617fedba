package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Member is one of those that share a transaction. Its key is what it locks first, and it alone.
type Member interface{ LockKey() uuid.UUID }

var errSameKey = errors.New("two members of one transaction have the same key: its locks would not keep them apart")

// InTxEach runs each for every member, all of them at once and all in one transaction, as [InTx] does. Each tells its story as if it were alone;
// statements that they ask for at the same time go to PostgreSQL in one round trip, in the order of the members' keys, so that two
// such transactions never wait for each other in a circle. An error of one is an error of all: nothing is kept.
//
// Members that lock the same must not be in one transaction, which would let both through: that is an error.
func InTxEach[M Member](ctx context.Context, db DB, name string, members []M, each func(ctx context.Context, tx pgx.Tx, m M) error) error {
	if len(members) == 1 {
		return InTx(ctx, db, name, func(tx pgx.Tx) error { return each(ctx, tx, members[0]) })
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b M) int {
		x, y := a.LockKey(), b.LockKey()
		return bytes.Compare(x[:], y[:])
	})
	for i := 1; i < len(members); i++ {
		if members[i].LockKey() == members[i-1].LockKey() {
			return errSameKey
		}
	}
	return InTx(ctx, db, name, func(tx pgx.Tx) error {
		s := &shared{tx: tx, busy: len(members), known: map[string]done{}}
		s.turn.L = &s.mu
		for i, m := range members {
			go s.tell(i, func(tx pgx.Tx) error { return each(ctx, tx, m) })
		}
		return s.run(ctx)
	})
}

// shared is a transaction whose members run at once. They take turns: either some of them compute, or PostgreSQL does.
type shared struct {
	tx pgx.Tx

	mu    sync.Mutex
	turn  sync.Cond       // nobody computes any more
	busy  int             // members that compute
	calls []*call         // what the others wait for
	known map[string]done // by [Once]
	jobs  []river.InsertManyParams
	box   *Outbox // that the jobs go through
	last  []*call // what is written after them
	err   error   // the first
}

// done is what came of what was done once.
type done struct {
	value any
	err   error
}

// errCutShort is of a member whose story did not return, as by [runtime.Goexit].
var errCutShort = errors.New("a member's story ended before its end")

// tell runs one member to its end.
func (s *shared) tell(member int, story func(tx pgx.Tx) error) {
	err := errCutShort
	tx := &memberTx{Tx: s.tx, shared: s, member: member}
	defer func() {
		tx.closeRows()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = err
		}
		s.rest()
	}()
	err = safely(func() error { return story(tx) })
}

// safely makes an error of a panic.
func safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// rest notes that a member computes no more. The caller holds mu.
func (s *shared) rest() {
	if s.busy--; s.busy == 0 {
		s.turn.Signal()
	}
}

// run serves the members until all have ended, and writes what they have put off.
func (s *shared) run(ctx context.Context) error {
	for {
		s.mu.Lock()
		for s.busy > 0 {
			s.turn.Wait()
		}
		calls, err := s.calls, s.err
		s.calls = nil
		s.mu.Unlock()
		switch {
		case len(calls) == 0 && err == nil:
			return s.finish(ctx)
		case len(calls) == 0:
			return err
		case err != nil: // the transaction is lost: each member is told, so that it ends
			for _, c := range calls {
				s.give(c, answer{err: err})
			}
		default:
			s.send(ctx, s.doOnce(calls))
		}
	}
}

// finish writes the members' jobs, and what comes last.
func (s *shared) finish(ctx context.Context) error {
	if len(s.jobs) > 0 {
		if err := s.box.insert(ctx, s.tx, s.jobs); err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.last, func(a, b *call) int { return a.member - b.member })
	for _, group := range byStatement(s.last) {
		if _, err := s.tx.Exec(ctx, group[0].sql, columns(group)...); err != nil {
			return err
		}
	}
	return nil
}

// doOnce does what is done once for all, and returns the other calls.
func (s *shared) doOnce(calls []*call) (others []*call) {
	for _, c := range calls {
		if c.wants != wantOnce {
			others = append(others, c)
			continue
		}
		was, known := s.known[c.sql]
		if !known {
			was.err = safely(func() (err error) { was.value, err = c.once(); return err })
			s.known[c.sql] = was
			s.failed(was.err)
		}
		s.give(c, answer{value: was.value, first: !known, err: was.err})
	}
	return others
}
