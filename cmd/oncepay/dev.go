package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// Tokens that dev accepts, so that a first charge needs no set-up.
const (
	devCaller   = "dev_caller"
	devOperator = "dev_operator"
)

type devCommand struct {
	DataDir       string   `default:".oncepay" help:"Where everything is kept; remove it to begin anew."`
	Listen        hostPort `env:"ONCEPAY_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the API listens."`
	WorkerListen  hostPort `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where the worker serves its probes and metrics."`
	SandboxListen hostPort `default:"127.0.0.1:12111" placeholder:"HOST:PORT" help:"Where the simulators listen."`
	StripeKey     string   `name:"stripe-secret-key" env:"STRIPE_SECRET_KEY" placeholder:"sk_test_..." help:"Talk to Stripe itself, with this key, instead of the simulator."`
	SendGridKey   string   `name:"sendgrid-api-key" env:"SENDGRID_API_KEY" placeholder:"SG..." help:"Talk to SendGrid itself, with this key, instead of the simulator."`
	StripeSecrets []string `name:"stripe-webhook-secrets" env:"STRIPE_WEBHOOK_SECRETS" placeholder:"whsec_...,..." help:"With Stripe itself: what its events are signed with, as shown by stripe listen."`
	SendGridKeys  []string `name:"sendgrid-webhook-keys" env:"SENDGRID_WEBHOOK_KEYS" placeholder:"KEY,..." help:"With SendGrid itself: what its events are verified with."`
	ReceiptFrom   string   `name:"receipt-from" env:"RECEIPT_FROM" default:"Oncepay <receipts@example.com>" help:"Sender of receipts."`
}

// Validate refuses what cannot work.
func (c *devCommand) Validate() error {
	w := c.worker(database{}, "http://127.0.0.1")
	signers := apiCommand{StripeSecrets: c.StripeSecrets, SendGridKeys: c.SendGridKeys}
	if err := errors.Join(w.checkProviders(), signers.checkSigners()); err != nil {
		return err
	}
	gateway, err := w.gateway()
	if err != nil {
		return err
	}
	if gateway.Livemode() {
		return errors.New("--stripe-secret-key: dev is for trying: its tokens are known to everybody; use a test key")
	}
	return nil
}

// Run starts everything in this process, but for PostgreSQL, which is its child, and stops all of it when told to.
func (c *devCommand) Run(ctx context.Context, log *slog.Logger) (err error) {
	ctx, cancel := withParent(ctx)
	defer cancel()
	pgtest.IgnoreEnvironment() // dev uses its own database, whatever the environment says

	// The ports first: one that is taken is the likeliest fault, and cheap to find.
	var listeners [3]net.Listener
	for i, flag := range []struct {
		name    string
		address hostPort
	}{{"--listen", c.Listen}, {"--sandbox-listen", c.SandboxListen}, {"--worker-listen", c.WorkerListen}} {
		if listeners[i], err = net.Listen("tcp", string(flag.address)); err != nil {
			return fmt.Errorf("%s: %w", flag.name, err)
		}
		defer listeners[i].Close()
	}
	apiAt, sandboxAt, workerAt := listeners[0], listeners[1], listeners[2]

	postgres, err := pgtest.Start(ctx, pgtest.Options{DataDir: filepath.Join(c.DataDir, "postgres"), Durable: true, Log: log})
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = errors.Join(err, postgres.Stop(bounded))
	}()
	db, err := c.prepare(ctx, postgres, log)
	if err != nil {
		return err
	}

	box, err := c.simulators(log)
	if err != nil {
		return err
	}
	signed, err := c.tell(box, apiAt.Addr())
	if err != nil {
		return errors.Join(err, box.Close())
	}

	// Each part is stopped only when those that need it have ended: API and worker, then the simulators, then PostgreSQL.
	parts, partsCtx := errgroup.WithContext(ctx)
	simulators, stopSimulators := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSimulators()
	simulated := make(chan error, 1)
	go func() { simulated <- serveSandbox(simulators, box, sandboxAt, log) }()
	parts.Go(func() error {
		signed.database, signed.KeyTTL = db, 24*time.Hour
		return signed.serve(partsCtx, apiAt, log)
	})
	parts.Go(func() error { return c.worker(db, localURL(sandboxAt.Addr())).work(partsCtx, workerAt, log) })
	parts.Go(func() error {
		select {
		case err := <-simulated:
			simulated <- err
			return err
		case <-postgres.Done():
			return postgres.Err()
		case <-partsCtx.Done():
			return nil
		}
	})
	c.announce(apiAt, sandboxAt, workerAt)
	err = parts.Wait()
	stopSimulators()
	return errors.Join(err, <-simulated)
}

func (c *devCommand) simulators(log *slog.Logger) (*sandbox.Sandbox, error) {
	s := sandboxCommand{Journal: filepath.Join(c.DataDir, "sandbox.journal")}
	return s.open(log)
}

// tell lets each simulator send its events to the API, and returns an API that verifies them. In place of a simulator that real keys
// have put aside, the API hears the provider itself.
func (c *devCommand) tell(box *sandbox.Sandbox, api net.Addr) (apiCommand, error) {
	url := localURL(api) + "/webhooks/"
	// URLs that the journal remembers are replaced, by none as well.
	told, signed := sandbox.Webhooks{StripeURL: url + "stripe", SendGridURL: url + "sendgrid"}, apiCommand{Shared: true}
	if c.StripeKey != "" {
		told.StripeURL, signed.StripeSecrets = "", c.StripeSecrets
	}
	if c.SendGridKey != "" {
		told.SendGridURL, signed.SendGridKeys = "", c.SendGridKeys
	}
	if err := box.SetWebhooks(told); err != nil {
		return signed, err
	}
	if c.StripeKey == "" {
		signed.StripeSecrets = []string{box.Webhooks().StripeSecret}
	}
	if c.SendGridKey == "" {
		signed.SendGridKeys = []string{box.SendGridPublicKey()}
	}
	return signed, nil
}

// localURL is how a listener of this machine is reached from it, one that listens at every address as well.
func localURL(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
	}
	return "http://" + at.String()
}

// prepare makes the database, its schema, and the tokens that everybody knows.
func (c *devCommand) prepare(ctx context.Context, postgres *pgtest.Server, log *slog.Logger) (database, error) {
	if err := postgres.CreateDatabase(ctx, "oncepay"); err != nil {
		return database{}, err
	}
	db := database{DatabaseURL: postgres.URL("oncepay"), Conns: 20}
	if _, err := migrations.Up(ctx, db.DatabaseURL, log); err != nil {
		return database{}, err
	}
	b, err := db.open(ctx, "dev", charges.Options{})
	if err != nil {
		return database{}, err
	}
	defer b.close()
	// The address holds a password, so it goes where only its owner reads it, for the other commands to be tried with.
	if err := os.WriteFile(filepath.Join(c.DataDir, "database-url"), []byte(db.DatabaseURL+"\n"), 0o600); err != nil {
		return database{}, err
	}
	return db, errors.Join(
		b.charges.AddToken(ctx, devCaller, "dev", charges.Caller),
		b.charges.AddToken(ctx, devOperator, "dev-operator", charges.Operator))
}

// worker is the worker's settings: the simulators, unless real keys were given.
func (c *devCommand) worker(db database, sandbox string) *workerCommand {
	w := &workerCommand{
		database: db, StripeKey: "sk_test_dev", StripeBase: sandbox, StripeRate: 25, MailRate: 50,
		rules:       rules{KeyWindow: charges.DefaultPolicy.Window, LookDelays: charges.DefaultPolicy.LookDelays},
		SendGridKey: "SG.dev", MailBase: sandbox, ReceiptFrom: c.ReceiptFrom, Charging: 32, Mailing: 8,
	}
	if c.StripeKey != "" {
		w.StripeKey, w.StripeBase = c.StripeKey, ""
	}
	if c.SendGridKey != "" {
		w.SendGridKey, w.MailBase = c.SendGridKey, ""
	}
	return w
}

// announce says where everything is; the first two lines are for scripts, too.
func (c *devCommand) announce(apiAt, sandboxAt, workerAt net.Listener) {
	url := "http://" + apiAt.Addr().String()
	fmt.Println("ready", url)
	fmt.Printf("curl -i %s/charge -H 'Authorization: Bearer %s' -H 'Idempotency-Key: %s' -H 'Prefer: wait=10' -H 'Content-Type: application/json' -d '%s'\n",
		url, devCaller, uuid.New(), `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","receipt_email":"buyer@example.com"}`)
	simulator := "simulator at http://" + sandboxAt.Addr().String()
	stripe, mail := simulator, simulator
	if c.StripeKey != "" {
		stripe = "api.stripe.com, test mode"
	}
	if c.SendGridKey != "" {
		mail = "api.sendgrid.com, which really mails"
	}
	fmt.Printf("Stripe: %s\nSendGrid: %s\n", stripe, mail)
	fmt.Printf("simulators http://%s/_sandbox/ledger, worker http://%s/metrics\n", sandboxAt.Addr(), workerAt.Addr())
	fmt.Printf("export DATABASE_URL=$(cat %s)   # for keys, outbox and the rest\n", shellWord(filepath.Join(c.DataDir, "database-url")))
}

// shellWord quotes a path that a shell would otherwise take apart.
func shellWord(path string) string {
	if regexp.MustCompile(`^[\w./][\w./-]*$`).MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
