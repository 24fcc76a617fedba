package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

// I1, I4: PostgreSQL and the API are killed while many clients post as fast as they can. Whatever was acknowledged is there afterwards with key,
// event and job, and is answered again byte for byte.
func TestI1AcknowledgedSurvivesKilledPostgreSQLAndAPI(t *testing.T) {
	t.Parallel()
	server, url := pgtest.Own(t)
	d := deployOn(t, url)
	api := d.api()
	told := map[string]string{} // by key: the answer
	for range 3 {
		// Only now and then is an acknowledgement seen in the moment in which PostgreSQL dies, so it dies a few times.
		more := d.postUntilBroken(api, func() {
			if err := server.Kill(t.Context()); err != nil {
				t.Error(err)
			}
			api.kill()
		})
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.pool.Reset()
		for key, body := range more {
			told[key] = body
		}
		d.wantAcknowledged(told)
		api = d.api("--listen=" + strings.TrimPrefix(api.url, "http://"))
		d.wantReplayed(api, more)
	}
	t.Logf("%d charges were acknowledged, %d are there", len(told), d.count(`SELECT count(*) FROM charge`))
}

const (
	crowdClients = 64
	crowdCharges = 300 // acknowledged, before the end
)

// postUntilBroken lets clients post new charges until the API is gone, has it ended in the middle, and returns what was acknowledged.
func (d *deployment) postUntilBroken(api service, end func()) map[string]string {
	d.t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: crowdClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	var mu sync.Mutex
	told := map[string]string{}
	var acknowledged atomic.Int64
	enough := make(chan struct{})
	var clients sync.WaitGroup
	for range crowdClients {
		clients.Go(func() {
			for {
				key := newKey()
				header := map[string]string{"Authorization": "Bearer " + d.token, "Content-Type": "application/json", "Idempotency-Key": key}
				a, err := call(http.MethodPost, api.url+"/charge", plainCharge, header, client)
				if err != nil {
					return // the API is gone
				}
				if a.status != http.StatusAccepted {
					continue // PostgreSQL is gone
				}
				mu.Lock()
				told[key] = a.body
				mu.Unlock()
				if acknowledged.Add(1) == crowdCharges {
					close(enough)
				}
			}
		})
	}
	receive(d.t, enough, "charges are acknowledged")
	end()
	clients.Wait()
	return told
}

// wantAcknowledged checks that every charge that was acknowledged is in the database, whole.
func (d *deployment) wantAcknowledged(told map[string]string) {
	d.t.Helper()
	keys := make([]string, 0, len(told))
	for key := range told {
		keys = append(keys, key)
	}
	const whole = `SELECT count(*) FROM charge c WHERE idempotency_key = ANY ($1)
		AND 1 = (SELECT count(*) FROM idempotency_key k WHERE k.key = c.idempotency_key AND k.charge_id = c.id)
		AND 1 = (SELECT count(*) FROM charge_event e WHERE e.charge_id = c.id AND e.type = 'charge.accepted')
		AND 1 = (SELECT count(*) FROM river_job j WHERE j.args ->> 'charge_id' = c.id::text AND j.kind = 'charge_send')`
	if n := d.count(whole, keys); n != len(keys) {
		d.t.Errorf("%d charges were acknowledged, and %d of them are there", len(keys), n)
	}
}

// wantReplayed checks that each key is answered as it was.
func (d *deployment) wantReplayed(api service, told map[string]string) {
	d.t.Helper()
	posting, _ := errgroup.WithContext(context.Background())
	posting.SetLimit(16)
	for key, body := range told {
		posting.Go(func() error {
			a, err := d.post(api.url, key, plainCharge)
			if err == nil && (a.status != http.StatusAccepted || a.body != body || a.header.Get("Idempotent-Replayed") != "true") {
				d.t.Errorf("key %s was answered %s, and again %v", key, body, a)
			}
			return err
		})
	}
	if err := posting.Wait(); err != nil {
		d.t.Error(err)
	}
}
