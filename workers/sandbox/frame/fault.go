package frame

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is what a fault does to a request.
type Kind string

// The faults. "Done" means that the provider carried the request out.
const (
	DropBefore   Kind = "drop_before"   // connection closed, nothing done
	DropAfter    Kind = "drop_after"    // done, connection closed instead of the answer
	Delay        Kind = "delay"         // held for DelayMS, then done and answered as usual
	Status       Kind = "status"        // answered with Status; nothing done, nothing stored
	StoredStatus Kind = "stored_status" // answered with Status, which is stored under the key; done first when Done
	Truncate     Kind = "truncate"      // done; full Content-Length, half of the body, connection closed
	HTML         Kind = "html"          // done; answered with 200 and a page of HTML
	ListLag      Kind = "list_lag"      // a list misses what was created within the last DelayMS of sandbox time
	NoWebhooks   Kind = "no_webhooks"   // what happens meanwhile is recorded, and not told; touches no request
)

// Forever as Times keeps a fault armed until the faults are cleared.
const Forever = -1

// Bounds of a fault: a held request occupies a connection, a lag only a comparison.
const (
	maxDelay = 10 * time.Minute
	maxLag   = 7 * 24 * time.Hour
	maxArmed = 1000
)

// Fault is armed by Faults.Arm and acts on the requests it matches.
type Fault struct {
	// Method matches exactly; empty matches any.
	Method string `json:"method,omitempty"`
	// Path matches the URL's path exactly, or as a prefix when it ends in "*"; empty matches any. NoWebhooks compares
	// it with the path of the changed object's kind, such as /v1/refunds.
	Path string `json:"path,omitempty"`
	// IdempotencyKey, where given, limits the fault to requests that carry this key.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Kind           Kind   `json:"fault"`
	// Times is how many requests it acts on; 0 means 1. Forever, too, is possible. For NoWebhooks it counts changes
	// that are told of, and 0 means Forever.
	Times int `json:"times"`
	// Probability, in (0,1], that it acts on a request it matches; 0 means 1.
	Probability float64 `json:"probability"`
	// DelayMS holds the request so many milliseconds of real time before anything is done, whatever the
	// kind; for ListLag it is the lag instead.
	DelayMS int64 `json:"delay_ms,omitempty"`

	// Status, 400 to 599, is what Status and StoredStatus answer.
	Status int `json:"status,omitempty"`
	// Done carries the request out before StoredStatus replaces its answer.
	Done bool `json:"done,omitempty"`
	// The rest overrides what the provider would put into the error body of Status and StoredStatus.
	Type        string `json:"type,omitempty"`
	Code        string `json:"code,omitempty"`
	DeclineCode string `json:"decline_code,omitempty"`
	AdviceCode  string `json:"advice_code,omitempty"`
	Message     string `json:"message,omitempty"`
	// RetryAfter, in seconds, adds the provider's header that says when to come back.
	RetryAfter int `json:"retry_after,omitempty"`
}

// neverStored are the answers that Stripe gives before it executes a request, and so never keeps under a key:
// https://docs.stripe.com/api/idempotent_requests
var neverStored = map[int]bool{401: true, 403: true, 409: true, 429: true}

// normal fills in the defaults and refuses what could never act as meant.
func (f Fault) normal() (Fault, error) {
	if f.Times == 0 {
		f.Times = 1
		if f.Kind == NoWebhooks {
			f.Times = Forever
		}
	}
	if f.Probability == 0 {
		f.Probability = 1
	}
	answers := f.Kind == Status || f.Kind == StoredStatus
	switch f.Kind {
	case DropBefore, DropAfter, Truncate, HTML, NoWebhooks:
	case Delay, ListLag:
		if f.DelayMS == 0 {
			return f, fmt.Errorf("%s needs delay_ms", f.Kind)
		}
	case Status, StoredStatus:
		if f.Status < 400 || f.Status > 599 {
			return f, fmt.Errorf("%s needs a status from 400 to 599", f.Kind)
		}
		if f.Kind == StoredStatus && neverStored[f.Status] {
			return f, fmt.Errorf("stored_status: an answer of %d is never stored; use status", f.Status)
		}
	default:
		return f, fmt.Errorf("unknown fault %q", f.Kind)
	}
	switch limit := f.delayLimit(); {
	case f.Method != strings.ToUpper(f.Method):
		return f, errors.New("method must be in upper case")
	case f.Kind == ListLag && f.Method != "" && f.Method != "GET":
		return f, errors.New("list_lag acts on lists only: method must be GET")
	case f.Kind == StoredStatus && f.Method != "" && f.Method != "POST":
		return f, errors.New("stored_status acts on writes with a key only: method must be POST")
	case f.Kind == NoWebhooks && (f.Method != "" && f.Method != "POST" || f.IdempotencyKey != "" || f.DelayMS != 0):
		return f, errors.New("no_webhooks acts on no request: only path, times and probability go with it")
	case f.Path != "" && f.Path != "*" && !strings.HasPrefix(f.Path, "/"):
		return f, errors.New("path must begin with a slash")
	case strings.Contains(strings.TrimSuffix(f.Path, "*"), "*"):
		return f, errors.New("path may hold a * at its end only")
	case f.Times < Forever:
		return f, errors.New("times must be 1 or more, or -1 for until cleared")
	case f.Probability < 0 || f.Probability > 1:
		return f, errors.New("probability must be more than 0 and at most 1")
	case f.DelayMS < 0 || f.DelayMS > limit.Milliseconds():
		return f, fmt.Errorf("delay_ms must be from 0 to %d", limit.Milliseconds())
	case f.Status != 0 && !answers:
		return f, fmt.Errorf("status does not go with %s", f.Kind)
	case f.Done && f.Kind != StoredStatus:
		return f, fmt.Errorf("done does not go with %s", f.Kind)
	case f.RetryAfter < 0:
		return f, errors.New("retry_after must be 0 or more seconds")
	case !answers && (f.Type+f.Code+f.DeclineCode+f.AdviceCode+f.Message != "" || f.RetryAfter != 0):
		return f, fmt.Errorf("type, code, decline_code, advice_code, message and retry_after do not go with %s", f.Kind)
	}
	return f, nil
}

func (f Fault) delayLimit() time.Duration {
	if f.Kind == ListLag {
		return maxLag
	}
	return maxDelay
}

// matches tells whether the fault could act on a request of these traits.
func (f Fault) matches(method, path string, t Traits) bool {
	if f.Kind == NoWebhooks || f.Kind == ListLag && !t.List || f.Kind == StoredStatus && !t.Stores {
		return false
	}
	if f.Method != "" && f.Method != method || f.IdempotencyKey != "" && f.IdempotencyKey != t.IdempotencyKey {
		return false
	}
	return f.covers(path)
}

func (f Fault) covers(path string) bool {
	if prefix, ok := strings.CutSuffix(f.Path, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return f.Path == "" || f.Path == path
}

// hold is for how long a request is held before anything is done.
func (f *Fault) hold() time.Duration {
	if f == nil || f.Kind == ListLag {
		return 0
	}
	return time.Duration(f.DelayMS) * time.Millisecond
}

// Lag is how far lists are behind for a request that f acts on; 0 without such a fault. f may be nil.
func (f *Fault) Lag() time.Duration {
	if f == nil || f.Kind != ListLag {
		return 0
	}
	return time.Duration(f.DelayMS) * time.Millisecond
}
