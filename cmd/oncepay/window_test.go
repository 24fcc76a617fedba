package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oncepay/oncepay/charges/client"
)

// A payment was made, its answer was lost, and a day later Stripe has forgotten the key: the payment is found among
// hundreds of others and adopted, whoever asks for the charge to be sent again.
func TestI2PaymentIsAdoptedAfterItsKeyIsForgotten(t *testing.T) {
	t.Parallel()
	for name, loseJobs := range map[string]bool{"with River's rows": false, "without River's rows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			api := d.api()
			key := newKey()
			d.loseAnswer(api, key)
			d.box.clearFaults()
			d.payForeign(250)
			d.box.advance("25h")
			sent := d.box.ledger().sends(key)

			wanted := 0
			if loseJobs {
				if _, err := d.pool.Exec(t.Context(), `DELETE FROM river_job`); err != nil {
					t.Fatal(err)
				}
				wanted = 1
			}
			if n := d.replayTwiceAtOnce(); n != wanted {
				t.Errorf("two replays wrote %d jobs, want %d", n, wanted)
			}
			d.worker()
			d.replayTwiceAtOnce()
			c := d.awaitStatus(api, key, client.StatusSucceeded)
			if n := d.replayTwiceAtOnce(); n != 0 {
				t.Errorf("replays of a settled charge wrote %d jobs", n)
			}
			await(t, patience, "no charge's job is left", func() error {
				if n := d.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND state <> 'completed'`); n > 0 {
					return fmt.Errorf("%d are", n)
				}
				return nil
			})

			l := d.box.ledger()
			all, succeeded := l.payments(key)
			if all != 1 || succeeded != 1 || c.PaymentIntent != l.paymentOf(key) {
				t.Errorf("%d payments, %d succeeded; the charge has %s, Stripe %s", all, succeeded, c.PaymentIntent, l.paymentOf(key))
			}
			if now := l.sends(key); now != sent {
				t.Errorf("sent again %d times", now-sent)
			}
		})
	}
}

// loseAnswer has a charge paid whose answer never arrives, and kills the worker while no job runs.
func (d *deployment) loseAnswer(api service, key string) {
	d.t.Helper()
	d.box.fault(`"fault":"drop_after","times":2`) // net/http may send a request again by itself, once
	d.box.fault(`"fault":"drop_before","times":-1`)
	worker := d.worker()
	d.mustPost(api.url, key, plainCharge)
	// The job comes back ever later, so that there is time to kill the worker in between: a job that dies while it
	// runs would come back only after a minute.
	await(d.t, 2*patience, "the payment was made, and its job waits", func() error {
		if all, _ := d.box.ledger().payments(key); all == 0 {
			return errors.New("no payment yet")
		}
		if d.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND state = 'scheduled' AND scheduled_at > now() + interval '1 second'`) == 0 {
			return errors.New("the job is about to run")
		}
		return nil
	})
	worker.kill()
	if c := d.charge(api, key); c.Status != client.StatusProcessing {
		d.t.Fatalf("the charge is %s", c.Raw)
	}
}

// payForeign makes payments that are none of ours, in the same minutes.
func (d *deployment) payForeign(n int) {
	d.t.Helper()
	paying := new(errgroup.Group)
	paying.SetLimit(8)
	for i := range n {
		paying.Go(func() error { return d.box.pay(fmt.Sprintf("foreign-%d", i)) })
	}
	if err := paying.Wait(); err != nil {
		d.t.Fatal(err)
	}
}

// replayTwiceAtOnce presses the button twice at the same time, and returns how many jobs that wrote.
func (d *deployment) replayTwiceAtOnce() (jobs int) {
	d.t.Helper()
	var pressed [2]*process
	for i := range pressed {
		pressed[i] = d.oncepay("outbox", "replay", "--apply").start(d.t)
	}
	for _, p := range pressed {
		if code := p.exitCode(); code != 0 {
			d.t.Fatalf("replay: exit %d: %s", code, p.stderr.String())
		}
		jobs += jobsWritten(d.t, p.stdout.String())
	}
	return jobs
}

// jobsWritten reads the last line of a replay.
func jobsWritten(t *testing.T, stdout string) (n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if _, err := fmt.Sscanf(lines[len(lines)-1], "%d jobs were written.", &n); err != nil {
		t.Fatalf("%v: %q", err, stdout)
	}
	return n
}
