package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func TestI2ParallelPostsOfOneKeyToTwoProcesses(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]string{"equal": goodBody, "half with another amount": strings.Replace(goodBody, "1099", "999", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, nil)
			_, service := open(t, d.url)
			processes := []*instance{d.instance, start(t, service, nil)}
			bodies := []string{goodBody, other}
			key := newKey()
			replies := make([]reply, 50)
			var wg sync.WaitGroup
			for i := range replies {
				wg.Go(func() { replies[i] = processes[i%2].post(t, alice, key, bodies[i/2%2]) })
			}
			wg.Wait()
			d.wantRows(t, 1)

			charged := d.get(t, alice, "/idempotency-keys/"+key)
			winner := decode[struct{ Charge charge }](t, charged.body).Charge
			answers, fresh := map[string]int{}, 0
			for i, r := range replies {
				if bodies[i/2%2] != goodBody == (winner.Amount == 1099) {
					if p := r.wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused"); p.fieldNames() != "amount" {
						t.Errorf("fields %s", p.fieldNames())
					}
					continue
				}
				if r.status != http.StatusAccepted || r.charge(t).ID != winner.ID {
					t.Errorf("answered %d %s", r.status, r.body)
				}
				answers[r.body]++
				if r.header.Get("Idempotent-Replayed") == "" {
					fresh++
				}
			}
			if len(answers) != 1 || fresh != 1 {
				t.Errorf("%d different answers, %d of them fresh", len(answers), fresh)
			}
		})
	}
}

// hold begins a transaction that has inserted a charge under key and does not end.
func hold(t *testing.T, d *deployment, key, caller string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(context.Background(), `
		INSERT INTO charge (id, caller, idempotency_key, fingerprint, fingerprint_version, request, amount, currency, status)
		VALUES ($1, $2, $3, sha256('other'), 1, '{"amount":1,"currency":"usd","payment_method":"pm_card_visa"}', 1, 'usd', 'pending')`,
		uuid.New(), caller, key)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// blocked waits until n sessions wait for a lock.
func (d *deployment) blocked(t *testing.T, n int) {
	t.Helper()
	eventually(t, "a blocked transaction", func() bool {
		return d.count(t, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") >= n
	})
}

func TestKeyInFlightIsAnsweredWithinSeconds(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	first := hold(t, d, key, "alice")
	began := time.Now()
	r := d.post(t, alice, key, goodBody)
	r.wantProblem(t, http.StatusConflict, "idempotency_key_in_use")
	if took := time.Since(began); took > 15*time.Second || r.header.Get("Retry-After") != "1" {
		t.Errorf("after %s, Retry-After %q", took, r.header.Get("Retry-After"))
	}
	if err := first.Rollback(context.Background()); err != nil { // as if it had never been
		t.Fatal(err)
	}
	d.accept(t, alice, key, goodBody)
	d.wantRows(t, 1)
}

func TestKeyInFlightThatCommits(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	first := hold(t, d, key, "bob")
	var wg sync.WaitGroup
	var r reply
	wg.Go(func() { r = d.post(t, alice, key, goodBody) })
	d.blocked(t, 1)
	if err := first.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if p := r.wantProblem(t, http.StatusUnprocessableEntity, "idempotency_key_reused"); len(p.Fields) != 0 {
		t.Errorf("another caller's fields are told: %s", r.body)
	}
	if n := d.count(t, "charge"); n != 1 {
		t.Errorf("%d charges", n)
	}
}

// A client that goes away does not undo its charge.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	key := newKey()
	other := hold(t, d, key, "alice")
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/charge", strings.NewReader(goodBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+alice)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	var wg sync.WaitGroup
	wg.Go(func() {
		if res, err := d.client.Do(req); err == nil {
			_ = res.Body.Close()
			t.Errorf("answered %d", res.StatusCode)
		}
	})
	d.blocked(t, 1)
	leave()
	wg.Wait()
	if err := other.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the charge", func() bool { return d.count(t, "charge") == 1 })
	if again := d.post(t, alice, key, goodBody); again.status != http.StatusAccepted || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("sent again: %d %s %v", again.status, again.body, again.header)
	}
	d.wantRows(t, 1)
}
