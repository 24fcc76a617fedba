package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// injectedSQL ends some writes with what PostgreSQL ends transactions with when they get in each other's way.
const injectedSQL = `
CREATE SEQUENCE injected;
CREATE FUNCTION inject() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint := nextval('injected'); -- which is not rolled back
BEGIN
	IF n % 29 = 0 THEN RAISE 'injected' USING ERRCODE = '40P01'; END IF;
	IF n % 31 = 0 THEN RAISE 'injected' USING ERRCODE = '40001'; END IF;
	IF n % 101 = 0 THEN RAISE 'injected' USING ERRCODE = '55P03'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER inject BEFORE INSERT OR UPDATE ON charge        FOR EACH ROW EXECUTE FUNCTION inject();
CREATE TRIGGER inject BEFORE INSERT OR UPDATE ON attempt       FOR EACH ROW EXECUTE FUNCTION inject();
CREATE TRIGGER inject BEFORE INSERT OR UPDATE ON payment       FOR EACH ROW EXECUTE FUNCTION inject();
CREATE TRIGGER inject BEFORE INSERT OR UPDATE ON receipt       FOR EACH ROW EXECUTE FUNCTION inject();
CREATE TRIGGER inject BEFORE INSERT OR UPDATE ON webhook_event FOR EACH ROW EXECUTE FUNCTION inject();
CREATE TRIGGER inject BEFORE INSERT           ON charge_event  FOR EACH ROW EXECUTE FUNCTION inject();
CREATE TRIGGER inject BEFORE INSERT           ON river_job     FOR EACH ROW EXECUTE FUNCTION inject();`

// Halves are what one of the transactions would have left behind, had it not been whole.
var halves = map[string]string{
	"a charge without its key":                `SELECT count(*) FROM charge c WHERE NOT EXISTS (SELECT FROM idempotency_key k WHERE k.charge_id = c.id)`,
	"a charge not accepted once":              `SELECT count(*) FROM charge c WHERE 1 <> (SELECT count(*) FROM charge_event e WHERE e.charge_id = c.id AND e.type = 'charge.accepted')`,
	"a success without its one event":         `SELECT count(*) FROM charge c WHERE 1 <> (SELECT count(*) FROM charge_event e WHERE e.charge_id = c.id AND e.to_status = 'succeeded')`,
	"a success without its receipt":           `SELECT count(*) FROM charge c WHERE status = 'succeeded' AND NOT EXISTS (SELECT FROM receipt r WHERE r.charge_id = c.id)`,
	"a success without its payment":           `SELECT count(*) FROM charge c WHERE status = 'succeeded' AND NOT EXISTS (SELECT FROM payment p WHERE p.id = c.payment_intent AND p.charge_id = c.id)`,
	"a receipt without a job":                 `SELECT count(*) FROM receipt r WHERE NOT EXISTS (SELECT FROM river_job j WHERE j.kind = 'receipt_send' AND j.args ->> 'charge_id' = r.charge_id::text)`,
	"a charge that is not succeeded":          `SELECT count(*) FROM charge WHERE status <> 'succeeded'`,
	"an attempt that no answer has closed":    `SELECT count(*) FROM attempt WHERE ended_at IS NULL OR outcome IN ('unknown', 'stored_failure')`,
	"an event about a charge not applied":     `SELECT count(*) FROM webhook_event WHERE charge_id IS NOT NULL AND status = 'pending'`,
	"a charge with more than one waiting job": `SELECT count(*) FROM (SELECT FROM river_job WHERE state IN ('available', 'retryable', 'scheduled') GROUP BY kind, args ->> 'charge_id' HAVING count(*) > 1 AND args ->> 'charge_id' IS NOT NULL) AS j`,
}

// Worker, events and replay write about the same charges at once, and one write in thirteen fails. Each transaction is whole or leaves
// nothing, and a caller hears at worst that it may come back.
func TestI7EverybodyAtOnceUnderInjectedFaults(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	if _, err := d.pool.Exec(t.Context(), injectedSQL); err != nil {
		t.Fatal(err)
	}
	api := d.api()
	d.box.hear(api.url)
	d.worker()
	d.worker()

	box, err := outbox.New(d.pool)
	if err != nil {
		t.Fatal(err)
	}
	service := charges.New(d.pool, box, charges.Options{})
	replaying, stop := context.WithCancel(t.Context())
	defer stop()
	var presses sync.WaitGroup
	for range 2 {
		presses.Go(func() {
			for replaying.Err() == nil {
				if _, err := box.Replay(replaying, service, outbox.Filter{}, "test", nil); err != nil && replaying.Err() == nil && !lockTimeout(err) {
					t.Errorf("replay: %v", err)
				}
			}
		})
	}
	const n = 200
	keys := make([]string, n)
	posting := new(errgroup.Group)
	posting.SetLimit(8)
	for i := range keys {
		keys[i] = newKey()
		posting.Go(func() error { return d.postPatiently(api.url, keys[i], cardCharge("pm_card_visa", "buyer")) })
	}
	if err := posting.Wait(); err != nil {
		t.Fatal(err)
	}
	d.wantOnce(api, keys)
	for _, key := range keys {
		d.awaitReceipt(api, key, "delivered")
	}
	stop()
	presses.Wait()
	for what, sql := range halves {
		if n := d.count(sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	l := d.box.ledger()
	for _, key := range keys {
		if n := l.mails(key); n != 1 {
			t.Errorf("key %s: %d mails", key, n)
		}
	}
	t.Logf("%d writes were tried", d.count(`SELECT last_value FROM injected`))
}

func lockTimeout(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && pgErr.Code == "55P03"
}

// postPatiently sends the same request until it is accepted. A refusal on the way says when to come back.
func (d *deployment) postPatiently(url, key, body string) error {
	for {
		a, err := d.post(url, key, body)
		if err != nil {
			return err
		}
		if busy := a.status == http.StatusConflict || a.status == http.StatusServiceUnavailable; !busy || a.header.Get("Retry-After") == "" {
			return a.want(http.StatusAccepted)
		}
		time.Sleep(100 * time.Millisecond) // shorter than what is asked for
	}
}
