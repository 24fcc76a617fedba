package workers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"pgregory.net/rapid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/sendgrid"
	"github.com/oncepay/oncepay/workers/stripe"
)

// stage is what worlds are played on, one after the other: a database and an address.
type stage struct {
	pool    *pgxpool.Pool
	url     string
	sandbox atomic.Pointer[sandbox.Sandbox]
	tables  []string // that are put back between worlds to what the migrations left in them
	seeded  []string // those in which they left something
	clocks  []string // statements that let PostgreSQL's time pass, by $1
}

func newStage(t *testing.T) *stage {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = commits{}
	s := &stage{}
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.sandbox.Load().ServeHTTP(w, r) }))
	t.Cleanup(func() { server.Close(); s.pool.Close() })
	s.url = server.URL
	s.learn(t)
	return s
}

// stripeTimes are columns that hold a provider's time, which the sandbox's clock moves. All others are PostgreSQL's.
var stripeTimes = []string{"stripe_sent_at", "as_of", "failed_as_of", "occurred_at", "opened_at", "due_by",
	"from_at", "to_at", "stripe_begun_at", "lost_from_stripe"}

// unmoved is compared with the start of PostgreSQL's server, which stands still in these worlds.
const unmoved = "seen_at"

// learn finds out which tables there are, and which of their columns hold PostgreSQL's time.
func (s *stage) learn(t *testing.T) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "CREATE SCHEMA seed"); err != nil {
		t.Fatal(err)
	}
	rows, err := s.pool.Query(t.Context(), `
SELECT c.table_name, c.column_name, c.data_type = 'timestamp with time zone',
       coalesce(col_description(c.table_name::regclass, c.ordinal_position), '') LIKE '%by Stripe''s clock%'
  FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
 WHERE table_schema = 'public' AND t.table_type = 'BASE TABLE'
   AND (table_name = 'river_job' OR table_name NOT LIKE 'river%') AND table_name NOT LIKE '%migration%'
 ORDER BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string][]string{}
	var table, column string
	var isTime, isStripes bool
	if _, err := pgx.ForEachRow(rows, []any{&table, &column, &isTime, &isStripes}, func() error {
		if isTime && isStripes && !slices.Contains(stripeTimes, column) {
			return fmt.Errorf("%s.%s is by Stripe's clock, and would be moved with PostgreSQL's", table, column)
		}
		if !slices.Contains(s.tables, table) {
			s.tables = append(s.tables, table)
		}
		if isTime && column != unmoved && !slices.Contains(stripeTimes, column) {
			times[table] = append(times[table], fmt.Sprintf("%[1]s = %[1]s - $1::interval", column))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	delete(times, "operator_action") // append only, and nothing is decided by its age
	for table, set := range times {
		s.clocks = append(s.clocks, "UPDATE "+table+" SET "+strings.Join(set, ", "))
	}
	for _, table := range s.tables {
		tag, err := s.pool.Exec(t.Context(), "CREATE TABLE seed."+table+" AS TABLE public."+table)
		if err != nil {
			t.Fatal(err)
		}
		if tag.RowsAffected() > 0 {
			s.seeded = append(s.seeded, table)
		}
	}
}

// world is the real service on a real database, and real workers that call the simulators over HTTP, in two processes that can be
// suspended and killed. Nothing in it happens by itself: each step is a call of one of its methods, and time passes only in them.
type world struct {
	t       rapid.TB
	stage   *stage
	sandbox *sandbox.Sandbox
	box     *outbox.Outbox
	charges *charges.Service
	process [2]*process

	posts   []charges.CreateCharge
	answers []charges.Answer
	ids     []uuid.UUID // of the charges, in the order in which they were posted
	asleep  []*run
	outage  bool
	handed  map[string]bool // payments whose client secret the buyer was given

	stocked map[string]int64       // by SKU
	refused []charges.CreateCharge // for want of stock, and not posted again since
	without map[int]bool           // charges that a person has called paid although there was nothing left for them
	excused map[int]bool           // charges that a person outside has dealt with against the facts
}

// process is what one worker process has in memory.
type process struct {
	world   *world
	gateway *stripe.Gateway
	mailer  *sendgrid.Mailer
	probe   *Probe
	metrics *Metrics
}

// newProcess and its work are the one place that knows how workers are put together.
func (w *world) newProcess() *process {
	w.t.Helper()
	gateway, err := stripe.New(stripe.Config{SecretKey: "sk_test_home", BaseURL: w.stage.url, Wrap: wrapWire})
	if err != nil {
		w.t.Fatal(err)
	}
	mailer, err := sendgrid.New(sendgrid.Config{APIKey: "SG.test", BaseURL: w.stage.url, From: "Shop <receipts@shop.example>", Wrap: wrapWire})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{world: w, gateway: gateway, mailer: mailer, probe: NewProbe(gateway, slog.New(slog.DiscardHandler)),
		metrics: NewMetrics(prometheus.NewRegistry())}
	p.probeNow()
	return p
}

// probeNow does what Probe.Run does each minute and after a doubt.
func (p *process) probeNow() {
	select {
	case <-p.probe.doubt:
	default:
	}
	_ = p.probe.Read(context.Background()) // kept by the probe
}

// work runs a job as River would. Each run has a pace of its own: how fast is not what is tested here.
func (p *process) work(ctx context.Context, kind outbox.Kind, id uuid.UUID, row *rivertype.JobRow) error {
	log, service := slog.New(slog.DiscardHandler), p.world.charges
	sender := &chargeWorker{charges: service, gateway: p.gateway, probe: p.probe, pace: NewPace(1000), log: log, metrics: p.metrics}
	switch kind {
	case outbox.KindCharge:
		return sender.Work(ctx, &river.Job[outbox.SendCharge]{JobRow: row, Args: outbox.SendCharge{ChargeID: id}})
	case outbox.KindFollow:
		follow := &followWorker{sender: sender, actionTTL: 24 * time.Hour, every: time.Minute}
		return follow.Work(ctx, &river.Job[outbox.FollowPayment]{JobRow: row, Args: outbox.FollowPayment{ChargeID: id}})
	case outbox.KindRefunds:
		return (&refundsWorker{sender: sender}).Work(ctx, &river.Job[outbox.ReadRefunds]{JobRow: row, Args: outbox.ReadRefunds{ChargeID: id}})
	case outbox.KindReceipt:
		receipt := &receiptWorker{charges: service, mailer: p.mailer, pace: NewPace(1000), log: log, metrics: p.metrics}
		return receipt.Work(ctx, &river.Job[outbox.SendReceipt]{JobRow: row, Args: outbox.SendReceipt{ChargeID: id}})
	}
	return fmt.Errorf("no worker for %q", kind)
}

func (p *process) close() {
	p.gateway.Close()
	p.mailer.Close()
}

// newWorld begins anew on a stage.
func (s *stage) newWorld(t rapid.TB, rekey bool) *world {
	t.Helper()
	w := &world{t: t, stage: s, handed: map[string]bool{}, stocked: map[string]int64{}, without: map[int]bool{}, excused: map[int]bool{}}
	w.exec("TRUNCATE " + strings.Join(s.tables, ", "))
	for _, table := range s.seeded {
		w.exec("INSERT INTO " + table + " OVERRIDING SYSTEM VALUE SELECT * FROM seed." + table)
	}
	var err error
	if w.sandbox, err = sandbox.New(sandbox.Options{}); err != nil {
		t.Fatal(err)
	}
	s.sandbox.Store(w.sandbox)
	if w.box, err = outbox.New(s.pool); err != nil {
		t.Fatal(err)
	}
	policy := charges.DefaultPolicy
	policy.Rekey = rekey
	w.charges = charges.New(s.pool, w.box, charges.Options{Policy: policy, Apart: true}) // a run that sleeps in its commit must hold up no other
	for i := range w.process {
		w.process[i] = w.newProcess()
	}
	for _, sku := range skus {
		w.stock(sku, shelf[sku])
	}
	return w
}

// close ends a world, however far it came.
func (w *world) close() {
	for len(w.asleep) > 0 {
		w.rouse(0, false)
	}
	for _, p := range w.process {
		p.close()
	}
	if err := w.sandbox.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) exec(sql string, args ...any) int64 {
	w.t.Helper()
	tag, err := w.stage.pool.Exec(context.Background(), sql, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// sendBeforeInRequest lets the one time that a request names go with its column.
const sendBeforeInRequest = `
UPDATE charge
   SET request = regexp_replace(request, '"send_before":"[^"]*"', '"send_before":"' || to_char(send_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || '"')
 WHERE send_before IS NOT NULL`

// pass lets time pass, by PostgreSQL's clock, by Stripe's, or by both. PostgreSQL's cannot be moved, so what it has written down becomes
// older instead. River's rescuer comes by, and processes that are awake probe Stripe as they do each minute.
func (w *world) pass(d time.Duration, database, provider bool) {
	w.t.Helper()
	if database {
		err := outbox.InTx(context.Background(), w.stage.pool, "model.pass", func(tx pgx.Tx) error {
			for _, sql := range w.stage.clocks {
				if _, err := tx.Exec(context.Background(), sql, d); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			if _, err := tx.Exec(context.Background(), sendBeforeInRequest); err != nil {
				return err
			}
			_, err := tx.Exec(context.Background(), `UPDATE river_job SET state = 'retryable', scheduled_at = now()
				WHERE state = 'running' AND attempted_at < now() - $1::interval`, rescueAfter)
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if provider {
		if err := w.sandbox.Advance(d); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, r := range w.asleep {
		if database {
			r.naps[len(r.naps)-1].slept += d
		}
	}
	for _, p := range w.process {
		p.probeNow()
	}
}
