package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/transport"
)

var strangeDesc = prometheus.NewDesc("oncepay_jobs_unknown", "Jobs that wait and are of a kind that this release does not know, by kind: another release wrote them.", []string{"kind"}, nil)

// kindCollector asks the database at each scrape, as the backlog's does.
type kindCollector struct {
	outbox *outbox.Outbox
	log    *slog.Logger
}

func (c kindCollector) Describe(ch chan<- *prometheus.Desc) { ch <- strangeDesc }

// Collect leaves its figures out of a scrape for which the database did not answer.
func (c kindCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	strange, err := c.outbox.UnknownKinds(ctx)
	if err != nil {
		c.log.Warn("metrics.kinds", "error", err)
		return
	}
	for kind, n := range strange {
		ch <- prometheus.MustNewConstMetric(strangeDesc, prometheus.GaugeValue, float64(n), transport.Clean(kind))
	}
}
