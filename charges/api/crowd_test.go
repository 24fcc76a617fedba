package api_test

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// crowd is a deployment whose requests can be made to wait, and then share a transaction.
type crowd struct {
	*deployment
	pool    *pgxpool.Pool // of the API; the deployment's own is the test's
	service *charges.Service

	mu   sync.Mutex
	runs map[string][]int // members of each, by the name of the transaction

	gate     *pgx.Conn // holds up bob's charges, which are never accepted
	blockers sync.WaitGroup
	released time.Time
	direct   bool // the database is there: whoever is told otherwise is on a busy machine, and asks again
}

// crowded makes a deployment; url, unless empty, leads to its database by another way.
func crowded(t *testing.T, waiting int, way func(direct string) string) *crowd {
	t.Helper()
	c := &crowd{deployment: deploy(t, nil), runs: map[string][]int{}, direct: way == nil}
	url := c.url
	if way != nil {
		url = way(url)
	}
	var err error
	if c.pool, err = outbox.Open(context.Background(), url, "test", 10, outbox.Direct); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	box, err := outbox.New(c.pool)
	if err != nil {
		t.Fatal(err)
	}
	c.service = charges.New(c.pool, box, charges.Options{Waiting: waiting, Observe: func(transaction string, members int, _ time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.runs[transaction] = append(c.runs[transaction], members)
	}})
	c.instance = start(t, c.service, nil)
	c.client = &http.Client{Transport: &http.Transport{}} // which does not compare each of hundreds of answers with the contract
	t.Cleanup(c.client.CloseIdleConnections)
	c.exec(t, `CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			WHILE NOT pg_try_advisory_xact_lock_shared(7) LOOP PERFORM pg_sleep(0.01); END LOOP;
			RAISE EXCEPTION 'bob is not served';
		END $$`)
	c.exec(t, `CREATE TRIGGER gate BEFORE INSERT ON charge FOR EACH ROW WHEN (NEW.caller = 'bob') EXECUTE FUNCTION gate()`)
	return c
}

// block occupies every shared transaction with a charge of bob's, until release. Those fail, so that the next to commit is a transaction of
// what has come meanwhile.
func (c *crowd) block(t *testing.T) {
	t.Helper()
	var err error
	if c.gate, err = pgx.Connect(context.Background(), c.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.gate.Close(context.Background()) })
	if _, err := c.gate.Exec(context.Background(), `SELECT pg_advisory_lock(7)`); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= max(1, runtime.GOMAXPROCS(0)/2); n++ {
		c.blockers.Go(func() {
			r := c.post(t, bob, newKey(), goodBody)
			for r.status == http.StatusServiceUnavailable { // the database is away, or the machine is busy with other tests
				r = c.post(t, bob, newKey(), goodBody)
			}
			r.wantProblem(t, http.StatusInternalServerError, "internal")
		})
		eventually(t, "a held transaction", func() bool {
			return c.count(t, "pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") == n
		})
	}
}

func (c *crowd) release(t *testing.T) {
	t.Helper()
	c.released = time.Now()
	if err := c.gate.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.blockers.Wait()
}

// largest is the transaction with most members.
func (c *crowd) largest(transaction string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Max(append(c.runs[transaction], 0))
}

// together posts a charge for each key, all of which wait until they can share a transaction. Keys that find no place are answered before.
func (c *crowd) together(t *testing.T, keys []string, body func(i int) string) []timedReply {
	t.Helper()
	c.block(t)
	replies := make([]timedReply, len(keys))
	var posts sync.WaitGroup
	var answered atomic.Int64
	for i, key := range keys {
		posts.Go(func() {
			r := c.post(t, alice, key, body(i))
			for began := time.Now(); c.direct && r.status == http.StatusServiceUnavailable && time.Since(began) < patience; {
				r = c.post(t, alice, key, body(i))
			}
			replies[i] = timedReply{r, time.Now()}
			answered.Add(1)
		})
	}
	eventually(t, "the crowd", func() bool { return c.service.Queued()+int(answered.Load()) == len(keys) })
	c.release(t)
	posts.Wait()
	return replies
}

// takes is how long this machine takes for a crowd of so many of whom nothing is held. What it did for them is forgotten.
func (c *crowd) takes(t *testing.T, n int) (slowest time.Duration) {
	t.Helper()
	for _, r := range c.together(t, newKeys(n), always(goodBody)) {
		slowest = max(slowest, r.at.Sub(c.released))
	}
	c.exec(t, `TRUNCATE charge, idempotency_key, charge_event, river_job CASCADE`)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = map[string][]int{}
	return slowest
}

type timedReply struct {
	reply
	at time.Time
}

func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
	}
	return keys
}

func always(body string) func(int) string { return func(int) string { return body } }

// wantOnce checks that each key has its charge, with one key, event and job.
func (c *crowd) wantOnce(t *testing.T, keys []string) {
	t.Helper()
	const whole = `charge c WHERE c.idempotency_key = ANY ($1)
		AND 1 = (SELECT count(*) FROM idempotency_key k WHERE k.key = c.idempotency_key AND k.charge_id = c.id)
		AND 1 = (SELECT count(*) FROM charge_event e WHERE e.charge_id = c.id)
		AND 1 = (SELECT count(*) FROM river_job j WHERE j.args ->> 'charge_id' = c.id::text)`
	if n := c.count(t, whole, keys); n != len(keys) {
		t.Errorf("%d of %d charges are there with key, event and job", n, len(keys))
	}
	c.wantRows(t, len(keys))
}
