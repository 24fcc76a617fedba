package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/migrations/pgtest"
)

// awaitUnready waits until the process says that it is not ready, and why.
func (s service) awaitUnready(why string) {
	s.t.Helper()
	await(s.t, patience, s.name+" says why it is not ready", func() error {
		err := s.ready()
		if err == nil || !strings.HasPrefix(err.Error(), "503 ") || !strings.Contains(err.Error(), why) {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
}

// Processes may be started before there is a database, and before it has a schema. They wait, say so, and go on by themselves.
func TestProcessesWaitForTheSchema(t *testing.T) {
	t.Parallel()
	d := &deployment{t: t, token: "not_made_yet", box: startSandbox(t)}
	empty := pgtest.Empty(t)
	between, through := relayURL(t, empty)
	between.cut()
	d.url = through
	worker, api := d.workerUnready(), d.apiUnready()
	for _, s := range []service{worker, api} {
		s.awaitUnready("the database cannot be asked")
		if a, err := call(http.MethodGet, s.url+"/healthz", "", nil, nil); err != nil || a.status != http.StatusOK {
			t.Errorf("%s is alive, and says %v, %v", s.name, a, err)
		}
	}
	between.mend(t)
	for _, s := range []service{worker, api} {
		s.awaitUnready("run oncepay migrate")
	}

	for _, s := range []service{worker, api} {
		await(t, patience, s.name+" has logged what it waits for, once for each reason", func() error {
			if n := strings.Count(s.stderr.String(), `"msg":"database.wait"`); n != 2 {
				return fmt.Errorf("%d times", n)
			}
			return nil
		})
	}

	d.url = empty
	for _, args := range []string{"keys list", "keys create --name=shop --role=caller", "outbox list", "outbox replay", "outbox replay --apply"} {
		r := d.oncepay(strings.Fields(args)...).run(t)
		if r.code != 1 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "run oncepay migrate") {
			t.Errorf("%s: exit %d: %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	expect(t, "migrate", d.oncepay("migrate").must(t), `(?m)^applied 0001_charge$`)
	expect(t, "migrate again", d.oncepay("migrate").must(t), `^the schema is up to date\n$`)
	worker.awaitReady()
	api.awaitReady()
	worker.awaitLog("database.ready", "level")
	api.awaitLog("database.ready", "level")
	d.token = strings.TrimSpace(d.oncepay("keys", "create", "--name=shop", "--role=caller").must(t))
	key := newKey()
	if err := d.mustPost(api.url, key, plainCharge).want(http.StatusAccepted); err != nil {
		t.Fatal(err)
	}
	d.awaitStatus(api, key, client.StatusSucceeded)
}

// The database may go away again just after the worker has found it there.
func TestWorkerWaitsForTheDatabaseAgain(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"until it is back": false, "until it is told to stop": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			between, through := relayURL(t, d.url)
			d.url = through
			d.box.control(http.MethodPost, "faults", `{"path":"/v1/account","fault":"delay","delay_ms":1500}`, nil)
			worker := d.workerUnready()
			await(t, patience, "the worker asks Stripe who it is", func() error {
				if len(d.box.ledger().Requests) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			between.cut()
			worker.awaitLog("workers.wait", "error")
			worker.awaitUnready("the database cannot be asked")
			if told {
				worker.signal(syscall.SIGTERM)
				if code := worker.exitCode(); code != 0 {
					t.Errorf("exit %d", code)
				}
				return
			}
			between.mend(t)
			worker.awaitReady()
		})
	}
}

func TestMigrateWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	d := &deployment{t: t, token: "not_made_yet"}
	between, through := relayURL(t, pgtest.Empty(t))
	between.cut()
	d.url = through
	migrate := d.oncepay("migrate").start(t)
	migrate.awaitLog("database.wait", "error")
	between.mend(t)
	if code := migrate.exitCode(); code != 0 {
		t.Fatalf("exit %d: %s", code, migrate.stderr.String())
	}
	expect(t, "migrate", migrate.stdout.String(), `(?m)^applied 0001_charge$`)
}

// A backup that was made before any worker ran tells where it was made all the same.
func TestMigrateNotesWhereTheDataIs(t *testing.T) {
	t.Parallel()
	d := &deployment{t: t, token: "not_made_yet", url: pgtest.Empty(t)}
	d.oncepay("migrate").must(t)
	pool := openPool(t, d.url)
	var restored int
	if err := pool.QueryRow(t.Context(), `UPDATE database_identity SET database_oid = 1, seen_at = seen_at - interval '1 hour' RETURNING 0`).Scan(&restored); err != nil {
		t.Fatal(err) // there is no note
	}
	if again := d.oncepay("migrate").run(t); again.code != 0 || !strings.Contains(again.stderr, "restoration.detected") {
		t.Errorf("on restored data: %+v", again)
	}
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM restoration`).Scan(&restored); err != nil || restored != 1 {
		t.Errorf("%d restorations, %v", restored, err)
	}
}

func TestI8DatabaseAway(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	direct := d.url
	between, through := relayURL(t, direct)
	d.url = through
	api, worker := d.api(), d.worker()
	before, during := newKey(), newKey()
	if err := d.mustPost(api.url, before, plainCharge).want(http.StatusAccepted); err != nil {
		t.Fatal(err)
	}
	d.awaitStatus(api, before, client.StatusSucceeded)

	between.cut()
	a := d.mustPost(api.url, during, plainCharge)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || member(t, a.body, "code") != "unavailable" {
		t.Errorf("got %v", a)
	}
	api.awaitUnready("the database cannot be asked")
	worker.awaitUnready("the database cannot be asked")
	if n := d.count(`SELECT count(*) FROM charge`); n != 1 { // over a connection of the test's own
		t.Errorf("%d charges", n)
	}

	between.mend(t)
	await(t, patience, "the same request is accepted", func() error {
		a, err := d.post(api.url, during, plainCharge)
		return errors.Join(err, a.want(http.StatusAccepted))
	})
	d.awaitStatus(api, during, client.StatusSucceeded)
	api.awaitReady()
	worker.awaitReady()
	if all, succeeded := d.box.ledger().payments(during); all != 1 || succeeded != 1 {
		t.Errorf("%d payments, %d succeeded", all, succeeded)
	}
	for _, s := range []service{api, worker} {
		if s.hasEnded() {
			t.Errorf("%s ended", s.name)
		}
	}
}
