package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox"
)

type sandboxCommand struct {
	Listen  hostPort `default:"127.0.0.1:12111" placeholder:"HOST:PORT" help:"Where to listen: Stripe at /v1, SendGrid at /v3, controls at /_sandbox."`
	Journal string   `placeholder:"FILE" help:"Keep the state in this file over a restart; its directory must exist. Without it, it is kept in memory."`

	StripeWebhookURL    string `name:"stripe-webhook-url" env:"STRIPE_WEBHOOK_URL" placeholder:"URL" help:"Where Stripe's events are sent; without it they are recorded only."`
	StripeWebhookSecret string `name:"stripe-webhook-secret" env:"STRIPE_WEBHOOK_SECRET" placeholder:"whsec_..." help:"What signs Stripe's events; made when missing, and shown at /_sandbox/webhooks."`
	SendGridWebhookURL  string `name:"sendgrid-webhook-url" env:"SENDGRID_WEBHOOK_URL" placeholder:"URL" help:"Where SendGrid's events are sent; the key to verify them with is shown at /_sandbox/webhooks."`
}

// Validate refuses addresses and a secret that could not be used, and a journal in a directory that is not there: that is likelier a
// slip than a wish.
func (c *sandboxCommand) Validate() error {
	for flag, webhooks := range map[string]sandbox.Webhooks{
		"--stripe-webhook-url": {StripeURL: c.StripeWebhookURL}, "--stripe-webhook-secret": {StripeSecret: c.StripeWebhookSecret},
		"--sendgrid-webhook-url": {SendGridURL: c.SendGridWebhookURL},
	} {
		if err := webhooks.Validate(); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if c.Journal == "" {
		return nil
	}
	dir := filepath.Dir(c.Journal)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--journal: there is no directory %s", dir)
	}
	return nil
}

// Run serves until the process is told to stop.
func (c *sandboxCommand) Run(ctx context.Context, log *slog.Logger) error {
	collectRarely()
	listener, err := net.Listen("tcp", string(c.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	box, err := c.open(log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Printf("sandbox http://%s\n", listener.Addr())
	return serveSandbox(ctx, box, listener, log)
}

func (c *sandboxCommand) open(log *slog.Logger) (*sandbox.Sandbox, error) {
	return sandbox.New(sandbox.Options{
		JournalPath: c.Journal, Logger: log,
		Webhooks: sandbox.Webhooks{StripeURL: c.StripeWebhookURL, StripeSecret: c.StripeWebhookSecret, SendGridURL: c.SendGridWebhookURL},
	})
}

// serveSandbox serves until ctx ends, and closes the sandbox.
func serveSandbox(ctx context.Context, box *sandbox.Sandbox, listener net.Listener, log *slog.Logger) (err error) {
	defer listener.Close()
	defer func() { err = errors.Join(err, box.Close()) }()
	server := &http.Server{Handler: box, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	select {
	case err := <-serving:
		return err
	case <-ctx.Done():
	}
	// Requests that a fault holds back are cut off: nobody waits for a simulator.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return server.Close()
	}
	return nil
}
