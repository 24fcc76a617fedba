package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

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
	keepJobs      = time.Hour              // River keeps a finished job for a day; nothing here reads it again, and the charge's trail says more
	stopBound     = jobTimeout             // jobs in flight are given this long to end and be saved; most need a second or two
)

// Config is what the workers need.
type Config struct {
	Pool       *pgxpool.Pool
	Charges    *charges.Service
	Outbox     *outbox.Outbox
	Readiness  *outbox.Outbox // whom [Workers.Status] asks, to tell how they are while all connections of Pool are busy; nil: Outbox
	Stripe     *stripe.Gateway
	Mailer     *sendgrid.Mailer
	StripeRate float64       // calls per second of all workers together; 0: 25
	MailRate   float64       // receipts per second of all workers together; 0: 50
	ActionTTL  time.Duration // how long the buyer may take before the payment is canceled; 0: 24 h
	Follow     time.Duration // how soon Stripe is asked again about a payment that waits, and ever later, up to an hour; 0: 1 min
	Charging   int           // new charges handled at once, and half as many old ones; 0: 32
	Mailing    int           // receipts sent at once; as many become unknown where the process is killed, or SendGrid hangs; 0: 8
	KeepEvents time.Duration // how long providers' events are kept; 0: 30 days
	KeepSent   time.Duration // how long the attempts of a final charge are kept; 0: 400 days
	PollOnly   bool          // find jobs by asking alone: notifications do not come through a pooler that keeps no sessions
	Log        *slog.Logger
	Metrics    prometheus.Registerer
}

const (
	mailRate = 50 // receipts per second of all workers together unless told otherwise, well below SendGrid's limit
)

// Workers are the running jobs of one process.
type Workers struct {
	client *river.Client[pgx.Tx]
	status *outbox.Outbox
	probe  *Probe
	log    *slog.Logger

	queues   []*retreatable
	stopping chan struct{} // closed by Stop: no job waits for a call any more

	mail *health // SendGrid's, as this process sees it

	stopProbe, stopRetreat context.CancelFunc
	probeDone, retreatDone chan struct{}
}

// Start begins to work. It returns once jobs are being fetched; Stop ends it.
func Start(ctx context.Context, c Config) (*Workers, error) {
	if c.StripeRate == 0 {
		c.StripeRate = 25
	}
	if c.MailRate == 0 {
		c.MailRate = mailRate
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
	if c.Mailing == 0 {
		c.Mailing = 8
	}
	if c.KeepEvents == 0 {
		c.KeepEvents = 30 * 24 * time.Hour
	}
	if c.KeepSent == 0 {
		c.KeepSent = keepAttempts
	}
	if c.Readiness == nil {
		c.Readiness = c.Outbox
	}
	metrics := NewMetrics(c.Metrics)
	c.Metrics.MustRegister(backlogCollector{c.Charges, c.Log}, restorationCollector{c.Charges, c.Log}, providerCollector{c.Outbox, c.Log},
		kindCollector{c.Outbox, c.Log})
	if err := confirmIdentity(ctx, c.Charges, c.Log); err != nil {
		c.Log.Warn("workers.start", "error", err) // Begin asks again
	}
	probe := NewProbe(c.Stripe, c.Log)
	w := &Workers{status: c.Readiness, probe: probe, log: c.Log, stopping: make(chan struct{}), probeDone: make(chan struct{})}
	client, err := newClient(c, w, metrics)
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	w.client = client
	// Jobs that find no account yet would put themselves off; one that cannot be read now is read again by Run. If that is an outage, the
	// queues are paused before they start.
	if err := probe.Read(ctx); err != nil {
		c.Log.Warn("workers.start", "error", err)
	}
	// The jobs outlive ctx: Stop ends them, and gives those in flight time to save their outcome.
	if err := startClient(ctx, client, c.Log); err != nil {
		return nil, err
	}
	queues := &retreat{client: client, log: c.Log, queues: w.queues}
	queues.follow(context.WithoutCancel(ctx))
	retreating, stopRetreat := context.WithCancel(context.WithoutCancel(ctx))
	w.stopRetreat, w.retreatDone = stopRetreat, make(chan struct{})
	go func() {
		defer close(w.retreatDone)
		queues.run(retreating)
	}()
	probing, stopProbe := context.WithCancel(context.WithoutCancel(ctx))
	w.stopProbe = stopProbe
	go func() {
		defer close(w.probeDone)
		var both sync.WaitGroup
		both.Go(func() { keepConfirming(probing, c.Charges, c.Log) })
		probe.Run(probing)
		both.Wait()
	}()
	return w, nil
}

func newClient(c Config, w *Workers, metrics *Metrics) (*river.Client[pgx.Tx], error) {
	jobs := river.NewWorkers()
	judge := func(p outbox.Provider) *health {
		return &health{provider: p, outbox: c.Outbox, log: c.Log, metrics: metrics}
	}
	pace := func(h *health, perSecond float64) *Pace {
		return newSharedPace(&leases{outbox: c.Outbox, provider: h.provider, configured: perSecond, health: h, log: c.Log, stopping: w.stopping})
	}
	stripeHealth, mailHealth := judge(outbox.Stripe), judge(outbox.SendGrid)
	w.probe.health, w.mail = stripeHealth, mailHealth
	sender := &chargeWorker{charges: c.Charges, gateway: c.Stripe, probe: w.probe,
		pace: pace(stripeHealth, c.StripeRate), log: c.Log, metrics: metrics, health: stripeHealth}
	river.AddWorker(jobs, sender)
	river.AddWorker(jobs, &followWorker{sender: sender, actionTTL: c.ActionTTL, every: c.Follow})
	river.AddWorker(jobs, &refundsWorker{sender: sender})
	river.AddWorker(jobs, &lostWorker{sender: sender})
	river.AddWorker(jobs, &receiptWorker{charges: c.Charges, mailer: c.Mailer, pace: pace(mailHealth, c.MailRate), log: c.Log, metrics: metrics, health: mailHealth})
	river.AddWorker(jobs, &expireWorker{charges: c.Charges, log: c.Log, metrics: metrics})
	river.AddWorker(jobs, &attemptsWorker{charges: c.Charges, keep: c.KeepSent, log: c.Log})
	river.AddWorker(jobs, &sweepWorker{charges: c.Charges, outbox: c.Outbox, log: c.Log, metrics: metrics})
	river.AddWorker(jobs, &clearWorker{outbox: c.Outbox, log: c.Log})
	river.AddWorker(jobs, &providersWorker{outbox: c.Outbox, probe: w.probe, log: c.Log})
	w.queues = retreats(c, w.probe.known, mailHealth.able)
	queues := map[string]river.QueueConfig{
		outbox.QueueUpkeep: {MaxWorkers: 2},
		outbox.QueueProbe:  {MaxWorkers: 1},
	}
	return river.NewClient(riverpgxv5.New(c.Pool), &river.Config{
		Queues:               queues,
		Workers:              jobs,
		PeriodicJobs:         append(periodicJobs(), webhookJobs(jobs, c)...),
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		FetchCooldown:        fetchCooldown,

		CompletedJobRetentionPeriod: keepJobs,
		FetchPollInterval:           fetchPoll,
		PollOnly:                    c.PollOnly,
		RetryPolicy:                 retryPolicy{},
		Middleware:                  []rivertype.Middleware{&guard{log: c.Log}},
		FetchOnlyKnownKinds:         true, // what a newer release has written waits for a newer worker, and costs no attempt
		// Our sessions' statement_timeout would cut a REINDEX CONCURRENTLY and leave a broken index behind.
		ReindexerSchedule: river.NeverSchedule(),
		ErrorHandler:      errorHandler{c.Log},
		Logger:            slog.New(seldom{levelFloor{c.Log.Handler(), slog.LevelWarn}, new(sync.Map)}),
	})
}

// Stop stops fetching and waits for what is in flight, at most about 45 s; what then still runs is cancelled and will
// run again elsewhere.
func (w *Workers) Stop(ctx context.Context) error {
	close(w.stopping)
	w.stopRetreat()
	<-w.retreatDone
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
