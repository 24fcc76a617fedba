package workers

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
)

// An alarm must be able to tell "nothing waits" from "nobody knows".
func TestBacklogSaysWhetherItIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.create()
	registry := prometheus.NewRegistry()
	registry.MustRegister(backlogCollector{r.charges, r.logger()})
	scrape := func() (up, series int, pending float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		up = -1
		for _, f := range families {
			series += len(f.GetMetric())
			for _, m := range f.GetMetric() {
				switch {
				case f.GetName() == "oncepay_backlog_up":
					up = int(m.GetGauge().GetValue())
				case f.GetName() == "oncepay_charges_waiting" && m.GetLabel()[0].GetValue() == "pending":
					pending = m.GetGauge().GetValue()
				}
			}
		}
		return up, series, pending
	}
	if up, series, pending := scrape(); up != 1 || series < 4 || pending != 1 {
		t.Errorf("with a database: up %d, %d series, %v pending", up, series, pending)
	}
	// A figure that was slow to count is given out again for a while, so that the change need not show at once.
	unknown := func() bool {
		up, series, _ := scrape()
		return up == 0 && series == 1
	}
	r.exec(`ALTER TABLE receipt RENAME TO receipt_gone`)
	r.await("that half an answer is none", unknown)
	r.exec(`ALTER TABLE receipt_gone RENAME TO receipt`)
	r.await("the whole answer again", func() bool { return !unknown() })
	r.pool.Close()
	r.await("no figures without a database", unknown)
}
