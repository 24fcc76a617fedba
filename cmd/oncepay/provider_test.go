package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
	"github.com/oncepay/oncepay/outbox"
)

// dieAt names a commit, as "provider.pause before", at which the process kills itself.
const dieAt = "ONCEPAY_TEST_DIE_AT_PROVIDER"

func init() {
	at := os.Getenv(dieAt)
	if at == "" {
		return
	}
	outbox.OnCommit = func(name string, when outbox.Moment) {
		if name+" "+string(when) == at {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill() // kill -9
			}
			select {} // nothing more is done until then
		}
	}
}

// allFault arms a fault, given as JSON members, on everything at Stripe.
func (s *sandboxProcess) allFault(members string) {
	s.t.Helper()
	s.control(http.MethodPost, "faults", `{"path":"/v1/*",`+members+`}`, nil)
}

// dyingWorker is a worker that kills itself at a commit.
func (d *deployment) dyingWorker(at string) *process {
	d.t.Helper()
	l := d.oncepay("worker", "--listen=127.0.0.1:0")
	l.env = append(l.env, "STRIPE_SECRET_KEY="+stripeKey, "STRIPE_API_BASE="+d.box.url, "SENDGRID_API_KEY="+sendgridKey,
		"SENDGRID_API_BASE="+d.box.url, "RECEIPT_FROM=Shop <receipts@shop.example>", dieAt+"="+at)
	return l.start(d.t)
}

// I6: whenever a worker dies between an outage and its end, the queues are not left paused, and each charge is paid once.
func TestI6KilledBetweenPauseAndResume(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"provider.pause before", "provider.pause after", "backlog.move after", "provider.resume before", "provider.resume after"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			api := d.api()
			var keys []string
			for range 5 {
				keys = append(keys, newKey())
				d.mustPost(api.url, keys[len(keys)-1], plainCharge)
			}
			d.box.allFault(`"fault":"drop_before","times":-1`)
			dying := d.dyingWorker(at)
			if !strings.HasPrefix(at, "provider.pause") {
				await(t, patience, "the outage", func() error {
					if d.count(`SELECT count(*) FROM provider WHERE outage = 'down'`) != 1 {
						return errors.New("none yet")
					}
					return nil
				})
				d.box.clearFaults()
			}
			if code := dying.exitCode(); code != -1 {
				t.Fatalf("exit %d: it was to be killed", code)
			}
			d.box.clearFaults()
			d.worker()
			for _, key := range keys {
				d.awaitStatus(api, key, client.StatusSucceeded)
				if n := d.box.ledger().sends(key); n != 1 {
					t.Errorf("%d requests under one key", n)
				}
			}
			await(t, patience, "the outage is over", func() error {
				if n := d.count(`SELECT (SELECT count(*) FROM provider WHERE outage IS NOT NULL) + (SELECT count(*) FROM river_queue WHERE paused_at IS NOT NULL)`); n != 0 {
					return fmt.Errorf("%d traces of it are left", n)
				}
				return nil
			})
		})
	}
}

// I6: an operator's pause holds over a restart of all workers, is shown, audited, and lifted by nobody else.
func TestI6OperatorsPauseByCommand(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	box := func(args ...string) string { return d.oncepay(append([]string{"outbox"}, args...)...).must(t) }
	expect(t, "status", box("status"), `(?m)^stripe +up +- +- +25 of 25/s +- +- +-$`, `(?m)^sendgrid +up `, `(?m)^charges +0 `, `(?m)^backlog +0 `, `(?m)^receipts +0 `)
	for _, args := range []string{
		"pause --provider=stripe", "pause --because=so", "pause --provider=paypal --because=so", "pause --provider=stripe --because=", "resume",
		"resume --provider=stripe --because=two\nlines", "replay --apply --rate=0/s",
	} {
		if r := d.oncepay(append([]string{"outbox"}, strings.Split(args, " ")...)...).run(t); r.code != 2 || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
	}
	expect(t, "resume of what runs", box("resume", "--provider=stripe"), `^stripe was not paused by an operator\. Nothing was changed\.\n$`)
	expect(t, "pause", box("pause", "--provider=stripe", "--because=wrong prices", "--who=ada"), `^stripe is paused by operator:ada since 20\S+Z\. `)

	worker := d.worker()
	key := newKey()
	d.mustPost(api.url, key, plainCharge)
	worker.signal(syscall.SIGTERM)
	worker.exitCode()
	worker = d.worker()
	probes := `SELECT count(*) FROM river_job WHERE kind = 'provider_probe' AND state = 'completed'`
	looked := d.count(probes)
	await(t, patience, "the queues have been looked at twice", func() error {
		if n := d.count(probes); n < looked+2 {
			return fmt.Errorf("%d times", n-looked)
		}
		return nil
	})
	if n := d.box.ledger().sends(key) + d.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND attempt > 0`); n != 0 {
		t.Errorf("%d calls or runs during the pause", n)
	}
	a, err := call(http.MethodGet, worker.url+"/readyz", "", nil, nil)
	if err != nil || a.status != http.StatusOK || !strings.Contains(a.body, `"notes":["stripe is paused by operator:ada: wrong prices (since 20`) {
		t.Errorf("readyz: %v, %v", a, err)
	}
	metrics, err := call(http.MethodGet, worker.url+"/metrics", "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "metrics", metrics.body, `(?m)^oncepay_provider_paused_by_operator\{provider="stripe"\} 1$`, `(?m)^oncepay_provider_paused_by_operator\{provider="sendgrid"\} 0$`,
		`(?m)^oncepay_provider_up\{provider="stripe"\} 1$`, `(?m)^oncepay_provider_rate\{provider="stripe"\} 25$`, `(?m)^oncepay_queue_depth\{queue="charges"\} 1$`,
		`(?m)^oncepay_provider_outage_seconds\{kind="down",provider="stripe"\} 0$`)
	expect(t, "status", box("status"), `(?m)^stripe +up .* operator:ada 20\S+Z +paused because wrong prices$`, `(?m)^charges +1 `)

	expect(t, "resume", box("resume", "--provider=stripe", "--because=mended", "--who=bob"), `^stripe goes on\.\n$`)
	d.awaitStatus(api, key, client.StatusSucceeded)
	if n := d.count(`SELECT count(*) FROM operator_action WHERE (actor, action, data ->> 'because') IN (('operator:ada', 'provider.pause', 'wrong prices'), ('operator:bob', 'provider.resume', 'mended'))`); n != 2 {
		t.Errorf("%d actions on record, want 2", n)
	}
}

// I6: what readiness, the metrics and the status say of an outage, and that it ends by itself.
func TestI6OutageIsShown(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api, worker := d.api(), d.worker()
	d.box.allFault(`"fault":"status","status":401,"times":-1`)
	key := newKey()
	d.mustPost(api.url, key, plainCharge)
	worker.awaitUnready("stripe is misconfigured: stripe: HTTP 401")
	worker.awaitLog("provider.down", "kind")
	expect(t, "status", d.oncepay("outbox", "status").must(t), `(?m)^stripe +misconfigured +20\S+Z +20\S+Z +25 of 25/s .* stripe: HTTP 401`)
	metrics, err := call(http.MethodGet, worker.url+"/metrics", "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "metrics", metrics.body, `(?m)^oncepay_provider_up\{provider="stripe"\} 0$`, `(?m)^oncepay_provider_outage_seconds\{kind="misconfigured",provider="stripe"\} [0-9.e-]*[1-9]`)
	d.box.clearFaults()
	d.awaitStatus(api, key, client.StatusSucceeded)
	worker.awaitReady()
	worker.awaitLog("provider.trial", "provider")
	worker.awaitLog("provider.up", "provider")
	if n := d.box.ledger().sends(key); n > 2 { // the refused one may be on record
		t.Errorf("%d requests under one key", n)
	}
}
