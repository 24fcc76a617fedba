package workers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/stripe"
)

const (
	// elsewherePoll is how often it is asked whether somebody else has read what is needed.
	elsewherePoll = 250 * time.Millisecond

	// elsewhereWait is how long a job waits for that in place. It is long, because a job that comes back asks Stripe for the time again, and
	// takes tokens from whoever reads.
	elsewhereWait = 10 * time.Second
)

// readTogether reads what the look needs, or waits for whoever is reading it. It is done when Begin can be asked again, after the wait;
// else the look says how far it came and what cut it short.
func (w *chargeWorker) readTogether(ctx, call context.Context, begun charges.Begun) (l charges.Look, wait time.Duration, done bool, err error) {
	patience := time.Now().Add(elsewhereWait)
	for {
		hold, turn, err := w.charges.TakeReading(ctx, begun)
		if err != nil {
			return l, 0, false, err
		}
		switch {
		case turn == charges.AllRead:
			return l, 0, true, nil
		case turn == charges.ReadOn:
			stopped, err := w.read(call, &hold)
			if err != nil {
				return l, 0, false, err
			}
			if stopped != nil {
				l = charges.Look{ID: begun.Resume.ID, Begun: hold.Begun.Database, Seen: hold.Seen, Readings: []int64{hold.ID}, Error: stopped.Error(),
					Restoration: begun.NewestRestoration()}
				return l, 0, false, nil
			}
			continue
		case time.Now().After(patience):
			return l, jitter(elsewhereWait), true, nil
		}
		select {
		case <-time.After(elsewherePoll):
		case <-ctx.Done():
			return l, time.Second, true, nil
		}
	}
}

// read reads the pages that are left, and saves each as soon as the next one is asked for. stopped says why there is more; err, that
// it could not be saved.
func (w *chargeWorker) read(ctx context.Context, hold *charges.Hold) (stopped, err error) {
	began, first := time.Now(), hold.Seen
	defer func() {
		w.log.Info("reading.read", "reading_id", hold.ID, "from", hold.From, "to", hold.To, "seen", hold.Seen, "read", hold.Seen-first,
			"complete", hold.Complete, "error", stopped, "duration_ms", time.Since(began).Milliseconds())
	}()
	var page []charges.News
	var saveErr error
	before := func(ctx context.Context) error {
		if len(page) > 0 {
			if saveErr = w.charges.SaveReading(ctx, hold, page, false, nil); saveErr != nil {
				return saveErr
			}
			page = nil
		}
		return w.pace.Wait(ctx)
	}
	query := stripe.Query{From: hold.From, To: hold.To, After: hold.After, Before: before}
	for payment, listErr := range w.gateway.List(ctx, query) {
		if listErr != nil {
			stopped = listErr
			break
		}
		page = append(page, payment)
	}
	switch {
	case errors.Is(saveErr, charges.ErrLostHold):
		return saveErr, nil
	case saveErr != nil:
		return nil, saveErr
	case refusesToGoOn(stopped, hold.After):
		return stopped, w.charges.DropReading(ctx, *hold)
	}
	w.heed(stopped)
	if err := w.charges.SaveReading(ctx, hold, page, stopped == nil, stopped); err != nil && !errors.Is(err, charges.ErrLostHold) {
		return nil, err
	} else if err != nil {
		return err, nil
	}
	return stopped, nil
}

// refusesToGoOn tells whether Stripe does not know the payment that was read last any more: test data can be deleted.
func refusesToGoOn(err error, after string) bool {
	e := (*stripe.Error)(nil)
	return after != "" && errors.As(err, &e) && (e.HTTPStatus == http.StatusBadRequest || e.HTTPStatus == http.StatusNotFound)
}
