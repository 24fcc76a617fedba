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
	r.exec(`ALTER TABLE receipt RENAME TO receipt_gone`) // half an answer is none
	if up, series, _ := scrape(); up != 0 || series != 1 {
		t.Errorf("without receipts: up %d, %d series", up, series)
	}
	r.pool.Close()
	if up, series, _ := scrape(); up != 0 || series != 1 {
		t.Errorf("without a database: up %d, %d series", up, series)
	}
}
