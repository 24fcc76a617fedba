package workers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
	"github.com/oncepay/oncepay/workers/sendgrid"
)

// onMail is a fault for mails that are sent, times over.
func onMail(f sandbox.Fault, times int) sandbox.Fault {
	f.Method, f.Path, f.Times = "POST", "/v3/mail/send", times
	return f
}

// I5: whatever happens to its mail, a receipt is sent at most once, and the charge stays paid.
func TestReceipts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault sandbox.Fault
		times int
		want  charges.ReceiptStatus
		mails int
	}{
		{"accepted, answer lost", sandbox.Fault{Kind: sandbox.DropAfter}, sandbox.Forever, charges.ReceiptUnknown, 1},
		{"lost on the way", sandbox.Fault{Kind: sandbox.DropBefore}, sandbox.Forever, charges.ReceiptUnknown, 0},
		{"internal error", sandbox.Fault{Kind: sandbox.Status, Status: 500}, sandbox.Forever, charges.ReceiptUnknown, 0},
		{"refused", sandbox.Fault{Kind: sandbox.Status, Status: 400, Message: "Does not contain a valid address: Buyer@Example.com"}, sandbox.Forever, charges.ReceiptFailed, 0},
		{"too large", sandbox.Fault{Kind: sandbox.Status, Status: 413}, sandbox.Forever, charges.ReceiptFailed, 0},
		{"too many, then accepted", sandbox.Fault{Kind: sandbox.Status, Status: 429, RetryAfter: 1}, 1, charges.ReceiptSent, 1},
		{"away, then accepted", sandbox.Fault{Kind: sandbox.Status, Status: 503}, 1, charges.ReceiptSent, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			r.fail(onMail(tc.fault, tc.times))
			r.start()
			id := r.create(mailed)
			r.awaitReceipt(id, tc.want)
			r.await("the job to end", func() bool {
				return r.count(`SELECT count(*) FROM river_job WHERE kind = 'receipt_send' AND state <> 'completed'`) == 0
			})
			if n := len(r.sandbox.Ledger().Mails); n != tc.mails {
				t.Errorf("%d mails, want %d", n, tc.mails)
			}
			if c := r.get(id); c.Status != charges.Succeeded {
				t.Errorf("the charge is %s", c.Status)
			}
			if n := r.count(`SELECT count(*) FROM receipt WHERE error ILIKE '%buyer%'`); n != 0 {
				t.Error("the stored error names the recipient")
			}
			r.unburned()
		})
	}
}

// I5, I6: a proxy that loses SendGrid's answer leaves the mail unknown; one that turns the mail away leaves it pending.
func TestReceiptsBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		status   int
		passedOn bool
		want     charges.ReceiptStatus
		mails    int
	}{
		{"passed on, answer lost", http.StatusServiceUnavailable, true, charges.ReceiptUnknown, 1},
		{"turned away", http.StatusProxyAuthRequired, false, charges.ReceiptPending, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			provider, err := url.Parse(r.url)
			if err != nil {
				t.Fatal(err)
			}
			connections := &http.Transport{}
			pass := httputil.NewSingleHostReverseProxy(provider)
			pass.Transport = connections
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path != "/v3/mail/send" {
					pass.ServeHTTP(w, q)
					return
				}
				if tc.passedOn {
					pass.ServeHTTP(httptest.NewRecorder(), q)
				}
				http.Error(w, "upstream connect error", tc.status)
			}))
			t.Cleanup(func() {
				r.stop()
				proxy.Close()
				connections.CloseIdleConnections()
			})
			r.url = proxy.URL
			r.start()
			id := r.create(mailed)
			r.await("the receipt to have an error", func() bool { return r.count(`SELECT count(*) FROM receipt WHERE error IS NOT NULL`) == 1 })
			r.awaitReceipt(id, tc.want)
			if n := len(r.sandbox.Ledger().Mails); n != tc.mails {
				t.Errorf("%d mails, want %d", n, tc.mails)
			}
			r.unburned()
		})
	}
}

// mailWorker is a receipt worker that runs when the test says so.
func (r *rig) mailWorker(metrics *Metrics) *receiptWorker {
	r.t.Helper()
	mailer, err := sendgrid.New(sendgrid.Config{APIKey: "SG.test", BaseURL: r.url, From: "receipts@shop.example"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(mailer.Close)
	return &receiptWorker{charges: r.charges, mailer: mailer, pace: NewPace(mailRate), log: slog.New(slog.NewTextHandler(logTo{r.t}, nil)), metrics: metrics}
}

func receiptJob(charge uuid.UUID) *river.Job[outbox.SendReceipt] {
	return &river.Job[outbox.SendReceipt]{JobRow: &rivertype.JobRow{ID: 1}, Args: outbox.SendReceipt{ChargeID: charge}}
}

// A wait that is not worth giving the job back for is waited out, unless the job is cancelled.
func TestReceiptsWaitShortWaitsInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		hold    time.Duration
		snoozes bool
	}{
		{"none", t.Context(), 0, false},
		{"short", t.Context(), shortWait / 8, false},
		{"long", t.Context(), time.Hour, true},
		{"short, of a cancelled job", cancelled, shortWait, true},
	} {
		w := r.mailWorker(NewMetrics(prometheus.NewRegistry()))
		began := time.Now()
		w.pace.Hold(tc.hold)
		err := w.Work(tc.ctx, receiptJob(uuid.New())) // a charge that nobody knows: asked for, it cancels the job
		snooze := (*river.JobSnoozeError)(nil)
		if snoozes := errors.As(err, &snooze); snoozes != tc.snoozes || !snoozes && !errors.Is(err, charges.ErrNotFound) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if took := time.Since(began); !tc.snoozes && took < tc.hold {
			t.Errorf("%s: went ahead after %v", tc.name, took)
		}
	}
}

// What could not be written down is not counted: the receipt is still being sent, as far as anybody can tell.
func TestReceiptsCountedAreWrittenDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	registry := prometheus.NewRegistry()
	w := r.mailWorker(NewMetrics(registry))
	counted := func() (n float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "oncepay_receipts_total" {
				for _, m := range f.GetMetric() {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	due := func() uuid.UUID {
		t.Helper()
		id := r.create(mailed)
		r.exec(`INSERT INTO receipt (charge_id, recipient, status) VALUES ($1, 'buyer@example.com', 'pending')`, id)
		return id
	}

	r.exec(`ALTER TABLE receipt ADD CONSTRAINT none_is_sent CHECK (status <> 'sent')`)
	lost := due()
	if err := w.Work(t.Context(), receiptJob(lost)); err == nil {
		t.Error("a result that was not written down went unnoticed")
	}
	if n := counted(); n != 0 || r.get(lost).Receipt.Status != charges.ReceiptSending {
		t.Errorf("counted %v receipts; this one is %s", n, r.get(lost).Receipt.Status)
	}

	r.exec(`ALTER TABLE receipt DROP CONSTRAINT none_is_sent`)
	if err := w.Work(t.Context(), receiptJob(due())); err != nil {
		t.Error(err)
	}
	if n := counted(); n != 1 {
		t.Errorf("counted %v receipts, want 1", n)
	}
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

// I5: where it is asked for, a receipt in doubt is sent again by its own job after SendGrid's events had their time, and by none after that.
func TestReceiptsInDoubtAreSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{Receipts: charges.ReceiptPolicy{Resend: true, Wait: 300 * time.Millisecond, Most: 3}})
	r.fail(onMail(sandbox.Fault{Kind: sandbox.DropAfter}, 1))
	r.start()
	once := r.create(mailed)
	r.awaitReceipt(once, charges.ReceiptSent)
	if n := len(r.sandbox.Ledger().Mails); n != 2 {
		t.Errorf("%d mails, want 2", n)
	}
	r.fail(onMail(sandbox.Fault{Kind: sandbox.DropBefore}, sandbox.Forever))
	never := r.create(mailed)
	r.await("three sends in doubt, and no job", func() bool {
		return r.count(`SELECT count(*) FROM receipt WHERE charge_id = $1 AND status = 'unknown' AND doubts = 3`, never) == 1 &&
			r.count(`SELECT count(*) FROM river_job WHERE kind = 'receipt_send' AND state <> 'completed'`) == 0
	})
	r.unburned()
}
