package workers

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
)

var (
	restoredDesc = prometheus.NewDesc("oncepay_restorations_total", "Restores and failovers of the database, detected or declared.", nil, nil)
	lostDesc     = prometheus.NewDesc("oncepay_lost_payments",
		"Payments found at Stripe in what a restore has lost that have taken money, or may have, and for whose keys nobody has come back; oncepay reconcile --lost lists them.", nil, nil)
	blindDesc = prometheus.NewDesc("oncepay_restoration_detection_up",
		"1: restores and failovers of the database are detected; 0: its server does not tell which one it is.", nil, nil)
)

// confirmIdentity notes that the database is where it was, and says aloud if it is not, or if that cannot be known.
func confirmIdentity(ctx context.Context, service *charges.Service, log *slog.Logger) error {
	detected, err := service.ConfirmIdentity(ctx)
	if err != nil && service.Blind() {
		log.Error("restoration.undetectable", "error", err)
		return nil
	}
	reportRestored(log, detected)
	return err
}

// confirmEvery is how often it is noted where the database is. A server that is started long after the last note may run on an older copy of its files;
// the closer the notes, the shorter is what counts as long.
const confirmEvery = time.Second

// keepConfirming notes it until ctx ends. While the database is away there is nothing to note, and whoever relies on it asks by itself.
func keepConfirming(ctx context.Context, service *charges.Service, log *slog.Logger) {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		detected, err := service.ConfirmIdentity(ctx)
		reportRestored(log, detected)
		if err != nil && service.Blind() && time.Since(said) > time.Minute {
			log.Error("restoration.undetectable", "error", err)
			said = time.Now()
		}
	}
}

func reportRestored(log *slog.Logger, r *charges.Restoration) {
	if r != nil {
		r.Report(log)
	}
}

// restorationCollector asks the database at each scrape, as backlogCollector does.
type restorationCollector struct {
	charges *charges.Service
	log     *slog.Logger
}

func (c restorationCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- restoredDesc
	ch <- lostDesc
	ch <- blindDesc
}

func (c restorationCollector) Collect(ch chan<- prometheus.Metric) {
	up := 1.0
	if c.charges.Blind() {
		up = 0
	}
	ch <- prometheus.MustNewConstMetric(blindDesc, prometheus.GaugeValue, up)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	restorations, err := c.charges.Restorations(ctx)
	if err != nil {
		c.log.Warn("metrics.restorations", "error", err)
		return
	}
	proven := slices.DeleteFunc(restorations, func(r charges.Restoration) bool { return r.Suspected })
	ch <- prometheus.MustNewConstMetric(restoredDesc, prometheus.CounterValue, float64(len(proven)))
	lost, err := c.charges.CountLost(ctx)
	if err != nil {
		c.log.Warn("metrics.restorations", "error", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(lostDesc, prometheus.GaugeValue, float64(lost))
}
