package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncepay/oncepay/outbox"
)

// Status says why this worker cannot do its work now, nil: it can; and what else should be known of it. An outage of either provider is a
// reason, and so is one that this process alone cannot call; a trial is none, and neither is an operator's pause: those are notes, as are
// who has paused what and why. Where the database cannot be asked that is the reason, and there are no notes.
func (w *Workers) Status(ctx context.Context) (notes []string, err error) {
	var why []error
	for _, p := range outbox.Providers {
		h, err := w.status.Health(ctx, p)
		if err != nil {
			return nil, err
		}
		why = append(why, w.unready(h))
		if h.PausedBy != "" {
			notes = append(notes, fmt.Sprintf("%s is paused by %s: %s (since %s)", h.Provider, h.PausedBy, h.PausedBecause, stamp(h.PausedAt)))
		}
		if h.Trial() {
			notes = append(notes, fmt.Sprintf("%s was %s: %s (since %s), and is on trial", h.Provider, h.Outage, h.Reason, stamp(h.Since)))
		}
	}
	return notes, errors.Join(why...)
}

func (w *Workers) unready(h outbox.Health) error {
	if h.Outage != "" && !h.Trial() {
		return fmt.Errorf("%s is %s: %s (since %s)", h.Provider, h.Outage, h.Reason, stamp(h.Since))
	}
	if h.Provider == outbox.Stripe {
		if _, since, err := w.probe.State(); err != nil {
			return fmt.Errorf("stripe, as this worker alone sees it: %w (since %s)", err, stamp(since))
		}
	}
	if h.Provider == outbox.SendGrid {
		if since, why := w.mail.stoodBack(); why != nil {
			return fmt.Errorf("sendgrid, as this worker alone sees it: %w (since %s)", why, stamp(since))
		}
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
