package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// I1: one that PostgreSQL refuses, at the first write or at the last, costs the 99 others nothing, and leaves nothing.
func TestI1PoisonAmongAHundred(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]string{
		"charge": `CREATE TRIGGER poison BEFORE INSERT ON charge FOR EACH ROW WHEN (NEW.amount = 666) EXECUTE FUNCTION poison()`,
		"river_job": `CREATE TRIGGER poison BEFORE INSERT ON river_job FOR EACH ROW WHEN (NEW.kind = 'charge_send')
			EXECUTE FUNCTION poison_job()`,
	} {
		t.Run(name, func(t *testing.T) {
			c := crowded(t, 0, nil)
			c.exec(t, `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$`)
			c.exec(t, `CREATE FUNCTION poison_job() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF EXISTS (SELECT FROM charge WHERE id = (NEW.args ->> 'charge_id')::uuid AND amount = 666) THEN RAISE EXCEPTION 'poison'; END IF;
					RETURN NEW;
				END $$`)
			c.exec(t, trigger)
			keys := newKeys(100)
			const bad = 42
			replies := c.together(t, keys, func(i int) string {
				if i == bad {
					return strings.Replace(goodBody, "1099", "666", 1)
				}
				return goodBody
			})
			for i, r := range replies {
				if i == bad {
					r.wantProblem(t, http.StatusInternalServerError, "internal")
				} else if r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
					t.Errorf("%d of the good ones: %d %s", i, r.status, r.body)
				}
			}
			if n := c.largest("charge.accept"); n < 50 {
				t.Errorf("at most %d shared a transaction: nothing was shown", n)
			}
			c.wantOnce(t, slices.Delete(slices.Clone(keys), bad, bad+1))
			c.get(t, alice, "/idempotency-keys/"+keys[bad]).wantProblem(t, http.StatusNotFound, "not_found")
		})
	}
}

// held is how long those who share a transaction with a request for something that is held wait for it at most: 100 ms for each time that
// their transaction is halved, of which at most 256 members take eight, and the runs themselves.
const held = 1500 * time.Millisecond

// holdReference begins a transaction that has inserted a charge of alice's with the reference, and does not end.
func holdReference(t *testing.T, d *deployment, reference string) pgx.Tx {
	t.Helper()
	tx := hold(t, d, newKey(), "alice")
	if _, err := tx.Exec(t.Context(), `UPDATE charge SET reference = $1`, reference); err != nil {
		t.Fatal(err)
	}
	return tx
}

// I4: what somebody else holds, a key or a reference, holds up the request that needs it, and the rest not for long.
func TestI4HeldByAnother(t *testing.T) {
	t.Parallel()
	const order = "order-1"
	for _, tc := range []struct {
		name   string
		others int
		commit bool // else it holds on until it is told to leave
		byRef  bool
		status int
		code   string
	}{
		{"key", 200, false, false, http.StatusConflict, "idempotency_key_in_use"},
		{"key, committed", 50, true, false, http.StatusUnprocessableEntity, "idempotency_key_reused"},
		{"reference", 50, false, true, http.StatusConflict, "idempotency_key_in_use"},
		{"reference, committed", 50, true, true, http.StatusConflict, "reference_in_use"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := crowded(t, 0, nil)
			most := 3*held + c.takes(t, tc.others)
			keys := newKeys(tc.others + 1)
			at := tc.others / 2
			body := always(goodBody)
			var first pgx.Tx
			if tc.byRef {
				first = holdReference(t, c.deployment, order)
				body = func(i int) string {
					if i == at {
						return strings.Replace(goodBody, "{", `{"reference":"`+order+`",`, 1)
					}
					return goodBody
				}
			} else {
				first = hold(t, c.deployment, keys[at], "alice")
			}
			answered, ended := make(chan struct{}), make(chan error, 1)
			if tc.commit { // as soon as the others are there
				go func() {
					for tick := time.Tick(10 * time.Millisecond); c.countQuietly("idempotency_key") < tc.others; {
						select {
						case <-tick:
						case <-answered:
							ended <- errors.New("not all others were accepted before")
							return
						}
					}
					ended <- first.Commit(context.Background())
				}()
			}
			replies := c.together(t, keys, body)
			close(answered)
			for i, r := range replies {
				switch {
				case i == at:
					if r.wantProblem(t, tc.status, tc.code); r.status == http.StatusConflict && tc.code == "idempotency_key_in_use" && r.header.Get("Retry-After") != "1" {
						t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
					}
				case r.status != http.StatusAccepted:
					t.Errorf("another: %d %s", r.status, r.body)
				case r.at.Sub(c.released) > most:
					t.Errorf("another waited for %s, of %s", r.at.Sub(c.released), most)
				}
			}
			if n := c.largest("charge.accept"); n < tc.others/2 {
				t.Errorf("at most %d shared a transaction: nothing was shown", n)
			}
			if tc.commit {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				return
			}
			if err := first.Rollback(context.Background()); err != nil {
				t.Fatal(err)
			}
			c.accept(t, alice, keys[at], body(at))
			c.wantOnce(t, keys)
		})
	}
}

// countQuietly is count for other goroutines than the test's.
func (c *crowd) countQuietly(table string) (n int) {
	if err := c.deployment.pool.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		return 0
	}
	return n
}

// I4: a crowd under one held key waits where it costs no connection, and others go on.
func TestI4CrowdUnderAHeldKey(t *testing.T) {
	t.Parallel()
	c := crowded(t, 0, nil)
	bound := 3*held + c.takes(t, 200)
	key := newKey()
	first := hold(t, c.deployment, key, "alice")
	replies := make([]reply, 200)
	var crowd sync.WaitGroup
	for i := range replies {
		crowd.Go(func() { replies[i] = c.post(t, alice, key, goodBody) })
	}
	c.blocked(t, 1)
	most := int32(0)
	others := newKeys(30)
	for _, key := range others {
		began := time.Now()
		c.accept(t, alice, key, goodBody)
		if took := time.Since(began); took > bound {
			t.Errorf("another waited for %s, of %s", took, bound)
		}
		most = max(most, c.pool.Stat().AcquiredConns())
	}
	if most > 5 {
		t.Errorf("%d of %d connections were taken", most, c.pool.Config().MaxConns)
	}
	crowd.Wait()
	for _, r := range replies {
		r.wantProblem(t, http.StatusConflict, "idempotency_key_in_use")
	}
	if err := first.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.accept(t, alice, key, goodBody)
	c.wantOnce(t, append(others, key))
}

// I8: where too many wait already, a request is told so at once, and nothing of it is written.
func TestI8TooManyWait(t *testing.T) {
	t.Parallel()
	const places, n = 5, 25
	c := crowded(t, places, nil)
	c.block(t)
	keys := newKeys(n)
	replies := make([]reply, n)
	var posts sync.WaitGroup
	refused := make(chan reply, n)
	for i := range replies {
		posts.Go(func() {
			replies[i] = c.postOnce(t, alice, keys[i], goodBody)
			if replies[i].status != http.StatusAccepted {
				refused <- replies[i]
			}
		})
	}
	for range n - places { // at most as many as there are places have one
		var r reply
		select {
		case r = <-refused:
		case <-time.After(30 * time.Second):
			t.Fatal("more wait than there are places")
		}
		r.wantProblem(t, http.StatusServiceUnavailable, "unavailable")
		if r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, "Too many requests") {
			t.Errorf("Retry-After %q: %s", r.header.Get("Retry-After"), r.body)
		}
	}
	c.wantRows(t, 0)
	c.release(t)
	posts.Wait()
	var accepted []string
	for i, r := range replies {
		if r.status == http.StatusAccepted {
			accepted = append(accepted, keys[i])
		}
	}
	if len(accepted) > places {
		t.Errorf("%d had a place", len(accepted))
	}
	c.wantOnce(t, accepted)
	for _, key := range keys {
		c.accept(t, alice, key, goodBody)
	}
	c.wantOnce(t, keys)
}

// I4: where the answer to a shared COMMIT is lost, each of its members is answered as if it had not been, and none has a second charge.
func TestI4SharedCommitInDoubt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer, gone   bool
		status, exists int
	}{
		"COMMIT lost":                      {false, false, http.StatusAccepted, 40},
		"its answer lost":                  {true, false, http.StatusAccepted, 40},
		"COMMIT lost with the database":    {false, true, http.StatusServiceUnavailable, 0},
		"its answer lost and the database": {true, true, http.StatusServiceUnavailable, 40},
	} {
		t.Run(name, func(t *testing.T) {
			var p *proxy
			var c *crowd
			keys := newKeys(40)
			var replies []timedReply
			for try := 1; ; try++ { // on a busy machine one may come too late to share
				c = crowded(t, 0, func(direct string) (url string) {
					p, url = newProxy(t, direct)
					return url
				})
				p.cutAt("commit\x00", tc.answer, tc.gone) // bob's charges are rolled back
				replies = c.together(t, keys, always(goodBody))
				n := c.largest("charge.accept")
				if n == len(keys) {
					break
				}
				if t.Logf("at most %d shared a transaction", n); try == 5 {
					t.FailNow()
				}
			}
			c.wantRows(t, tc.exists)
			p.setDown(false)
			for i, r := range replies {
				if r.status != tc.status || r.header.Get("Idempotent-Replayed") != "" {
					t.Errorf("answered %d %s %v", r.status, r.body, r.header)
				}
				again := c.post(t, alice, keys[i], goodBody)
				if replayed := again.header.Get("Idempotent-Replayed") == "true"; again.status != http.StatusAccepted || replayed != (tc.exists > 0) {
					t.Errorf("sent again: %d %s %v", again.status, again.body, again.header)
				}
				if r.status == http.StatusAccepted && again.body != r.body {
					t.Errorf("sent again: %s\nnot %s", again.body, r.body)
				}
			}
			c.wantOnce(t, keys)
		})
	}
}

// I2, I4: many keys, each posted by many at once to two processes with equal and with other requests.
func TestI2DuplicatesWithinAndAcrossTransactions(t *testing.T) {
	t.Parallel()
	const copies = 12 // of each key, a quarter of them with another amount
	d := deploy(t, nil)
	_, service := open(t, d.url)
	processes := []*instance{d.instance, start(t, service, nil)}
	keys := newKeys(25)
	replies := make([][]reply, len(keys))
	amount := func(copy int) int { return 1000 + min(copy%4, 1) }
	begin := make(chan struct{})
	var posts sync.WaitGroup
	for k, key := range keys {
		replies[k] = make([]reply, copies)
		for copy := range copies {
			posts.Go(func() {
				body := fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":"pm_card_visa","metadata":{"n":"%d"}}`, amount(copy), k)
				<-begin
				replies[k][copy] = processes[(k+copy/4)%2].postUntilAnswered(t, alice, key, body)
			})
		}
	}
	close(begin)
	posts.Wait()
	d.wantRows(t, len(keys))
	for k, key := range keys {
		won := decode[struct{ Charge charge }](t, d.get(t, alice, "/idempotency-keys/"+key).body).Charge
		bodies, fresh := map[string]bool{}, 0
		for copy, r := range replies[k] {
			if amount(copy) != int(won.Amount) {
				if p := r.wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused"); p.fieldNames() != "amount" {
					t.Errorf("fields %s", p.fieldNames())
				}
				continue
			}
			if r.status != http.StatusAccepted {
				t.Errorf("answered %d %s", r.status, r.body)
			}
			bodies[r.body] = true
			if r.header.Get("Idempotent-Replayed") == "" {
				fresh++
			}
		}
		if again := processes[0].again.Load() + processes[1].again.Load(); len(bodies) != 1 || fresh > 1 || fresh == 0 && again == 0 { // none, where it had to be asked for again
			t.Errorf("key %d: %d different answers, %d of them fresh", k, len(bodies), fresh)
		}
	}
}
