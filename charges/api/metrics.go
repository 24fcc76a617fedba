package api

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what the API counts, and the page that shows it.
type metrics struct {
	requests *prometheus.HistogramVec
	creates  *prometheus.CounterVec
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
		page: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.creates} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (a *API) showMetrics(w http.ResponseWriter, c *call) error {
	a.metrics.page.ServeHTTP(w, c.Request)
	return nil
}
