// Package model checks two formal models: charge.pml, of the rules by which a charge is sent, looked for and sent again, and stock.pml, of those by
// which two charges hold, take and give back one item.
package model

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bound is for one step of one variant: the largest takes some seconds of a core.
const bound = 5 * time.Minute

// verified is how Spin says that it has been everywhere and found nothing.
const verified = "errors: 0"

// I2, I3: whatever crashes, is suspended, lost, refused or forgotten, there is never a second payment, and every run ends with a
// charge that is settled or waits for a person.
func TestI2I3ModelHolds(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{
		"a new key by itself": {},
		"a person decides":    {defs: []string{"-DREVIEW"}},
		// Non-progress cycles: with none, every run is finite, so that the end states are all that can come of one.
		"no run is endless": {defs: []string{"-DFAULTS=2"}, compile: []string{"-DNP"}, run: []string{"-l"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := v.check(t)
			if !strings.Contains(out, verified) || strings.Contains(out, "not completed") || strings.Contains(out, "depth too small") {
				t.Errorf("the model does not hold:\n%s", out)
			}
		})
	}
}

// The model can fail: without any one of its rules, there is a second payment.
func TestModelNeedsEveryRule(t *testing.T) {
	t.Parallel()
	for rule, what := range map[string]string{
		"NO_WINDOW":    "open attempts are sent again under their key at any age",
		"NO_BOUND":     "a request leaves however long its process was suspended",
		"LAST_ONLY":    "only the last attempt is asked, not all of them",
		"ATTEMPT_LATE": "the attempt is written down after the call",
		"HALF_LOOK":    "a list that was cut short is taken for one without the payment",
		"YOUNG_LOOK":   "a list is believed while a request may linger at Stripe",
		"BLIND_REKEY":  "a new key is used without a look",
		"EARLY_REKEY":  "a new key is used after the first look",
		"LATE_DATE":    "a look is as old as its record, not as its list",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			out := variant{defs: []string{"-D" + rule}}.check(t)
			if !strings.Contains(out, "assertion violated (payments<=1)") {
				t.Errorf("%s, and no second payment was found:\n%s", what, out)
			}
		})
	}
}

// variant is the model with some of its rules changed.
type variant struct {
	file               string // empty: charge.pml
	defs, compile, run []string
}

// check runs Spin's three steps on the model and returns the verifier's report.
func (v variant) check(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			why := fmt.Sprintf("the model is not checked: install %[1]s (Debian: apt install %[1]s)", program)
			if os.Getenv("CI") != "" {
				t.Fatal(why) // nobody reads what was left out there
			}
			t.Skip(why)
		}
	}
	file := cmp.Or(v.file, "charge.pml")
	dir := t.TempDir()               // Spin writes into its working directory
	source, err := os.ReadFile(file) // here, so that go test sees that it changed
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, file), source, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	step := func(program string, args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
		return string(out)
	}
	step("spin", append(append([]string{"-a"}, v.defs...), file)...)
	safety := "-DSAFETY"
	if v.compile != nil {
		safety = "-DNOFAIR"
	}
	step("gcc", append([]string{"-w", "-DMEMLIM=3000", safety, "-o", "pan", "pan.c"}, v.compile...)...)
	return step(filepath.Join(dir, "pan"), append([]string{"-m100000"}, v.run...)...)
}
