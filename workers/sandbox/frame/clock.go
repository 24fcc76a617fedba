package frame

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

const clockKind = "clock"

// Clock is the machine's clock plus an offset that only grows, and that the journal keeps.
type Clock struct {
	journal *Journal

	mu     sync.RWMutex
	offset time.Duration
}

// NewClock returns a clock that shows the machine's time until the journal is replayed or it is advanced.
func NewClock(journal *Journal) *Clock { return &Clock{journal: journal} }

// Now is the sandbox's time, in UTC, by the wall clock alone: it goes on while the machine sleeps.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return time.Now().Add(c.offset).UTC().Round(0)
}

// ErrNotForward refuses to turn the clock back: providers order what they make by time.
var ErrNotForward = errors.New("the clock only goes forward: advance must be more than 0")

// Advance moves the clock forward by d, or returns ErrNotForward.
func (c *Clock) Advance(d time.Duration) error {
	if d <= 0 {
		return ErrNotForward
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.journal.Append(NewRecord(clockKind, c.offset+d)); err != nil {
		return fmt.Errorf("advance clock: %w", err)
	}
	c.offset += d
	return nil
}

// Kinds, Restore and Snapshot keep the offset over a restart.
func (c *Clock) Kinds() []string { return []string{clockKind} }

func (c *Clock) Restore(r Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Unmarshal(r.Value, &c.offset)
}

func (c *Clock) Snapshot() []Record {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return []Record{NewRecord(clockKind, c.offset)}
}
