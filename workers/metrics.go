package workers

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
)

// Metrics are the worker's own. Their names are part of what operators rely on.
type Metrics struct {
	attempts      *prometheus.HistogramVec
	looks         *prometheus.CounterVec
	receipts      *prometheus.CounterVec
	notes         *prometheus.CounterVec
	misconfigured prometheus.Counter
	expired       prometheus.Counter
	swept         prometheus.Counter
	throttled     *prometheus.CounterVec
}

// NewMetrics registers the worker's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncepay_attempt_duration_seconds", Help: "Attempts at Stripe by verdict, from the first statement to the last.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 25, 45},
		}, []string{"verdict"}),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_looks_total", Help: "Readings of Stripe's list for what became of open attempts.",
		}, []string{"complete", "found"}),
		receipts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_receipts_total", Help: "Receipts that were sent, or not, by the status they ended in.",
		}, []string{"status"}),
		notes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_refunds_read_notes_total", Help: "Refunds and disputes read at Stripe that want a person, by why.",
		}, []string{"note"}),
		misconfigured: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncepay_misconfigured_total", Help: "Times a charge had to wait because its attempts are at another Stripe account or mode.",
		}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncepay_idempotency_keys_expired_total", Help: "Stored answers removed after their time.",
		}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncepay_outbox_swept_total", Help: "Jobs written for charges and receipts that waited without one. Anything but 0 deserves a look.",
		}),
	}
	m.throttled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oncepay_provider_throttled_total", Help: "Times a provider said that we call too fast (HTTP 429).",
	}, []string{"provider"})
	reg.MustRegister(m.attempts, m.looks, m.receipts, m.notes, m.misconfigured, m.expired, m.swept, m.throttled)
	return m
}

func (m *Metrics) attempt(verdict string, took time.Duration) {
	m.attempts.WithLabelValues(verdict).Observe(took.Seconds())
}

func (m *Metrics) look(l charges.Look) {
	m.looks.WithLabelValues(strconv.FormatBool(l.Complete), strconv.FormatBool(len(l.Found) > 0)).Inc()
}
