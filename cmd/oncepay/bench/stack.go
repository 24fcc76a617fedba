package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// token is the caller's: everything that it could open ends with the run, and listens to this machine alone.
const token = "bench_caller"

func (d *database) outbox() (*outbox.Outbox, error) { return outbox.New(d.pool) }

// prepare gives the caller its token, and stocks what is sold: one SKU without end, and nothing of the other.
func (d *database) prepare(ctx context.Context) error {
	box, err := d.outbox()
	if err != nil {
		return err
	}
	service := charges.New(d.pool, box, charges.Options{})
	for sku, quantity := range map[string]int64{hotSKU: charges.MaxStock, soldOutSKU: 0} {
		if _, err := service.SetInventory(ctx, sku, quantity, "bench"); err != nil {
			return err
		}
	}
	return service.AddToken(ctx, token, "bench", charges.Caller)
}

// apiProcess is a running API.
type apiProcess struct {
	*process
	address string
}

// api runs an API on the database. Without shared commits each request has a transaction of its own.
func (b *bench) api(ctx context.Context, d *database, shared bool) (*apiProcess, error) {
	env := []string{"DATABASE_URL=" + d.url, fmt.Sprint("ONCEPAY_SHARED_COMMITS=", shared)}
	p, err := b.start("api", env, "api", "--listen=127.0.0.1:0", fmt.Sprint("--database-conns=", b.Conns))
	if err != nil {
		return nil, err
	}
	address, err := p.awaitOutput(ctx, logged("api.listen", "address"))
	if err != nil {
		return nil, err
	}
	told, err := p.awaitOutput(ctx, logged("api.listen", "shared_commits"))
	if err != nil {
		return nil, err
	}
	if told != fmt.Sprint(shared) && told != unsaid {
		return nil, fmt.Errorf("an API that should have shared commits %v says %s", shared, told)
	}
	return &apiProcess{p, address}, awaitReady(ctx, p, address)
}

// unsaid is what a log line has of an attribute that is not there: a release that does not share commits has no word for it.
const unsaid = "<nil>"

// worker runs a worker that may call the providers as often as stripeRate says, and mail as fast as it can.
func (b *bench) worker(ctx context.Context, d *database, providers string, stripeRate float64) (*process, error) {
	env := []string{"DATABASE_URL=" + d.url, "ONCEPAY_SENDGRID_RATE=10000", "STRIPE_SECRET_KEY=sk_test_bench", "STRIPE_API_BASE=" + providers,
		"SENDGRID_API_KEY=SG.bench", "SENDGRID_API_BASE=" + providers, "RECEIPT_FROM=Shop <receipts@shop.example>"}
	return b.start("worker", env, "worker", "--listen=127.0.0.1:0", fmt.Sprint("--database-conns=", b.Conns),
		fmt.Sprint("--concurrency=", b.Concurrency), fmt.Sprint("--receipt-concurrency=", b.Concurrency), fmt.Sprint("--stripe-rate=", stripeRate))
}

// unlimited is the highest rate that a worker takes.
const unlimited = 10_000

// simulators runs the providers, where every payment succeeds, and returns their address.
func (b *bench) simulators(ctx context.Context) (*process, string, error) {
	p, err := b.start("sandbox", nil, "sandbox", "--listen=127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	url, err := p.awaitOutput(ctx, func(line string) (string, bool) { return strings.CutPrefix(line, "sandbox ") })
	if err != nil || b.ProviderLatency == 0 {
		return p, url, err
	}
	delay := fmt.Sprintf(`{"fault":"delay","times":-1,"delay_ms":%d}`, b.ProviderLatency.Milliseconds())
	answer, err := http.Post(url+"/_sandbox/faults", "application/json", strings.NewReader(delay))
	if err != nil {
		return p, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return p, "", fmt.Errorf("add latency to the providers: %s", answer.Status)
	}
	return p, url, nil
}

// logged finds an attribute of a log line.
func logged(message, attribute string) func(line string) (string, bool) {
	return func(line string) (string, bool) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil || fields["msg"] != message {
			return "", false
		}
		return fmt.Sprint(fields[attribute]), true
	}
}

func awaitReady(ctx context.Context, p *process, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	last := ""
	err := await(ctx, pollOften, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return false, err
		}
		answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		last = answer.Status
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w (%s)\n%s", p.name, err, last, p.tail())
	}
	return nil
}
