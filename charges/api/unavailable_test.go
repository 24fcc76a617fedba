package api_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// wantUnavailable checks a 503 that says when to come back.
func (r reply) wantUnavailable(t *testing.T) {
	t.Helper()
	r.wantProblem(t, http.StatusServiceUnavailable, "unavailable")
	if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || after < 1 {
		t.Errorf("Retry-After: %q", r.header.Get("Retry-After"))
	}
}

// behindProxy is a deployment whose API reaches the database through a proxy; the test itself reaches it directly.
func behindProxy(t *testing.T) (*deployment, *proxy) {
	t.Helper()
	d := deploy(t, nil)
	p, url := newProxy(t, d.url)
	_, service := open(t, url)
	d.instance = start(t, service, nil)
	return d, p
}

func TestI8DatabaseAway(t *testing.T) {
	t.Parallel()
	d, p := behindProxy(t)
	known := d.accept(t, alice, newKey(), goodBody)
	p.setDown(true)
	key := newKey()
	d.post(t, alice, key, goodBody).wantUnavailable(t)
	for _, path := range []string{"/charges", "/charges/" + known.ID, "/charges/" + known.ID + "/events", "/idempotency-keys/" + key} {
		d.get(t, alice, path).wantUnavailable(t)
	}
	if r := d.get(t, "", "/healthz"); r.status != http.StatusOK {
		t.Errorf("/healthz: %d", r.status)
	}
	d.wantRows(t, 1)

	p.setDown(false) // and the pool heals by itself
	d.accept(t, alice, key, goodBody)
	d.wantRows(t, 2)
}

func TestI8DatabaseGoesAwayDuringACreate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statement      string
		answer, gone   bool
		status, exists int
	}{
		"before the first write":                {"INSERT INTO charge ", false, true, 503, 0},
		"before the job":                        {"INSERT INTO charge_event", false, true, 503, 0},
		"before COMMIT":                         {"commit\x00", false, true, 503, 0},
		"after COMMIT":                          {"commit\x00", true, true, 503, 1},
		"COMMIT lost, the database still there": {"commit\x00", false, false, 202, 1},
		"COMMIT's answer lost":                  {"commit\x00", true, false, 202, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, p := behindProxy(t)
			key := newKey()
			p.cutAt(tc.statement, tc.answer, tc.gone)
			r := d.post(t, alice, key, goodBody)
			if tc.status == http.StatusServiceUnavailable {
				r.wantUnavailable(t)
			} else if r.status != tc.status || r.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("answered %d %s %v", r.status, r.body, r.header)
			}
			d.wantRows(t, tc.exists)

			p.setDown(false)
			again := d.post(t, alice, key, goodBody)
			if replayed := again.header.Get("Idempotent-Replayed") == "true"; again.status != http.StatusAccepted || replayed != (tc.exists == 1) {
				t.Errorf("sent again: %d %s %v", again.status, again.body, again.header)
			}
			if r.status == http.StatusAccepted && again.body != r.body {
				t.Errorf("sent again: %s\nnot %s", again.body, r.body)
			}
			d.wantRows(t, 1)
		})
	}
}

func TestI8ReadOnlyPrimary(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	known := d.accept(t, alice, newKey(), goodBody)
	var name string
	if err := d.pool.QueryRow(t.Context(), `SELECT quote_ident(current_database())`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `ALTER DATABASE `+name+` SET default_transaction_read_only = on`)
	d.pool.Reset() // sessions keep the setting with which they began
	key := newKey()
	d.post(t, alice, key, goodBody).wantUnavailable(t)
	d.post(t, alice, newKey(), selling(item("none", 1))).wantUnavailable(t) // what it knows of the stock is old
	if r := d.get(t, alice, "/charges/"+known.ID); r.status != http.StatusOK {
		t.Errorf("reading: %d %s", r.status, r.body)
	}
	conn, err := d.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`SET default_transaction_read_only = off`, `ALTER DATABASE ` + name + ` RESET default_transaction_read_only`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	conn.Release()
	d.pool.Reset()
	d.accept(t, alice, key, goodBody)
	d.wantRows(t, 2)
}

func TestI8PoolExhausted(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	pool, service := open(t, d.url)
	busy := start(t, service, nil)
	var held []*pgxpool.Conn
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	key := newKey()
	began := time.Now()
	busy.post(t, alice, key, goodBody).wantUnavailable(t)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("answered after %s", took)
	}
	for _, conn := range held {
		conn.Release()
	}
	d.wantRows(t, 0)
	busy.accept(t, alice, key, goodBody)
}
