package frame

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Faults are the armed faults, oldest first. They do not survive a restart.
type Faults struct {
	mu    sync.Mutex
	armed []*Fault
}

// Arm adds a fault and returns it with its defaults filled in. Any number up to 1,000 may be armed at once.
func (s *Faults) Arm(f Fault) (Fault, error) {
	f, err := f.normal()
	if err != nil {
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.armed) >= maxArmed {
		return f, fmt.Errorf("%d faults are armed already; clear them first", maxArmed)
	}
	armed := f
	s.armed = append(s.armed, &armed)
	return f, nil
}

// Clear disarms every fault and says how many there were. Requests that are being held stay held.
func (s *Faults) Clear() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.armed)
	s.armed = nil
	return n
}

// Armed returns the faults that can still act, with the Times that are left.
func (s *Faults) Armed() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed := make([]Fault, len(s.armed))
	for i, f := range s.armed {
		armed[i] = *f
	}
	return armed
}

// take picks the fault for one request: the oldest that matches and whose dice fall so, or nil. One fault at
// most acts on a request.
func (s *Faults) take(method, path string, t Traits) *Fault {
	return s.pick(func(f *Fault) bool { return f.matches(method, path, t) })
}

// takeWebhook tells whether a fault holds back what is told of a change at path.
func (s *Faults) takeWebhook(path string) bool {
	return s.pick(func(f *Fault) bool { return f.Kind == NoWebhooks && f.covers(path) }) != nil
}

// silence tells whether a fault keeps even pending webhooks of path from being sent: one that is armed for all of them,
// until it is cleared.
func (s *Faults) silence(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.armed, func(f *Fault) bool {
		return f.Kind == NoWebhooks && f.Times == Forever && f.Probability == 1 && f.covers(path)
	})
}

func (s *Faults) pick(matches func(*Fault) bool) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.armed {
		if !matches(f) || f.Probability < 1 && rand.Float64() >= f.Probability {
			continue
		}
		acts := *f
		if f.Times > 0 {
			f.Times--
		}
		if f.Times == 0 {
			s.armed = slices.Delete(s.armed, i, i+1)
		}
		return &acts
	}
	return nil
}
