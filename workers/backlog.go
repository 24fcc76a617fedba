package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
)

var (
	upDesc      = prometheus.NewDesc("oncepay_backlog_up", "1: the database answered this scrape; 0: it did not, and no figures of the backlog are given.", nil, nil)
	waitingDesc = prometheus.NewDesc("oncepay_charges_waiting", "Charges that are not final, by status.", []string{"status"}, nil)
	oldestDesc  = prometheus.NewDesc("oncepay_charges_oldest_seconds", "Age of the oldest charge that is not final, by status.", []string{"status"}, nil)
	mailsDesc   = prometheus.NewDesc("oncepay_receipts_waiting", "Receipts that are due, in hand or in doubt, by status.", []string{"status"}, nil)
)

// backlogCollector asks the database at each scrape, so that the figures are the deployment's and not this process's.
type backlogCollector struct {
	charges *charges.Service
	log     *slog.Logger
}

func (c backlogCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- upDesc
	ch <- waitingDesc
	ch <- oldestDesc
	ch <- mailsDesc
}

// Collect leaves its figures out of a scrape for which the database did not answer: none is better than a wrong one. That they
// are missing is a figure of its own, so that an alarm can tell it from "nothing waits".
func (c backlogCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	backlog, err := c.charges.Backlog(ctx)
	var receipts map[charges.ReceiptStatus]int64
	if err == nil {
		receipts, err = c.charges.ReceiptBacklog(ctx)
	}
	if err != nil {
		c.log.Warn("metrics.backlog", "error", err)
		ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 1)
	byStatus := map[charges.Status]charges.Backlog{}
	for _, b := range backlog {
		byStatus[b.Status] = b
	}
	for _, status := range charges.Statuses {
		if status.Final() {
			continue
		}
		b := byStatus[status]
		ch <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(b.Count), string(status))
		ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, b.Oldest.Seconds(), string(status))
	}
	for _, status := range []charges.ReceiptStatus{charges.ReceiptPending, charges.ReceiptSending, charges.ReceiptUnknown} {
		ch <- prometheus.MustNewConstMetric(mailsDesc, prometheus.GaugeValue, float64(receipts[status]), string(status))
	}
}
