package api

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncepay/oncepay/charges"
)

// metrics are what the API counts, and the page that shows it.
type metrics struct {
	requests *prometheus.HistogramVec
	creates  *prometheus.CounterVec
	events   *prometheus.CounterVec
	notes    *prometheus.CounterVec
	refused  *prometheus.CounterVec
	page     http.Handler
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncepay_http_request_duration_seconds",
			Help: "Time from the request's header to the end of its answer, waits that clients preferred included.",
			// To the longest wait and beyond.
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"route", "method", "status"}),
		creates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_charge_creates_total",
			Help: "Authenticated POST /charge by outcome: accepted, replayed, expired, or the code of the refusal.",
		}, []string{"outcome"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_webhook_events_total",
			Help: "Signed events by provider, class of their type, and what became of them: applied, pending, ignored or duplicate.",
		}, []string{"provider", "class", "result"}),
		notes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_webhook_notes_total",
			Help: "Signed events that were odd, by why: payment_differs, duplicate_payment, ruling_contradicted, disputed, refunds_exceed and key_differs want a person; wrong_mode and another_account hint at a wrong set-up.",
		}, []string{"provider", "note"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncepay_webhook_refused_total",
			Help: "Posts to the webhooks that were not taken, by reason: unsigned, malformed, stale, mismatch, body, not_configured or not_stored.",
		}, []string{"provider", "reason"}),
		page: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.creates, m.events, m.notes, m.refused} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	// An alarm's series is there from the start, so that its first increase is seen as one.
	for _, p := range charges.Providers {
		for _, note := range charges.Alarms {
			m.notes.WithLabelValues(string(p), string(note))
		}
	}
	return m, nil
}

// event counts one event that was taken.
func (m *metrics) event(e charges.ProviderEvent) {
	m.events.WithLabelValues(string(e.Provider), class(e), result(e)).Inc()
	if (e.Note.Alarm() || e.Note.Odd()) && !e.Duplicate {
		m.notes.WithLabelValues(string(e.Provider), string(e.Note)).Inc()
	}
}

func (a *API) showMetrics(w http.ResponseWriter, c *call) error {
	a.metrics.page.ServeHTTP(w, c.Request)
	return nil
}
