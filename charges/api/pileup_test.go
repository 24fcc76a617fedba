package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// A thousand requests meet a pool of two whose connections are held: each gets its 503 in seconds, nobody waits for long, probes are
// answered meanwhile, and nothing of the crowd is left when the connections are free again.
func TestI8CrowdAtAnExhaustedPool(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	pool, err := outbox.Open(t.Context(), d.url, "test", 2, outbox.Direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	box, err := outbox.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	small := start(t, charges.New(pool, box, charges.Options{}), nil)
	var held []*pgxpool.Conn
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE replay`); err != nil && len(held) == 0 {
			t.Fatal(err)
		}
		held = append(held, conn)
	}

	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var crowd sync.WaitGroup
	var answered atomic.Int64
	var slowest atomic.Int64
	begin := make(chan struct{})
	for range 1000 {
		crowd.Go(func() {
			<-begin
			began := time.Now()
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, small.base+"/charge", strings.NewReader(goodBody))
			if err != nil {
				t.Error(err)
				return
			}
			for name, value := range map[string]string{"Authorization": "Bearer " + alice, "Content-Type": "application/json", "Idempotency-Key": newKey()} {
				req.Header.Set(name, value)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
			answered.Add(1)
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
				t.Errorf("answered %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
			}
			for took := int64(time.Since(began)); ; {
				if last := slowest.Load(); took <= last || slowest.CompareAndSwap(last, took) {
					return
				}
			}
		})
	}
	close(begin)
	probes := 0
	for ; answered.Load() < 1000 && !t.Failed(); probes++ {
		began := time.Now()
		if r := small.get(t, "", "/healthz"); r.status != http.StatusOK {
			t.Errorf("/healthz: %d", r.status)
		}
		if took := time.Since(began); took > 3*3*time.Second { // it asks nobody, on a machine that is as slow for it as for the others
			t.Errorf("/healthz took %s", took)
		}
	}
	crowd.Wait()
	if took := time.Duration(slowest.Load()); took > 3*3*time.Second { // one wait of 3 s, for the token
		t.Errorf("the slowest answer took %s", took)
	}
	t.Logf("slowest %s, %d probes meanwhile", time.Duration(slowest.Load()), probes)
	d.wantRows(t, 0)
	for _, conn := range held {
		if err := conn.Conn().Close(t.Context()); err != nil {
			t.Error(err)
		}
		conn.Release()
	}
	small.accept(t, alice, newKey(), goodBody)
	d.wantRows(t, 1)
}
