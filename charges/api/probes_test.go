package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
)

func TestReadiness(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     error
		reasons []string
	}{
		"ready":    {nil, nil},
		"one":      {errors.New("schema is too old"), []string{"schema is too old"}},
		"several":  {errors.Join(errors.New("schema is too old"), errors.New("no worker")), []string{"schema is too old", "no worker"}},
		"database": {fmt.Errorf("dial db.internal as hunter2: %w", context.DeadlineExceeded), []string{"the database cannot be asked"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			i := withoutDatabase(t, func(c *api.Config) {
				c.Ready = func(context.Context) error { asked.Add(1); return tc.err }
			})
			for range 20 {
				r := i.get(t, "", "/readyz")
				got := decode[struct {
					Status  string
					Reasons []string
				}](t, r.body)
				if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[tc.err == nil]; r.status != want {
					t.Errorf("%d %s", r.status, r.body)
				}
				if !slices.Equal(got.Reasons, tc.reasons) || (got.Status == "ok") != (tc.err == nil) {
					t.Errorf("%s", r.body)
				}
			}
			if n := asked.Load(); n > 10 {
				t.Errorf("asked %d times for 20 probes", n)
			}
			if r := i.get(t, "", "/healthz"); r.status != http.StatusOK {
				t.Errorf("/healthz: %d", r.status)
			}
		})
	}
}

// withoutDatabase starts an API for calls that ask no database.
func withoutDatabase(t *testing.T, change func(*api.Config)) *instance {
	t.Helper()
	return start(t, charges.New(nil, nil, charges.Options{}), change)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	d.accept(t, alice, key, goodBody)
	d.accept(t, alice, key, goodBody)
	d.post(t, alice, key, strings.Replace(goodBody, "1099", "1", 1))
	d.post(t, alice, newKey(), "{}")
	d.get(t, alice, "/charges/"+newKey())
	d.get(t, alice, "/no/such/path")
	d.send(t, alice, "BREW", "/charge", "")
	d.exec(t, `UPDATE idempotency_key SET expires_at = now() - interval '1 second'`)
	d.post(t, alice, key, goodBody)
	text := d.get(t, "", "/metrics").body
	for _, line := range []string{
		`oncepay_charge_creates_total{outcome="accepted"} 1`,
		`oncepay_charge_creates_total{outcome="replayed"} 1`,
		`oncepay_charge_creates_total{outcome="expired"} 1`,
		`oncepay_charge_creates_total{outcome="idempotency_key_reused"} 1`,
		`oncepay_charge_creates_total{outcome="invalid_request"} 1`,
		`oncepay_http_request_duration_seconds_count{method="POST",route="/charge",status="2xx"} 3`,
		`oncepay_http_request_duration_seconds_count{method="POST",route="/charge",status="4xx"} 2`,
		`oncepay_http_request_duration_seconds_count{method="GET",route="/charges/{id}",status="4xx"} 1`,
		`oncepay_http_request_duration_seconds_count{method="other",route="unmatched",status="4xx"} 2`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	service := charges.New(nil, nil, charges.Options{})
	used := prometheus.NewRegistry()
	if _, err := api.New(api.Config{Charges: service, Metrics: used}); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]api.Config{
		"no charges":        {},
		"negative requests": {Charges: service, MaxRequests: -1},
		"negative waiters":  {Charges: service, MaxWaiters: -1},
		"negative wait":     {Charges: service, MaxWait: -1},
		"wait too long":     {Charges: service, MaxWait: 61e9},
		"used registry":     {Charges: service, Metrics: used},
	} {
		if _, err := api.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
