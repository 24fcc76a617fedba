// Package sandbox is a Stripe and a SendGrid on one port, for people and for tests.
//
// Stripe is at /v1/... and SendGrid at /v3/..., spoken as their client libraries speak, and the controls are at
// /_sandbox/... : move the clock, arm faults, send webhooks late and twice, read what really happened. In a test:
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
// The parts: frame (clock, faults, request log, webhooks, journal, HTTP) knows no provider; stripetest and sendgridtest
// play theirs on it; this package puts them together and adds the controls. The README lists what they can play.
package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
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

// Webhooks that were sent and that are to be sent by hand; see frame.
type (
	Event    = frame.ToldEvent
	Dispatch = frame.Dispatch
	Sent     = frame.Sent
	Tamper   = frame.Tamper
)

// The states of an event, and what can be wrong with a Dispatch; see frame.
const (
	Recorded  = frame.Recorded
	Pending   = frame.Pending
	Delivered = frame.Delivered
	Abandoned = frame.Abandoned

	Flip          = frame.Flip
	Old           = frame.Old
	Future        = frame.Future
	Unsigned      = frame.Unsigned
	WrongKey      = frame.WrongKey
	NoCRLF        = frame.NoCRLF
	TwoSignatures = frame.TwoSignatures
)

// Options of a sandbox; the zero value keeps everything in memory and logs nothing.
type Options struct {
	// JournalPath is the file that keeps state over a restart, for one process at a time; its directory is
	// made when missing. Armed faults are not kept. Empty: memory only.
	JournalPath string
	// Webhooks says where events are sent. What it leaves empty is as the journal has it.
	Webhooks Webhooks
	// Logger gets one line per request and per webhook; nil for none.
	Logger *slog.Logger
}

// Sandbox serves both providers and the controls. It is safe for concurrent use.
type Sandbox struct {
	frame  *frame.Frame
	stripe *stripetest.Stripe
	mail   *sendgridtest.SendGrid
	mux    *http.ServeMux
	logger *slog.Logger

	stop    context.CancelFunc // ends the passing of time
	stopped sync.WaitGroup
}

// New makes a sandbox with the state that its journal holds, and begins to send the webhooks that are pending. It
// fails if another process has the journal, if the journal cannot be read, or if the options' webhooks are refused.
func New(o Options) (*Sandbox, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	journal, err := frame.OpenJournal(o.JournalPath)
	if err != nil {
		return nil, err
	}
	clock, faults := frame.NewClock(journal), &frame.Faults{}
	webhooks := frame.NewWebhooks(clock, journal, faults, logger, map[string]frame.Courier{
		stripeName: stripetest.Courier, sendgridName: sendgridtest.Courier,
	})
	s := &Sandbox{
		stripe: stripetest.New(clock, journal, webhooks), mail: sendgridtest.New(clock, journal, webhooks),
		mux: http.NewServeMux(), logger: logger,
	}
	s.frame = frame.New(clock, faults, webhooks, journal, logger, map[string]frame.Provider{"/v1/": s.stripe, "/v3/": s.mail})
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	if err := s.begin(journal, o.Webhooks); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.routeControls()
	s.mux.Handle("/", s.frame)
	s.stopped.Go(func() { s.passTime(ctx) })
	return s, nil
}

// begin takes up what the journal holds.
func (s *Sandbox) begin(journal *frame.Journal, wanted Webhooks) error {
	if err := journal.Replay(s.logger, append(s.frame.Keepers(), s.stripe, s.mail)...); err != nil {
		return err
	}
	if err := s.SetWebhooks(wanted.over(s.Webhooks())); err != nil {
		return err
	}
	if err := s.stripe.Settle(); err != nil {
		return err
	}
	return s.frame.Webhooks.Start()
}

// passTime notices what changes by itself, once a second; Advance does so at once.
func (s *Sandbox) passTime(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-second.C:
		case <-ctx.Done():
			return
		}
		if err := s.stripe.Settle(); err != nil {
			s.logger.Error("sandbox.settle failed", "err", err)
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close drops the requests that a delay holds, undone, stops sending webhooks, and releases the journal.
func (s *Sandbox) Close() error {
	s.stop()
	s.stopped.Wait()
	return s.frame.Close()
}

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

// Advance moves the sandbox's time forward by d, which must be positive. What is due by then has happened when it returns.
func (s *Sandbox) Advance(d time.Duration) error {
	if err := s.frame.Clock.Advance(d); err != nil {
		return err
	}
	return s.stripe.Settle()
}

// Authenticate plays the buyer of a payment in requires_action, who passes the bank's check or fails it.
func (s *Sandbox) Authenticate(paymentIntent string, passed bool) error {
	return s.stripe.Authenticate(paymentIntent, passed)
}

// FailRefund lets a refund fail days after it was made; see stripetest.
func (s *Sandbox) FailRefund(refund, reason string) error { return s.stripe.FailRefund(refund, reason) }

// Dispute plays a buyer who disputes a payment, and the bank that decides; see stripetest.
func (s *Sandbox) Dispute(paymentIntent string, c Challenge) error {
	return s.stripe.Dispute(paymentIntent, c)
}

// Challenge says what a dispute is about and how it ends.
type Challenge = stripetest.Challenge

// Ledger is what really happened, whatever the clients were told.
type Ledger struct {
	Now            time.Time             `json:"now"`
	PaymentIntents []stripetest.Payment  `json:"payment_intents"`
	Refunds        []stripetest.Refund   `json:"refunds"`
	Disputes       []stripetest.Dispute  `json:"disputes"`
	Mails          []sendgridtest.Mail   `json:"mails"`
	Requests       []frame.LoggedRequest `json:"requests"`
}

// Ledger returns every payment, refund, dispute and mail, and the last 10,000 requests, each oldest first.
func (s *Sandbox) Ledger() Ledger {
	return Ledger{
		Now: s.Now(), PaymentIntents: s.stripe.Payments(), Refunds: s.stripe.Refunds(), Disputes: s.stripe.Disputes(),
		Mails: s.mail.Ledger(), Requests: s.frame.Requests(),
	}
}
