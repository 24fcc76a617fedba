package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

var crashAll = flag.Bool("crash.all", false, "kill a process at every point, not only at the few that every run tries")

// A process is killed on either side of every commit and of every call to a provider. It is started again, the client retries, a day
// passes, an operator presses the button: each key has paid once, or not at all, and nothing waits for nobody.
func TestI1I2I3I4I5I7CrashPoints(t *testing.T) {
	t.Parallel()
	for _, story := range crashStories {
		for _, p := range story.points {
			if !*crashAll && !slices.Contains(story.few, p.at) {
				continue
			}
			t.Run(fmt.Sprintf("%s, killed at %s", story.name, p), func(t *testing.T) {
				t.Parallel()
				story.tell(&crash{deployment: deploy(t), point: p})
			})
		}
	}
}

const runsAgain = 2 * time.Minute // after kill -9, as promised

// Nobody helps here: River itself finds out that a worker is dead.
func TestI3KilledWorkersJobsRunAgain(t *testing.T) {
	t.Parallel()
	if !*crashAll {
		t.Skip("takes two minutes; -crash.all")
	}
	for name, at := range map[string]string{"a charge": "attempt.begin after", "a sweep, for a charge without a job": "outbox.sweep before"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &crash{deployment: deploy(t), point: crashPoint{at: at}}
			c.server = c.api()
			o := c.buy("pm_card_visa", client.StatusSucceeded)
			c.mustPost()
			if strings.Contains(at, "sweep") {
				if _, err := c.pool.Exec(t.Context(), `DELETE FROM river_job`); err != nil {
					t.Fatal(err)
				}
			}
			c.crashWorker(c.point)
			killed := time.Now()
			c.worker()
			await(t, 3*runsAgain, "the job runs again", func() error {
				if c.box.ledger().sends(o.params.IdempotencyKey) == 0 {
					return errWaits
				}
				return nil
			})
			t.Logf("running again %s after kill -9", time.Since(killed).Round(time.Second))
			c.settle()
		})
	}
}
