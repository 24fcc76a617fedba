package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
)

type apiCommand struct {
	database `embed:""`
	late     `embed:""`
	Listen   hostPort      `env:"ONCEPAY_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where to listen."`
	KeyTTL   time.Duration `name:"key-ttl" env:"ONCEPAY_KEY_TTL" default:"24h" help:"How long an answer is stored under its idempotency key."`
	Shared   bool          `name:"shared-commits" env:"ONCEPAY_SHARED_COMMITS" default:"true" negatable:"" help:"Let requests that wait share a commit. Without it each has one of its own, which is slower: it is there to measure by."`

	StripeSecrets  []string      `name:"stripe-webhook-secrets" env:"STRIPE_WEBHOOK_SECRETS" placeholder:"whsec_...,..." help:"Secrets of the webhook endpoint at Stripe; any of them is good. Without one, Stripe's events are refused."`
	SendGridKeys   []string      `name:"sendgrid-webhook-keys" env:"SENDGRID_WEBHOOK_KEYS" placeholder:"KEY,..." help:"Verification keys of the event webhook at SendGrid; any of them is good. Without one, SendGrid's events are refused."`
	SendGridWindow time.Duration `name:"sendgrid-webhook-window" env:"SENDGRID_WEBHOOK_WINDOW" default:"10m" help:"How old the signature of SendGrid's events may be."`
}

// Validate refuses what cannot work.
func (c *apiCommand) Validate() error {
	if c.KeyTTL < time.Minute || c.KeyTTL > 10*365*24*time.Hour {
		return fmt.Errorf("--key-ttl must be from 1m to ten years")
	}
	if err := c.checkSigners(); err != nil {
		return err
	}
	if c.SendGridWindow < time.Second || c.SendGridWindow > 7*24*time.Hour {
		return fmt.Errorf("--sendgrid-webhook-window must be from 1s to a week")
	}
	return c.database.Validate()
}

// checkSigners refuses what no event could be verified with.
func (c *apiCommand) checkSigners() error {
	for _, secret := range c.StripeSecrets {
		if err := api.CheckStripeWebhookSecret(secret); err != nil {
			return fmt.Errorf("--stripe-webhook-secrets: %w", err)
		}
	}
	for _, key := range c.SendGridKeys {
		if _, err := api.ParseSendGridWebhookKey(key); err != nil {
			return fmt.Errorf("--sendgrid-webhook-keys: %w", err)
		}
	}
	return nil
}

// Run serves until the process is told to stop.
func (c *apiCommand) Run(ctx context.Context, log *slog.Logger) error {
	collectRarely()
	listener, err := net.Listen("tcp", string(c.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	return c.serve(ctx, listener, log)
}

func (c *apiCommand) serve(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	defer listener.Close()
	registry := newRegistry()
	b, err := c.open(ctx, "api", charges.Options{KeyTTL: c.KeyTTL, Apart: !c.Shared, Observe: observeShared(registry),
		Restored: func(r charges.Restoration) { r.Report(log) }})
	if err != nil {
		return err
	}
	defer b.close()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncepay_creates_waiting", Help: "POST /charge that wait for a commit that they can share, or for another under the same key or reference.",
	}, func() float64 { return float64(b.charges.Queued()) }))
	server, err := api.New(api.Config{
		Charges: b.charges, Ready: b.schema, Log: log, Metrics: registry, Version: version(),
		StripeWebhookSecrets: c.StripeSecrets, SendGridWebhookKeys: c.SendGridKeys, SendGridWebhookWindow: c.SendGridWindow,
	})
	if err != nil {
		return err
	}
	log.Info("api.listen", "address", listener.Addr().String(), "key_ttl", c.KeyTTL.String(), "shared_commits", c.Shared,
		"stripe_webhook_secrets", len(c.StripeSecrets), "sendgrid_webhook_keys", len(c.SendGridKeys))

	// It serves all the same, 503s for now, but whoever starts it too early reads why.
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = b.awaitSchema(watching, log) // only ever that it was told to stop
	}()
	defer func() {
		stop()
		<-watched
	}()
	return server.Serve(ctx, listener)
}

// newRegistry holds what every process of ours shows of itself.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
