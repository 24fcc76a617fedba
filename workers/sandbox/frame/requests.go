package frame

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	requestKind = "request"
	// maxRequests bounds the request log; state is never dropped, its oldest lines are.
	maxRequests = 10_000
)

// LoggedRequest is one line of the request log, written when the request arrived and again when it was answered.
type LoggedRequest struct {
	Seq            int64  `json:"seq"`
	Method         string `json:"method"`
	Path           string `json:"path"`
	Query          string `json:"query,omitempty"`
	Account        string `json:"account,omitempty"`
	IdempotencyKey string `json:"idempotency_key"`
	// Status is what was answered, or what a lost answer said; 0 while the request is in flight and when
	// nothing was done about it.
	Status int       `json:"status"`
	Fault  Kind      `json:"fault"`
	At     time.Time `json:"at"`
}

// requestLog holds the last maxRequests requests, in order of arrival.
type requestLog struct {
	journal *Journal

	mu      sync.Mutex
	last    int64
	entries []LoggedRequest
}

func (l *requestLog) arrive(e LoggedRequest) (LoggedRequest, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = l.last + 1
	if err := l.journal.Append(NewRecord(requestKind, e)); err != nil {
		return e, fmt.Errorf("log request: %w", err)
	}
	l.put(e)
	return e, nil
}

func (l *requestLog) answered(e LoggedRequest, status int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Status = status
	if err := l.journal.Append(NewRecord(requestKind, e)); err != nil {
		return fmt.Errorf("log answer: %w", err)
	}
	l.put(e)
	return nil
}

// put adds the entry or replaces the one with its number. Numbers in entries have no gaps.
func (l *requestLog) put(e LoggedRequest) {
	if e.Seq > l.last {
		l.last = e.Seq
		l.entries = append(l.entries, e)
		if len(l.entries) >= 2*maxRequests { // trimmed seldom, since it moves them all
			l.entries = slices.Clone(l.newest())
		}
		return
	}
	if i := int(e.Seq - l.entries[0].Seq); i >= 0 {
		l.entries[i] = e
	}
}

func (l *requestLog) newest() []LoggedRequest {
	return l.entries[max(0, len(l.entries)-maxRequests):]
}

func (l *requestLog) all() []LoggedRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.newest())
}

func (l *requestLog) Kinds() []string { return []string{requestKind} }

func (l *requestLog) Restore(r Record) error {
	var e LoggedRequest
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(e)
	return nil
}

func (l *requestLog) Snapshot() []Record {
	entries := l.all()
	records := make([]Record, len(entries))
	for i, e := range entries {
		records[i] = NewRecord(requestKind, e)
	}
	return records
}
