package workers

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// The model is the real service on a real PostgreSQL, and the real workers of two processes, which call the simulators over HTTP. What River,
// time, providers, buyers, callers and kill -9 do to them is done by hand, one step after the other:
//
//   - model_world_test.go: the database, the processes, and time, which passes for PostgreSQL and for Stripe together or for one alone;
//   - model_wire_test.go: runs of jobs that are suspended or die in a call or at a commit;
//   - model_jobs_test.go: jobs, run as River runs them, whether they are due, rescued or there twice;
//   - model_others_test.go: buyers, and other business at the same Stripe account;
//   - model_stock_test.go: what the shop has in stock, and buyers for whom it is not enough;
//   - model_rulings_test.go: what a person decides, who may err;
//   - model_invariants_test.go: what must be true after each step, and in the end;
//   - model_scenarios_test.go, model_stock_scenarios_test.go: short lists of steps, one for each way to charge twice, to oversell or to lose an item;
//   - mutation_test.go: the scenarios break an invariant as soon as any one rule is taken away.

// TestModel plays worlds at random: lists of steps in any order, after each of which the invariants hold (I2, I3, I4, I5, I6, I7), and in the end
// everything has come to its end. A list that fails is made as short as it can be and printed, with the flag that plays it again.
//
// By default it plays few worlds, to be quick. For long: go test ./workers -run TestModel$ -rapid.checks=2000 -rapid.steps=60 -timeout 2h
func TestModel(t *testing.T) {
	t.Parallel()
	playShortly(t)
	s := newStage(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := s.newWorld(rt, rapid.Bool().Draw(rt, "rekey"))
		defer w.close()
		rt.Repeat(w.steps())
		w.conclude()
	})
}

// playShortly bounds what was not bounded by flags.
func playShortly(t *testing.T) {
	t.Helper()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "30", "rapid.steps": "30", "rapid.nofailfile": "true"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

// upset is what can happen while a job runs.
type upset struct {
	stop   moment
	faults []sandbox.Fault
	often  int // more often than others; 0: once
}

var upsets = map[string]upset{
	"nothing":                   {often: 9},
	"the answer is lost":        {faults: onCreating(sandbox.Fault{Kind: sandbox.DropAfter}), often: 4},
	"the request is lost":       {faults: onCreating(sandbox.Fault{Kind: sandbox.DropBefore})},
	"half an answer":            {faults: onCreating(sandbox.Fault{Kind: sandbox.Truncate})},
	"a page of HTML":            {faults: onCreating(sandbox.Fault{Kind: sandbox.HTML})},
	"500":                       {faults: onCreating(sandbox.Fault{Kind: sandbox.Status, Status: 500})},
	"500, stored":               {faults: onCreating(sandbox.Fault{Kind: sandbox.StoredStatus, Status: 500})},
	"500, stored, and paid":     {faults: onCreating(sandbox.Fault{Kind: sandbox.StoredStatus, Status: 500, Done: true}), often: 3},
	"429":                       {faults: onCreating(sandbox.Fault{Kind: sandbox.Status, Status: 429})},
	"409":                       {faults: onCreating(sandbox.Fault{Kind: sandbox.Status, Status: 409})},
	"401":                       {faults: onCreating(sandbox.Fault{Kind: sandbox.Status, Status: 401})},
	"400":                       {faults: onCreating(sandbox.Fault{Kind: sandbox.Status, Status: 400, Code: "payment_method_unexpected_state"})},
	"lists fail":                {faults: onReading("/v1/payment_intents", sandbox.Fault{Kind: sandbox.Status, Status: 500}), often: 2},
	"lists are cut short":       {faults: onReading("/v1/payment_intents", sandbox.Fault{Kind: sandbox.Truncate})},
	"lists are late":            {faults: onReading("/v1/payment_intents", sandbox.Fault{Kind: sandbox.ListLag, DelayMS: 300_000})},
	"payments cannot be read":   {faults: onReading("/v1/payment_intents/*", sandbox.Fault{Kind: sandbox.Status, Status: 500})},
	"the mail's answer is lost": {faults: onMailing(sandbox.Fault{Kind: sandbox.DropAfter})},
	"the mail is lost":          {faults: onMailing(sandbox.Fault{Kind: sandbox.DropBefore})},
	"mail: 429":                 {faults: onMailing(sandbox.Fault{Kind: sandbox.Status, Status: 429})},
	"mail: 503":                 {faults: onMailing(sandbox.Fault{Kind: sandbox.Status, Status: 503})},

	"sleeps before the call":        {stop: moment{before: "POST"}, often: 3},
	"sleeps before the answer":      {stop: moment{after: "POST"}},
	"sleeps before the list":        {stop: moment{before: "GET"}},
	"sleeps with the list":          {stop: moment{after: "GET"}},
	"sleeps before the mail":        {stop: moment{before: "mail"}},
	"sleeps after the mail":         {stop: moment{after: "mail"}},
	"sleeps after the first commit": {stop: moment{commit: 1, committed: true}},
	"dies before the call":          {stop: moment{before: "POST", dies: true}},
	"dies before the answer":        {stop: moment{after: "POST", dies: true}, often: 2},
	"dies with the list":            {stop: moment{after: "GET", dies: true}},
	"dies after the mail":           {stop: moment{after: "mail", dies: true}, often: 2},
	"dies before the first commit":  {stop: moment{commit: 1, dies: true}},
	"dies after the first commit":   {stop: moment{commit: 1, committed: true, dies: true}},
	"dies before the second commit": {stop: moment{commit: 2, dies: true}},
	"dies after the second commit":  {stop: moment{commit: 2, committed: true, dies: true}},
	"dies before the third commit":  {stop: moment{commit: 3, dies: true}},
	"paid, and dies before an answer": {stop: moment{after: "POST", dies: true},
		faults: onCreating(sandbox.Fault{Kind: sandbox.StoredStatus, Status: 500, Done: true})},
}

func onCreating(f sandbox.Fault) []sandbox.Fault { return []sandbox.Fault{onCreate(f, 1)} }

func onReading(path string, f sandbox.Fault) []sandbox.Fault {
	f.Method, f.Path, f.Times = "GET", path, sandbox.Forever
	return []sandbox.Fault{f}
}

func onMailing(f sandbox.Fault) []sandbox.Fault {
	f.Path = "/v3/mail/send"
	return []sandbox.Fault{f}
}

// upsetNames has each name as often as it shall be drawn.
var upsetNames = func() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(upsets)) {
		names = append(names, slices.Repeat([]string{name}, max(upsets[name].often, 1))...)
	}
	return names
}()

var (
	methods = []string{"pm_card_visa", "pm_card_visa", "pm_card_visa", "pm_card_chargeDeclined", "pm_card_authenticationRequired"}
	kinds   = []outbox.Kind{outbox.KindCharge, outbox.KindCharge, outbox.KindCharge, outbox.KindFollow, outbox.KindReceipt}
	// Around the bounds: a call's 45 s and 60 s, a look's 15 min and 1 h, the window's 23 h, Stripe's 24 h.
	buyers  = []string{"passes the check", "fails the check", "takes another card"}
	rulings = []charges.Status{charges.Succeeded, charges.Failed, charges.Processing}
	leaps   = []time.Duration{30 * time.Second, 50 * time.Second, 2 * time.Minute, 2 * time.Minute, 16 * time.Minute, 70 * time.Minute, 22 * time.Hour,
		23*time.Hour + 30*time.Minute, 25 * time.Hour, 25 * time.Hour, 25 * time.Hour}
)

const (
	mostCharges = 8 // of a world: what is tested is what happens to each
	mostAsleep  = 4
)

// steps are what can happen next.
func (w *world) steps() map[string]func(*rapid.T) {
	some := func(t *rapid.T, n int, what string) int {
		if n == 0 {
			t.Skip("there is none")
		}
		return rapid.IntRange(0, n-1).Draw(t, what)
	}
	work := func(t *rapid.T) {
		charge, kind := some(t, len(w.ids), "charge"), rapid.SampledFrom(kinds).Draw(t, "kind")
		if len(w.asleep) >= mostAsleep || kind == outbox.KindReceipt && w.get(w.ids[charge]).Receipt == nil {
			t.Skip("nothing to do")
		}
		upset := upsets[rapid.SampledFrom(upsetNames).Draw(t, "upset")]
		w.work(rapid.IntRange(0, 1).Draw(t, "process"), w.jobOf(charge, kind), upset.stop, upset.faults...)
	}
	return often(map[string]int{"work": 5, "post": 2, "time": 3}, map[string]func(*rapid.T){
		"": func(t *rapid.T) { w.check() },
		"post": func(t *rapid.T) {
			if len(w.ids) == mostCharges {
				t.Skip("enough")
			}
			w.sell(rapid.SampledFrom(methods).Draw(t, "method"), rapid.SampledFrom([]string{"", "buyer@example.com"}).Draw(t, "receipt to"), drawSale(t))
		},
		"post what was refused": func(t *rapid.T) {
			i := some(t, len(w.refused), "refused")
			if len(w.ids) == mostCharges {
				t.Skip("enough")
			}
			w.tryAgain(i, rapid.Bool().Draw(t, "same request"))
		},
		"stock": func(t *rapid.T) {
			w.stock(rapid.SampledFrom(skus).Draw(t, "SKU"), rapid.Int64Range(0, 5).Draw(t, "quantity"))
		},
		"rule": func(t *rapid.T) {
			waits := w.at(charges.NeedsReview)
			w.rule(waits[some(t, len(waits), "waits")], rapid.SampledFrom(rulings).Draw(t, "as"), rapid.Bool().Draw(t, "force"),
				rapid.SampledFrom([]func(*charges.Ruling){func(*charges.Ruling) {}, withoutItems, restocking}).Draw(t, "items"))
		},
		"misjudge": func(t *rapid.T) {
			pending := w.at(charges.Pending)
			if i := some(t, len(pending), "pending"); !w.outage && len(w.asleep) == 0 {
				w.misjudge(pending[i])
				if len(w.ids) < mostCharges && rapid.Bool().Draw(t, "sold meanwhile") {
					w.sell("pm_card_visa", "", sale{items: w.posts[pending[i]].Request.Items})
				}
			}
		},
		"post again": func(t *rapid.T) { w.repost(some(t, len(w.ids), "charge"), rapid.Bool().Draw(t, "same request")) },
		"work":       work,
		"work all": func(t *rapid.T) {
			for n, j := range w.jobs() {
				w.work(n%2, j, moment{})
				w.check()
			}
		},
		"wake": func(t *rapid.T) {
			i := some(t, len(w.asleep), "sleeper")
			w.rouse(i, true, upsets[rapid.SampledFrom(upsetNames).Draw(t, "upset")].faults...)
		},
		"kill": func(t *rapid.T) { w.kill(rapid.IntRange(0, 1).Draw(t, "process")) },
		"time": func(t *rapid.T) { w.pass(rapid.SampledFrom(leaps).Draw(t, "passes"), true, true) },
		"one clock is set": func(t *rapid.T) {
			if len(w.asleep) > 0 {
				t.Skip("while somebody is in a call, no clock is set by hours")
			}
			database := rapid.Bool().Draw(t, "PostgreSQL's")
			w.pass(rapid.SampledFrom(leaps).Draw(t, "by"), database, !database)
		},
		"outage": func(t *rapid.T) { w.setOutage(!w.outage) },
		"sweep":  func(t *rapid.T) { w.sweep() },
		"replay": func(t *rapid.T) { w.replay() },
		"lose the jobs": func(t *rapid.T) {
			w.exec(`DELETE FROM river_job WHERE state <> 'running'`)
		},
		"event": func(t *rapid.T) { w.tell(some(t, len(w.sandbox.Events()), "event")) },
		"buyer": func(t *rapid.T) {
			waiting := w.waiting()
			w.buyer(waiting[some(t, len(waiting), "payment")], rapid.SampledFrom(buyers).Draw(t, "does"))
		},
	})
}

// drawSale draws what a buyer asks for: mostly something, and some in time only.
func drawSale(t *rapid.T) (s sale) {
	for _, sku := range skus {
		if n := rapid.Int64Range(-1, 2).Draw(t, sku); n > 0 {
			s.items = append(s.items, charges.Item{SKU: sku, Quantity: n})
		}
	}
	s.sendBefore = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Minute, 10 * time.Minute}).Draw(t, "send before")
	return s
}

// at are the charges of a status.
func (w *world) at(status charges.Status) (at []int) {
	w.t.Helper()
	for i, id := range w.ids {
		if w.get(id).Status == status {
			at = append(at, i)
		}
	}
	return at
}

// often makes some steps more frequent than others: rapid draws from their names.
func often(times map[string]int, steps map[string]func(*rapid.T)) map[string]func(*rapid.T) {
	for name, n := range times {
		for i := 2; i <= n; i++ {
			steps[fmt.Sprintf("%s (%d)", name, i)] = steps[name]
		}
	}
	return steps
}
