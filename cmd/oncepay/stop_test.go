package main

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// A worker that is told to stop while Stripe has not answered yet ends that call, saves its outcome, and leaves the rest.
func TestWorkerStopsGracefully(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api, worker := d.api(), d.worker("--concurrency=1")
	d.box.fault(`"fault":"delay","delay_ms":3000,"times":-1`)
	key, behind := newKey(), newKey()
	d.mustPost(api.url, key, plainCharge)
	await(t, patience, "a call to Stripe is open", func() error {
		if d.box.ledger().sends(key) == 0 {
			return errors.New("none")
		}
		return nil
	})
	d.mustPost(api.url, behind, plainCharge)
	worker.signal(syscall.SIGTERM)
	if code := worker.exitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}

	if c := d.charge(api, key); c.Status != client.StatusSucceeded {
		t.Errorf("the outcome was not saved: %s", c.Raw)
	}
	l := d.box.ledger()
	if all, succeeded := l.payments(key); all != 1 || succeeded != 1 || l.sends(key) != 1 {
		t.Errorf("%d payments, %d succeeded, %d requests", all, succeeded, l.sends(key))
	}
	if n := d.count(`SELECT count(*) FROM attempt a JOIN charge c ON c.id = a.charge_id WHERE c.idempotency_key = $1`, key); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := d.count(`SELECT count(*) FROM river_job WHERE state = 'running'`); n != 0 {
		t.Errorf("%d jobs look as if they were running", n)
	}

	// The next release goes on where this one stopped.
	d.box.clearFaults()
	d.worker()
	d.awaitStatus(api, behind, client.StatusSucceeded)
	if l := d.box.ledger(); l.sends(key) != 1 || l.sends(behind) != 1 {
		t.Errorf("%d and %d requests", l.sends(key), l.sends(behind))
	}
}

func TestAPIStopsGracefully(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	gate := d.closeGate(beforeCommit)
	key := newKey()
	slow := d.posting(api.url, key, plainCharge)
	gate.awaitHeld()

	api.signal(syscall.SIGTERM)
	awaitRefused(t, api)
	gate.open()
	p := receive(t, slow, "the answer of the request in flight")
	if err := errors.Join(p.err, p.want(http.StatusAccepted)); err != nil {
		t.Error(err)
	}
	if code := api.exitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if got := d.rows(); got != "1 1 1 1" {
		t.Errorf("rows: %s", got)
	}
}

// Whoever waits for a charge to settle gets it as it is when the process is told to stop.
func TestAPIStopEndsWaits(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	const wait = 50 * time.Second
	began := time.Now()
	waiting := d.posting(api.url, newKey(), plainCharge, "Prefer: wait=50")
	await(t, patience, "the charge is stored", func() error {
		if d.count(`SELECT count(*) FROM charge`) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	api.signal(syscall.SIGTERM)
	p := receive(t, waiting, "the answer of the request that waits")
	if err := errors.Join(p.err, p.want(http.StatusAccepted)); err != nil {
		t.Fatal(err)
	}
	if status := member(t, p.body, "status"); status != "pending" {
		t.Errorf("status %v", status)
	}
	if took := time.Since(began); took > wait/2 {
		t.Errorf("the wait went on for %s", took)
	}
	if code := api.exitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// awaitRefused waits until the process accepts no more connections.
func awaitRefused(t *testing.T, s service) {
	t.Helper()
	await(t, patience, "new connections are refused", func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("it was accepted"), conn.Close())
	})
}
