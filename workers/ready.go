package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncepay/oncepay/outbox"
)

// readyBound is for the database's answer, where a provider's state is.
const readyBound = 5 * time.Second

// Ready says why this worker cannot do its work now; nil: it can. An outage of either provider is a reason, and so is an account that this
// process alone cannot read; a trial is none, and neither is an operator's pause: see [Workers.Notes].
func (w *Workers) Ready() error {
	all, err := w.providers()
	if err != nil {
		return err
	}
	var why []error
	for _, h := range all {
		_, since, probeErr := w.probe.State()
		switch {
		case h.Outage != "" && !h.Trial():
			why = append(why, fmt.Errorf("%s is %s: %s (since %s)", h.Provider, h.Outage, h.Reason, stamp(h.Since)))
		case h.Provider == outbox.Stripe && probeErr != nil:
			why = append(why, fmt.Errorf("stripe, as this worker alone sees it: %w (since %s)", probeErr, stamp(since)))
		}
	}
	return errors.Join(why...)
}

// Notes say what else should be known of a worker that is ready: who has paused what, and what is on trial. They are empty if the
// database cannot be asked, which Ready says.
func (w *Workers) Notes() []string {
	all, err := w.providers()
	if err != nil {
		return nil
	}
	var notes []string
	for _, h := range all {
		if h.PausedBy != "" {
			notes = append(notes, fmt.Sprintf("%s is paused by %s: %s (since %s)", h.Provider, h.PausedBy, h.PausedBecause, stamp(h.PausedAt)))
		}
		if h.Trial() {
			notes = append(notes, fmt.Sprintf("%s was %s: %s (since %s), and is on trial", h.Provider, h.Outage, h.Reason, stamp(h.Since)))
		}
	}
	return notes
}

func (w *Workers) providers() ([]outbox.Health, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyBound)
	defer cancel()
	var all []outbox.Health
	for _, p := range outbox.Providers {
		h, err := w.outbox.Health(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
