package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
)

const (
	probeEvery  = time.Minute     // while all is well
	probeAgain  = 5 * time.Second // while it is not
	probeBound  = 10 * time.Second
	noAnswerYet = "no answer from Stripe yet"
)

// Probe reads our Stripe account regularly: who we are there, in which mode, and what time it is. It is a harmless read,
// and it fails when sending would. It is each process's own; how Stripe is for all of them is in its row. Safe for concurrent use.
type Probe struct {
	gateway *stripe.Gateway
	log     *slog.Logger
	doubt   chan struct{}
	health  *health // nil: nobody else is told
	fresh   rounds

	mu      sync.Mutex
	account charges.Account
	err     error
	since   time.Time // when err began
}

// NewProbe returns a probe that knows nothing until it runs.
func NewProbe(gateway *stripe.Gateway, log *slog.Logger) *Probe {
	p := &Probe{gateway: gateway, log: log, doubt: make(chan struct{}, 1), err: errors.New(noAnswerYet), since: time.Now()}
	p.fresh.ask = p.Read
	return p
}

// Run reads until ctx ends: each minute, every few seconds while there is no good answer, and soon after a Doubt.
func (p *Probe) Run(ctx context.Context) {
	for {
		// The error is kept in the probe, where readiness and the workers see it.
		next := probeEvery
		if err := p.Read(ctx); err != nil {
			next = probeAgain
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-p.doubt:
			timer.Stop()
		}
	}
}

// Doubt asks for a read soon: a call has just failed in a way that an outage or a broken key would explain.
func (p *Probe) Doubt() {
	select {
	case p.doubt <- struct{}{}:
	default: // one is asked for already
	}
}

// Read asks Stripe now. What it says is also this process's word on Stripe's health.
func (p *Probe) Read(ctx context.Context) error {
	err := p.read(ctx)
	p.health.probed(err)
	return err
}

func (p *Probe) read(ctx context.Context) error {
	// What is learned is for all workers, so a job that is cancelled must not make it an outage.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeBound)
	defer cancel()
	account, _, err := p.gateway.Probe(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.err != nil {
			p.log.Info("stripe.probe", "account", account.ID, "livemode", account.Livemode, "away_ms", time.Since(p.since).Milliseconds())
		}
		p.account, p.err = account, nil
		return nil
	}
	if p.err == nil || p.err.Error() == noAnswerYet {
		p.since = time.Now()
		p.log.Warn("stripe.probe", "error", err)
	}
	p.err = err
	return err
}

// known tells whether this process can call Stripe.
func (p *Probe) known() bool {
	_, _, err := p.State()
	return err == nil
}

// State returns the account that our key belongs to, or why that is not known now, and since when.
func (p *Probe) State() (account charges.Account, since time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.account, p.since, p.err
}

// here is what a worker may rely on when it asks what is allowed. With fresh the account is read for this very purpose, and for those that want it at
// the same time.
func (p *Probe) here(ctx context.Context, fresh bool) (charges.Here, error) {
	if fresh {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*probeBound) // for the one on its way, and for the next
		defer cancel()
		if err := p.fresh.join(bound); err != nil {
			p.Doubt()
			return charges.Here{}, err
		}
	}
	account, _, err := p.State()
	if err != nil {
		return charges.Here{}, err
	}
	now, ok := p.gateway.Clock()
	if !ok {
		return charges.Here{}, errors.New(noAnswerYet)
	}
	return charges.Here{Account: account, Clock: now, Fresh: fresh, Encode: p.gateway.Encode}, nil
}
