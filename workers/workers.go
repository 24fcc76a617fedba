package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/stripe"
)

// River's own clocks. A killed worker's jobs run again within two minutes: after rescueAfter, once the rescuer, which
// looks every 30 s, has come by.
const (
	jobTimeout    = 45 * time.Second
	rescueAfter   = 60 * time.Second
	fetchCooldown = 50 * time.Millisecond
	fetchPoll     = 200 * time.Millisecond // a job whose commit came after its notification waits for this
	stopBound     = jobTimeout             // jobs in flight are given this long to end and be saved; most need a second or two
)

// Config is what the workers need.
type Config struct {
	Pool       *pgxpool.Pool
	Charges    *charges.Service
	Outbox     *outbox.Outbox
	Stripe     *stripe.Gateway
	Mailer     *sendgrid.Mailer
	StripeRate float64       // calls per second of this process; 0: 25
	ActionTTL  time.Duration // how long the buyer may take before the payment is canceled; 0: 24 h
	Follow     time.Duration // how soon Stripe is asked again about a payment that waits, and ever later, up to an hour; 0: 1 min
	Charging   int           // charges handled at once; 0: 32
	KeepEvents time.Duration // how long providers' events are kept; 0: 30 days
	PollOnly   bool          // find jobs by asking alone: notifications do not come through a pooler that keeps no sessions
	Log        *slog.Logger
	Metrics    prometheus.Registerer
}

const (
	mailRate = 50 // receipts per second, well below SendGrid's limit
	mailing  = 8  // receipts sent at once
)

// Workers are the running jobs of one process.
type Workers struct {
	client *river.Client[pgx.Tx]
	probe  *Probe
	log    *slog.Logger

	stopProbe context.CancelFunc
	probeDone chan struct{}
}

// Start begins to work. It returns once jobs are being fetched; Stop ends it.
func Start(ctx context.Context, c Config) (*Workers, error) {
	if c.StripeRate == 0 {
		c.StripeRate = 25
	}
	if c.ActionTTL == 0 {
		c.ActionTTL = 24 * time.Hour
	}
	if c.Follow == 0 {
		c.Follow = time.Minute
	}
	if c.Charging == 0 {
		c.Charging = 32
	}
	if c.KeepEvents == 0 {
		c.KeepEvents = 30 * 24 * time.Hour
	}
	metrics := NewMetrics(c.Metrics)
	c.Metrics.MustRegister(backlogCollector{c.Charges, c.Log})
	probe := NewProbe(c.Stripe, c.Log)
	client, err := newClient(c, probe, metrics)
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	// Jobs that find no account yet would put themselves off; one that cannot be read now is read again by Run.
	if err := probe.Read(ctx); err != nil {
		c.Log.Warn("workers.start", "error", err)
	}
	// The jobs outlive ctx: Stop ends them, and gives those in flight time to save their outcome.
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	probing, stopProbe := context.WithCancel(context.WithoutCancel(ctx))
	w := &Workers{client: client, probe: probe, log: c.Log, stopProbe: stopProbe, probeDone: make(chan struct{})}
	go func() {
		defer close(w.probeDone)
		probe.Run(probing)
	}()
	return w, nil
}

func newClient(c Config, probe *Probe, metrics *Metrics) (*river.Client[pgx.Tx], error) {
	jobs := river.NewWorkers()
	sender := &chargeWorker{charges: c.Charges, gateway: c.Stripe, probe: probe,
		pace: NewPace(c.StripeRate), log: c.Log, metrics: metrics}
	river.AddWorker(jobs, sender)
	river.AddWorker(jobs, &followWorker{sender: sender, actionTTL: c.ActionTTL, every: c.Follow})
	river.AddWorker(jobs, &refundsWorker{sender: sender})
	river.AddWorker(jobs, &receiptWorker{charges: c.Charges, mailer: c.Mailer, pace: NewPace(mailRate), log: c.Log, metrics: metrics})
	river.AddWorker(jobs, &expireWorker{charges: c.Charges, metrics: metrics})
	river.AddWorker(jobs, &sweepWorker{charges: c.Charges, outbox: c.Outbox, log: c.Log, metrics: metrics})
	queues := map[string]river.QueueConfig{
		outbox.QueueCharges:  {MaxWorkers: c.Charging},
		outbox.QueueReceipts: {MaxWorkers: mailing},
		outbox.QueueUpkeep:   {MaxWorkers: 2},
	}
	return river.NewClient(riverpgxv5.New(c.Pool), &river.Config{
		Queues:               queues,
		Workers:              jobs,
		PeriodicJobs:         append(periodicJobs(), webhookJobs(jobs, c)...),
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		FetchCooldown:        fetchCooldown,
		FetchPollInterval:    fetchPoll,
		PollOnly:             c.PollOnly,
		RetryPolicy:          retryPolicy{},
		// Our sessions' statement_timeout would cut a REINDEX CONCURRENTLY and leave a broken index behind.
		ReindexerSchedule: river.NeverSchedule(),
		ErrorHandler:      errorHandler{c.Log},
		Logger:            slog.New(levelFloor{c.Log.Handler(), slog.LevelWarn}),
	})
}

// Stop stops fetching and waits for what is in flight, at most about 45 s; what then still runs is cancelled and will
// run again elsewhere.
func (w *Workers) Stop(ctx context.Context) error {
	defer func() {
		w.stopProbe()
		<-w.probeDone
	}()
	soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
	defer cancel()
	err := w.client.Stop(soft)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	w.log.Warn("workers.stop", "reason", "calls still in flight were cancelled")
	hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return w.client.StopAndCancel(hard)
}

// Ready says why this worker cannot move money now; nil: it can.
func (w *Workers) Ready() error {
	_, since, err := w.probe.State()
	if err != nil {
		return fmt.Errorf("stripe: %w (since %s)", err, since.UTC().Format(time.RFC3339))
	}
	return nil
}
