// Package sandbox is a Stripe and a SendGrid on one port, for people and for tests.
//
// Stripe is at /v1/... and SendGrid at /v3/..., spoken as their client libraries speak, and the controls are at
// /_sandbox/... : move the clock, arm faults, read what really happened. In a test:
//
//	sb, err := sandbox.New(sandbox.Options{})
//	server := httptest.NewServer(sb)
//	...
//	err = sb.Fail(sandbox.Fault{Method: "POST", Path: "/v1/payment_intents", Kind: sandbox.DropAfter})
//	... charge ...
//	payments := sb.Ledger().PaymentIntents // exactly one
//
// At the end, Close before server.Close, which would wait for requests that a delay holds.
//
// The parts: frame (clock, faults, request log, journal, HTTP) knows no provider; stripetest and sendgridtest
// play theirs on it; this package puts them together and adds the controls. The README lists what they can play.
package sandbox

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
	"github.com/oncepay/oncepay/workers/sendgrid/sendgridtest"
	"github.com/oncepay/oncepay/workers/stripe/stripetest"
)

// Fault disturbs the requests it matches; see frame.Fault.
type Fault = frame.Fault

// The kinds of fault, and Times for one that stays armed until the faults are cleared.
const (
	DropBefore   = frame.DropBefore
	DropAfter    = frame.DropAfter
	Delay        = frame.Delay
	Status       = frame.Status
	StoredStatus = frame.StoredStatus
	Truncate     = frame.Truncate
	HTML         = frame.HTML
	ListLag      = frame.ListLag
	NoWebhooks   = frame.NoWebhooks

	Forever = frame.Forever
)

// Options of a sandbox; the zero value keeps everything in memory and logs nothing.
type Options struct {
	// JournalPath is the file that keeps state over a restart, for one process at a time; its directory is
	// made when missing. Armed faults are not kept. Empty: memory only.
	JournalPath string
	// Logger gets one line per request; nil for none.
	Logger *slog.Logger
}

// Sandbox serves both providers and the controls. It is safe for concurrent use.
type Sandbox struct {
	frame  *frame.Frame
	stripe *stripetest.Stripe
	mail   *sendgridtest.SendGrid
	mux    *http.ServeMux
}

// New makes a sandbox with the state that its journal holds. It fails if another process has the journal,
// or if the journal cannot be read.
func New(o Options) (*Sandbox, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	journal, err := frame.OpenJournal(o.JournalPath)
	if err != nil {
		return nil, err
	}
	clock := frame.NewClock(journal)
	s := &Sandbox{stripe: stripetest.New(clock, journal), mail: sendgridtest.New(clock, journal), mux: http.NewServeMux()}
	s.frame = frame.New(clock, journal, logger, map[string]frame.Provider{"/v1/": s.stripe, "/v3/": s.mail})
	if err := journal.Replay(logger, append(s.frame.Keepers(), s.stripe, s.mail)...); err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	s.routeControls()
	s.mux.Handle("/", s.frame)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close drops the requests that a delay holds, undone, and releases the journal.
func (s *Sandbox) Close() error { return s.frame.Close() }

// Fail arms a fault, beside those already armed. It fails for a fault that could never act as meant.
func (s *Sandbox) Fail(f Fault) error {
	_, err := s.frame.Faults.Arm(f)
	return err
}

// ClearFaults disarms every fault and says how many there were. Requests that a delay holds stay held.
func (s *Sandbox) ClearFaults() int { return s.frame.Faults.Clear() }

// Faults returns the armed faults, oldest first, with the Times that are left.
func (s *Sandbox) Faults() []Fault { return s.frame.Faults.Armed() }

// Now is the sandbox's time, which the Date header of its answers shows.
func (s *Sandbox) Now() time.Time { return s.frame.Clock.Now() }

// Advance moves the sandbox's time forward by d, which must be positive.
func (s *Sandbox) Advance(d time.Duration) error { return s.frame.Clock.Advance(d) }

// Authenticate plays the buyer of a payment in requires_action, who passes the bank's check or fails it.
func (s *Sandbox) Authenticate(paymentIntent string, passed bool) error {
	return s.stripe.Authenticate(paymentIntent, passed)
}

// Ledger is what really happened, whatever the clients were told.
type Ledger struct {
	Now            time.Time             `json:"now"`
	PaymentIntents []stripetest.Payment  `json:"payment_intents"`
	Refunds        []struct{}            `json:"refunds"` // always empty: refunds are not simulated
	Mails          []sendgridtest.Mail   `json:"mails"`
	Requests       []frame.LoggedRequest `json:"requests"`
}

// Ledger returns every payment and mail, and the last 10,000 requests, each oldest first.
func (s *Sandbox) Ledger() Ledger {
	return Ledger{
		Now: s.Now(), PaymentIntents: s.stripe.Ledger(), Refunds: []struct{}{},
		Mails: s.mail.Ledger(), Requests: s.frame.Requests(),
	}
}
