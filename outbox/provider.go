package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Provider is one of those whom the workers call.
type Provider string

// The providers. Each has its row, its rate and its queues.
const (
	Stripe   Provider = "stripe"
	SendGrid Provider = "sendgrid"
)

// Providers are all of them.
var Providers = []Provider{Stripe, SendGrid}

// queues are where the jobs wait that call a provider. They run only while it may be called.
func (p Provider) queues() []string {
	if p == SendGrid {
		return []string{QueueReceipts}
	}
	return []string{QueueCharges, QueueBacklog}
}

// Outage says what is wrong with a provider.
type Outage string

// The kinds of outage.
const (
	Down          Outage = "down"          // calls end without an answer of its own
	Misconfigured Outage = "misconfigured" // it refuses our credentials
)

// Health is how a provider is. It may be called unless it is [Health.Stopped].
type Health struct {
	Provider      Provider
	Outage        Outage // empty: none, and nothing of the next four
	Reason        string
	Since         time.Time
	TrialAt       time.Time // when the next trial is due
	TrialSince    time.Time // zero: no trial; else calls are let through again, slowly
	TrialCallAt   time.Time // zero: no call of the trial is under way; else when it was handed out
	FailedTrials  int
	PausedBy      string // empty: not paused by an operator, and nothing of the next two
	PausedBecause string
	PausedAt      time.Time
	SucceededAt   time.Time // zero: never
	Rate          float64   // calls per second now
	Configured    float64   // calls per second at most, as the latest process was told
	HeldUntil     time.Time // zero or past: not held
	Now           time.Time // the database's clock
}

// Stopped tells whether nobody calls the provider: for an outage that is not on trial, or on an operator's word.
func (h Health) Stopped() bool { return h.Outage != "" && h.TrialSince.IsZero() || h.PausedBy != "" }

// Trial tells whether calls are let through to see whether an outage is over.
func (h Health) Trial() bool { return !h.TrialSince.IsZero() }

// row is a provider's row as it is held by a transaction.
type row struct {
	Health
	bucket
}

const selectProvider = `
SELECT name, coalesce(outage, ''), coalesce(reason, ''), since, trial_at, trial_since, trial_call_at, failed_trials,
       coalesce(paused_by, ''), coalesce(paused_because, ''), paused_at, succeeded_at,
       configured, rate, rate_at, slowed_at, held_until, fresh_tokens, backlog_tokens, refilled_at, clock_timestamp()
  FROM provider
 WHERE name = $1`

func readProvider(ctx context.Context, tx pgx.Tx, p Provider, lock string) (row, error) {
	var r row
	var since, trialAt, trialSince, trialCallAt, pausedAt, succeededAt *time.Time
	err := tx.QueryRow(ctx, selectProvider+lock, p).Scan(&r.Provider, &r.Outage, &r.Health.Reason, &since, &trialAt, &trialSince, &trialCallAt, &r.FailedTrials,
		&r.PausedBy, &r.PausedBecause, &pausedAt, &succeededAt,
		&r.Configured, &r.bucket.Rate, &r.RateAt, &r.SlowedAt, &r.bucket.HeldUntil, &r.Tokens[Fresh], &r.Tokens[Backlog], &r.Refilled, &r.Now)
	if err != nil {
		return row{}, fmt.Errorf("read provider %s: %w", p, err)
	}
	for to, from := range map[*time.Time]*time.Time{&r.Since: since, &r.TrialAt: trialAt, &r.TrialSince: trialSince, &r.TrialCallAt: trialCallAt, &r.PausedAt: pausedAt,
		&r.SucceededAt: succeededAt, &r.Health.HeldUntil: r.bucket.HeldUntil} {
		if from != nil {
			*to = *from
		}
	}
	r.Health.Rate = r.bucket.rate(r.Configured, r.Now)
	return r, nil
}

// lockProvider reads the row and holds it until tx ends: whatever changes a provider's state takes this lock first.
func lockProvider(ctx context.Context, tx pgx.Tx, p Provider) (row, error) {
	return readProvider(ctx, tx, p, ` FOR UPDATE`)
}

const updateBucket = `
UPDATE provider
   SET configured = $2, rate = $3, rate_at = $4, slowed_at = $5, held_until = $6, fresh_tokens = $7, backlog_tokens = $8, refilled_at = $9
 WHERE name = $1`

func (b bucket) save(ctx context.Context, tx pgx.Tx, p Provider, configured float64) error {
	_, err := tx.Exec(ctx, updateBucket, p, configured, b.Rate, b.RateAt, b.SlowedAt, b.HeldUntil, b.Tokens[Fresh], b.Tokens[Backlog], b.Refilled)
	if err != nil {
		return fmt.Errorf("write the rate of provider %s: %w", p, err)
	}
	return nil
}

const updateOutage = `
UPDATE provider
   SET outage = nullif($2, ''), reason = nullif($3, ''), since = $4, trial_at = $5, trial_since = $6, trial_call_at = $7, failed_trials = $8, succeeded_at = $9
 WHERE name = $1`

func saveOutage(ctx context.Context, tx pgx.Tx, h Health) error {
	_, err := tx.Exec(ctx, updateOutage, h.Provider, h.Outage, h.Reason, orNull(h.Since), orNull(h.TrialAt), orNull(h.TrialSince),
		orNull(h.TrialCallAt), h.FailedTrials, orNull(h.SucceededAt))
	if err != nil {
		return fmt.Errorf("write the state of provider %s: %w", h.Provider, err)
	}
	return nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Health reads how a provider is.
func (o *Outbox) Health(ctx context.Context, p Provider) (Health, error) {
	var h Health
	err := InTx(ctx, o.pool, "provider.read", func(tx pgx.Tx) error {
		r, err := readProvider(ctx, tx, p, "")
		h = r.Health
		return err
	})
	return h, err
}
