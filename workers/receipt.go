package workers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/transport"
)

// receiptWorker mails one receipt, at most once.
type receiptWorker struct {
	river.WorkerDefaults[outbox.SendReceipt]
	charges *charges.Service
	mailer  *sendgrid.Mailer
	pace    *Pace
	log     *slog.Logger
	metrics *Metrics
	health  *health // nil: nobody else is told how calls end
}

// Work claims the receipt, sends it and settles the claim. A kill in between leaves the claim, which becomes unknown.
// Where unknown receipts are sent again, the job comes back for that, after SendGrid's events had their time.
func (w *receiptWorker) Work(ctx context.Context, job *river.Job[outbox.SendReceipt]) error {
	if wait := w.pace.takeSoon(ctx); wait > 0 {
		return river.JobSnooze(wait)
	}
	id, began := job.Args.ChargeID, time.Now()
	claim, err := w.charges.ClaimReceipt(ctx, id)
	if errors.Is(err, charges.ErrNotFound) {
		w.log.Error("receipt.unknown", "charge_id", id, "job_id", job.ID)
		return river.JobCancel(err)
	}
	reportRestored(w.log, claim.Detected)
	switch {
	case err != nil:
		return err
	case claim.Wait > 0:
		return river.JobSnooze(claim.Wait)
	case !claim.Send:
		return nil
	}

	var result charges.ReceiptResult
	var hold time.Duration
	var sendErr error
	mail, err := sendgrid.Render(claim.Charge)
	if err != nil {
		result = charges.ReceiptResult{Status: charges.ReceiptFailed, Error: transport.Clean(err.Error())}
	} else {
		call := transport.WithNotAfter(context.WithoutCancel(ctx), began.Add(notAfter))
		mail.To = claim.Recipient
		var messageID string
		messageID, sendErr = w.mailer.Send(call, mail)
		result, hold = DecideReceipt(messageID, sendErr)
	}
	rendered := err == nil
	again, err := w.charges.SettleReceipt(ctx, id, claim.ID, result)
	if rendered && w.judge(ctx, began, sendErr) {
		hold = min(hold, mailBusyWait) // its queue is paused, and wakes when SendGrid does
	}
	w.report(id, result, time.Since(began), err)
	if err != nil {
		return err
	}
	if hold > 0 {
		return river.JobSnooze(jitter(hold) + time.Second)
	}
	if again > 0 {
		return river.JobSnooze(again)
	}
	return nil
}

// judge tells SendGrid's health what an answer says about it, and slows down where SendGrid asks for it. A worker that alone is refused stands
// back. It tells whether all have stopped.
func (w *receiptWorker) judge(ctx context.Context, began time.Time, err error) (stopped bool) {
	e := (*sendgrid.Error)(nil)
	answered := errors.As(err, &e)
	switch {
	case err == nil:
		w.health.succeeded(ctx)
	case !answered:
		if w.health.failed(ctx, began, outbox.Down, err, false) {
			return true
		}
		if w.health.failing() {
			w.health.standBack(mailDownWait, err)
		}
	case e.HTTPStatus == http.StatusTooManyRequests:
		w.pace.Hold(max(e.RetryAfter, mailBusyWait))
	case e.Foreign || e.HTTPStatus == http.StatusUnauthorized || e.HTTPStatus == http.StatusForbidden:
		if w.health.failed(ctx, began, outbox.Misconfigured, err, true) {
			return true
		}
		w.health.standBack(mailBrokeWait, err)
	case e.HTTPStatus >= 500:
		if w.health.failed(ctx, began, outbox.Down, err, false) {
			return true
		}
		w.pace.holdHere(e.RetryAfter)
	default: // it refuses this mail
		w.health.succeeded(ctx)
	}
	return false
}

func (w *receiptWorker) report(id any, r charges.ReceiptResult, took time.Duration, settleErr error) {
	if settleErr == nil {
		w.metrics.receipts.WithLabelValues(string(r.Status)).Inc()
	}
	level := slog.LevelInfo
	if r.Status != charges.ReceiptSent {
		level = slog.LevelWarn
	}
	attrs := []any{"charge_id", id, "status", r.Status, "message_id", r.MessageID, "error", r.Error, "duration_ms", took.Milliseconds()}
	if settleErr != nil {
		level, attrs = slog.LevelError, append(attrs, "settle_error", settleErr)
	}
	w.log.Log(context.Background(), level, "receipt.send", attrs...)
}

// How long receipts wait after SendGrid has turned one away without taking it.
const (
	mailBusyWait  = 5 * time.Second
	mailDownWait  = 15 * time.Second
	mailBrokeWait = time.Minute
)

// DecideReceipt maps SendGrid's answer to what is known of the mail: sent; surely not sent, and to be tried
// after wait; refused for good; or unknown, which is never tried again by itself.
// SendGrid answers 401 also for an account without credits, so that is an outage of ours, like a broken key, or a proxy that
// does not let us through.
func DecideReceipt(messageID string, err error) (r charges.ReceiptResult, wait time.Duration) {
	if err == nil {
		return charges.ReceiptResult{Status: charges.ReceiptSent, MessageID: messageID}, 0
	}
	r = charges.ReceiptResult{Status: charges.ReceiptPending, Error: transport.Clean(err.Error())}
	if errors.Is(err, transport.ErrNotSent) {
		return r, mailDownWait
	}
	e := (*sendgrid.Error)(nil)
	if !errors.As(err, &e) {
		r.Status = charges.ReceiptUnknown
		return r, 0
	}
	if e.Foreign {
		return r, max(e.RetryAfter, mailBrokeWait)
	}
	switch e.HTTPStatus {
	case http.StatusTooManyRequests:
		return r, max(e.RetryAfter, mailBusyWait)
	case http.StatusServiceUnavailable:
		return r, max(e.RetryAfter, mailDownWait)
	case http.StatusUnauthorized, http.StatusForbidden:
		return r, mailBrokeWait
	}
	if e.HTTPStatus >= 500 {
		r.Status = charges.ReceiptUnknown
		return r, 0
	}
	r.Status = charges.ReceiptFailed
	return r, 0
}
