package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/stripe"
)

type workerCommand struct {
	database    `embed:""`
	rules       `embed:""`
	late        `embed:""`
	Listen      hostPort      `name:"listen" env:"ONCEPAY_WORKER_LISTEN" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Where /healthz, /readyz and /metrics are served."`
	StripeKey   string        `name:"stripe-secret-key" env:"STRIPE_SECRET_KEY" required:"" placeholder:"sk_..." help:"Stripe's secret key, or a restricted one that may write PaymentIntents and read the account."`
	StripeBase  string        `name:"stripe-api-base" env:"STRIPE_API_BASE" default:"https://api.stripe.com" placeholder:"URL" help:"Stripe's API."`
	StripeRate  perSecond     `name:"stripe-rate" env:"ONCEPAY_STRIPE_RATE" default:"25/s" placeholder:"N/s" help:"Most calls to Stripe per second, of all workers together: each of them has to be told the same."`
	SendGridKey string        `name:"sendgrid-api-key" env:"SENDGRID_API_KEY" required:"" placeholder:"SG..." help:"SendGrid's API key, with the permission to send mail."`
	MailBase    string        `name:"sendgrid-api-base" env:"SENDGRID_API_BASE" default:"https://api.sendgrid.com" placeholder:"URL" help:"SendGrid's API."`
	MailRate    perSecond     `name:"sendgrid-rate" env:"ONCEPAY_SENDGRID_RATE" default:"50/s" placeholder:"N/s" help:"Most receipts per second, of all workers together: each of them has to be told the same."`
	ReceiptFrom string        `name:"receipt-from" env:"RECEIPT_FROM" required:"" placeholder:"ADDRESS" help:"Sender of receipts, such as 'Shop <receipts@shop.example>'."`
	Charging    int           `name:"concurrency" env:"ONCEPAY_CONCURRENCY" default:"32" help:"New charges handled at once by this process, and half as many of the backlog."`
	Mailing     int           `name:"receipt-concurrency" env:"ONCEPAY_RECEIPT_CONCURRENCY" default:"8" help:"Receipts sent at once by this process. As many may be left unknown where it is killed, or SendGrid hangs."`
	ActionTTL   time.Duration `name:"action-ttl" env:"ONCEPAY_ACTION_TTL" default:"24h" help:"How long the buyer may take to authenticate; then the payment is canceled at Stripe."`
	KeepEvents  time.Duration `name:"webhook-retention" env:"ONCEPAY_WEBHOOK_RETENTION" default:"720h" help:"How long what Stripe and SendGrid have told is kept, once it was applied or ignored."`
	KeepSent    time.Duration `name:"attempt-retention" env:"ONCEPAY_ATTEMPT_RETENTION" default:"9600h" help:"How long the requests to Stripe are kept for a charge that is final and has its payment."`
}

// Validate refuses what cannot work, without calling anybody.
func (c *workerCommand) Validate() error {
	switch {
	case c.KeepEvents < 72*time.Hour || c.KeepEvents > 10*365*24*time.Hour:
		return errors.New("--webhook-retention must be from 72h, for which Stripe sends an event again, to ten years")
	case c.KeepSent < 90*24*time.Hour || c.KeepSent > 10*365*24*time.Hour:
		return errors.New("--attempt-retention must be from 2160h, three times as long as a restored database is mistrusted, to ten years")
	case c.ActionTTL < time.Minute || c.ActionTTL > 30*24*time.Hour:
		return errors.New("--action-ttl must be from 1m to 30 days")
	case c.Charging < 1 || c.Charging > 1000:
		return errors.New("--concurrency must be from 1 to 1000")
	case c.Mailing < 1 || c.Mailing > 1000:
		return errors.New("--receipt-concurrency must be from 1 to 1000")
	}
	return cmp.Or(c.rules.Validate(), c.checkProviders(), c.database.Validate())
}

// checkProviders refuses keys and addresses that cannot be used, one at a time, to name the setting that is at fault.
func (c *workerCommand) checkProviders() error {
	if _, err := stripe.New(stripe.Config{SecretKey: c.StripeKey}); err != nil {
		return fmt.Errorf("--stripe-secret-key: %w", err)
	}
	if _, err := c.gateway(); err != nil {
		return fmt.Errorf("--stripe-api-base: %w", err)
	}
	const anybody = "receipts@example.com"
	if _, err := sendgrid.New(sendgrid.Config{APIKey: c.SendGridKey, From: anybody}); err != nil {
		return fmt.Errorf("--sendgrid-api-key: %w", err)
	}
	if _, err := sendgrid.New(sendgrid.Config{APIKey: c.SendGridKey, BaseURL: c.MailBase, From: anybody}); err != nil {
		return fmt.Errorf("--sendgrid-api-base: %w", err)
	}
	if _, err := c.mailer(); err != nil {
		return fmt.Errorf("--receipt-from: %w", err)
	}
	return nil
}

// aroundCalls, unless nil, is put around the RoundTripper of each provider. It is for tests, which end the process there.
var aroundCalls func(http.RoundTripper) http.RoundTripper

func (c *workerCommand) gateway() (*stripe.Gateway, error) {
	return stripe.New(stripe.Config{SecretKey: c.StripeKey, BaseURL: c.StripeBase, Wrap: aroundCalls})
}

func (c *workerCommand) mailer() (*sendgrid.Mailer, error) {
	return sendgrid.New(sendgrid.Config{APIKey: c.SendGridKey, BaseURL: c.MailBase, From: c.ReceiptFrom, Wrap: aroundCalls})
}

// Run works until the process is told to stop.
func (c *workerCommand) Run(ctx context.Context, log *slog.Logger) error {
	collectRarely()
	listener, err := net.Listen("tcp", string(c.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	return c.work(ctx, listener, log)
}

func (c *workerCommand) work(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	defer listener.Close()
	gateway, err := c.gateway()
	if err != nil {
		return usageError{err}
	}
	mailer, err := c.mailer()
	if err != nil {
		return usageError{err}
	}
	registry := newRegistry()
	options := c.options()
	options.Observe = observeShared(registry)
	b, err := c.open(ctx, "worker", options)
	if err != nil {
		return err
	}
	defer b.close()

	var running atomic.Pointer[workers.Workers]
	ready := func(ctx context.Context) (notes []string, err error) {
		unfit, err := b.schema(ctx), errors.New("the worker has not started yet")
		if w := running.Load(); w != nil {
			notes, err = w.Status(ctx)
		}
		return notes, errors.Join(unfit, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusOK, nil, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		notes, err := ready(ctx)
		if err != nil {
			writeStatus(w, http.StatusServiceUnavailable, err, notes)
			return
		}
		writeStatus(w, http.StatusOK, nil, notes)
	})
	status := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	serving := make(chan error, 1)
	go func() { serving <- status.Serve(listener) }()
	defer status.Close()
	log.Info("worker.listen", "address", listener.Addr().String())

	if err := b.awaitSchema(ctx, log); err != nil {
		return nil // told to stop before there was anything to work on
	}
	w, err := workers.Start(ctx, workers.Config{
		Pool: b.pool, Charges: b.charges, Outbox: b.outbox, Readiness: b.ready, Stripe: gateway, Mailer: mailer,
		StripeRate: float64(c.StripeRate), MailRate: float64(c.MailRate), ActionTTL: c.ActionTTL, Charging: c.Charging, Mailing: c.Mailing,
		KeepEvents: c.KeepEvents, KeepSent: c.KeepSent, Log: log, Metrics: registry,
		PollOnly: c.Pooler == outbox.TransactionPooler,
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // as above
	}
	if err != nil {
		return err
	}
	running.Store(w)
	log.Info("worker.start", "livemode", gateway.Livemode(), "stripe_rate", float64(c.StripeRate))

	var failed error
	select {
	case <-ctx.Done():
	case failed = <-serving:
	}
	log.Info("worker.stop", "reason", "calls in flight end and are saved first")
	return errors.Join(failed, w.Stop(ctx))
}

// writeStatus answers a probe; err says in lines of its own why not, and notes what else should be known.
func writeStatus(w http.ResponseWriter, code int, err error, notes []string) {
	body := struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons,omitempty"`
		Notes   []string `json:"notes,omitempty"`
	}{Status: "ok", Notes: notes}
	if err != nil {
		body.Status = "unavailable"
		body.Reasons = reasons(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

const databaseAway = "the database cannot be asked"

// reasons takes joined errors apart. A connection error names hosts and users, which are nobody's business.
func reasons(err error) (all []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			for _, reason := range reasons(e) {
				if !slices.Contains(all, reason) {
					all = append(all, reason)
				}
			}
		}
		return all
	}
	if outbox.Unavailable(err) && !errors.Is(err, outbox.ErrPooler) {
		return []string{databaseAway}
	}
	return []string{err.Error()}
}
