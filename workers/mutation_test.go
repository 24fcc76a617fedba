package workers

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var playMutations = flag.Bool("mutations", false, "take away each rule that keeps a charge from being made twice, or an item from being sold twice, and see the model fail (minutes)")

// mutation is a weakness: the source without one rule. The code itself has no switches; the edits are laid over it for one build.
type mutation struct {
	weakness string
	breaks   string // the invariant that must break ("stock" is the stock's law); or the test that must, with the folder of its package before it
	edits    []edit
}

// edit replaces a text that stands in a file once. The file's name is from the module's root.
type edit struct{ file, old, new string }

// mutations are all that must be noticed. Where an edit does not apply any more, the source has changed: adapt the text here.
var mutations = []mutation{
	{"no window: open attempts are sent again under their key at any age", "I2", []edit{{"charges/allow.go",
		"return now.age(a) >= p.Window })", "return now.age(a) >= 1000*p.Window })"}}},
	{"only the first page of a look is read", "I2", []edit{{"workers/stripe/list.go",
		"more = *p.HasMore", "more = false"}}},
	{"a look that was cut short is taken for none", "I2", []edit{{"workers/reading.go",
		"SaveReading(ctx, hold, page, stopped == nil, stopped)", "SaveReading(ctx, hold, page, true, nil)"}}},
	{"a new key without a look", "I2", []edit{{"charges/allow.go",
		"\tcase !since.IsZero():\n",
		"\tcase stored && p.Rekey:\n\t\treturn Permit{Action: Send, NewKey: true, Request: last.Request, Open: open}\n\tcase !since.IsZero():\n"}}},
	{"the attempt is written down after the call", "I2", []edit{
		{"charges/begin.go", "if err := insertAttempt(ctx, tx, begun.Attempt); err != nil {", "if err != nil {"},
		{"charges/settle.go", "if err := endAttempt(ctx, tx, a.ID, r); err != nil {",
			"if err := insertAttempt(ctx, tx, a); err != nil {\n\t\treturn false, err\n\t}\n\tif err := endAttempt(ctx, tx, a.ID, r); err != nil {"}}},
	{"only the last attempt is asked, not all of them", "I2", []edit{{"charges/allow.go",
		"last := attempts[len(attempts)-1]\n", "last := attempts[len(attempts)-1]\n\tattempts = attempts[len(attempts)-1:]\n"}}},
	{"ages are judged on PostgreSQL's clock alone", "I2", []edit{{"charges/allow.go",
		"return max(c.Database.Sub(a.SentAt), c.Stripe.Sub(a.StripeSentAt))", "return c.Database.Sub(a.SentAt)"}}},
	{"a refusal is final while another attempt is open", "I2", []edit{{"charges/settle.go",
		"if r.Outcome == Invalid && anyOpen(attempts) {", "if false && anyOpen(attempts) {"}}},
	{"a request leaves however long its process was suspended", "I2", []edit{{"workers/charge.go",
		"notAfter = 45 * time.Second", "notAfter = 1000 * time.Hour"}}},
	{"a sweep does not look for the job that is there", "I3", []edit{{"outbox/walk.go",
		"case alive:\n", "case alive && false:\n"}}},
	{"a charge is called failed while its buyer can still pay", "I2", []edit{{"charges/payment.go",
		"case s.ClientSecret != \"\":\n", "case s.ClientSecret != \"\" && false:\n"}}},
	{"another request under a key is answered as the first", "I4", []edit{{"charges/create.go",
		"len(fields) > 0 || earlier.version == FingerprintVersion {", "len(fields) > 100 {"}}},
	{"an event does not tell where its charge went", "I7", []edit{{"charges/store_attempt.go",
		"was, status, actor, data FROM moved", "was, was, actor, data FROM moved"}}},
	{"items: a failure gives nothing back", "stock", []edit{{"charges/stock.go",
		"return change, nil, giveBack(ctx, tx, c.ID)", "return change, nil, nil"}}},
	{"items: held without looking at what is available", "stock", []edit{{"charges/stock.go",
		"n, stocked := available[i.SKU]; n < i.Quantity", "n, stocked := available[i.SKU]; n < -i.Quantity"}}},
	{"items: what is available is read without a lock", "workers TestModelRush", []edit{{"charges/store_stock.go",
		"WHERE sku = ANY ($1) ORDER BY sku FOR NO KEY UPDATE", "WHERE sku = ANY ($1) ORDER BY sku"}}},
	{"items: a charge that comes too late is kept", "workers TestModelRush", []edit{{"charges/accept.go",
		"c.taken, err = true, errSoldOut", "c.taken = true"}}},
	{"items: a key is refused while its twin is accepted", "charges TestI4RefusedOnlyAfterItsTwin", []edit{{"charges/accept.go",
		"if err := awaitTwins(ctx, tx, claims); err != nil {", "if err := error(nil); err != nil {"}}},
	{"items: a SKU whose row is kept holds up all sales", "charges TestStuckSKU", []edit{{"charges/accept.go",
		"case errors.Is(err, ErrInventoryBusy):", "case false:"}}},
	{"items: what was not allocated is sold", "charges TestStockThatIsNotAllocated", []edit{{"charges/store_stock.go",
		"if !slices.ContainsFunc(short, ", "if false && !slices.ContainsFunc(short, "}}},
	{"items: what gives them back holds up successes", "charges TestI3ResultsWhileASKUIsKept", []edit{{"charges/settle.go",
		"if r.succeeded() {", "if r.Outcome != \"\" {"}}},
	{"items: a result whose lock was not to be had is dropped", "charges TestI3ResultIsTriedAgainForItsLock", []edit{{"charges/receipt.go",
		"&& !lockRefused(err) {", "{"}}},
	{"items: a late success does not hold again", "stock", []edit{{"charges/stock.go",
		"case *c.Stock == StockReturned && change.stock != StockReturned:", "case false && *c.Stock == StockReturned && change.stock != StockReturned:"}}},
	{"items: a late success for which nothing is left is one like any other", "stock", []edit{{"charges/stock.go",
		"change.To, change.Reason = NeedsReview, InsufficientInventory", "_ = InsufficientInventory"}}},
	{"items: they do not go where their charge goes", "stock", []edit{{"charges/store_attempt.go",
		"i.charge_id = moved.id AND i.stock <> moved.stock", "i.charge_id = moved.id AND i.stock <> moved.stock AND false"}}},
	{"items: given back while a person decides", "stock", []edit{{"charges/stock.go",
		"case NeedsReview:\n\t\treturn now\n", "case NeedsReview:\n\t\treturn StockReturned\n"}}},
	{"items: a person is not told that there are none left", "stock", []edit{{"charges/review_stock.go",
		"if len(short) > 0 {\n", "if change.To, change.Reason = ruled.To, ruled.Reason; false {\n"}}},
	{"items: a person who was asked for them is passed over", "stock", []edit{{"charges/settle.go",
		"case InsufficientInventory:\n\t\treturn to != NeedsReview\n", "case InsufficientInventory:\n\t\treturn false\n"}}},
	{"what was accepted for a lost payment is sent", "charges TestI2NothingIsSentForALostCharge", []edit{{"charges/lost.go",
		"case len(elsewhere) > 0 || lost:", "case len(elsewhere) > 0 || lost && false:"}}},
	{"what was seen under a key is forgotten when another list was read", "charges TestI2WhatWasSeenIsNeverSent", []edit{{"charges/lost.go",
		"case len(here) > 0:", "case len(here) > 0 && false:"}}},
	{"what a restore has lost is believed to be read before it can be listed", "charges TestLostIsReadForGood", []edit{{"charges/lost_read.go",
		"policy.Window = inDoubt", "policy.Window = s.policy.Window"}}},
	{"a receipt is claimed after the call", "I5", []edit{{"charges/receipt.go",
		"err = claimRow(ctx, tx, charge, id)", "err = nil"}}},
	{"two jobs of one charge share a transaction, in which no lock keeps them apart", "outbox TestEachSameKey", []edit{{"outbox/each.go",
		"members[i].LockKey() == members[i-1].LockKey()", "false"}}},
	{"an error of one does not undo what those did that share its transaction", "outbox TestEachKeepsNothingAfterAnError", []edit{{"outbox/each.go",
		"\t\tif s.err == nil {\n\t\t\ts.err = err\n\t\t}\n\t\ts.rest()\n", "\t\t_ = err\n\t\ts.rest()\n"}}},
	{"a charge is told what another one's rows say", "charges TestI7CrowdEndsAsEachAlone", []edit{{"outbox/call.go",
		"group[place].read(rows)", "group[(place+1)%len(group)].read(rows)"}}},
	{"what shares a transaction is told to send although its commit is in doubt", "workers TestI2BeginTogetherInDoubt", []edit{{"charges/begin.go",
		"if err := s.begins.Do(ctx, b); err != nil {", "if err := s.begins.Do(ctx, b); err != nil && !errors.Is(err, outbox.ErrInDoubt) {"}}},
}

// Every mutation applies to the source as it is. This costs nothing, so it is always checked.
func TestMutationsApply(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		m.overlay(t, t.TempDir())
	}
}

// The proof can fail: with any one rule taken away, the model's scenarios break the invariant that the rule is for. Slow, because each is a
// build of its own: go test ./workers -run TestMutations$ -mutations
func TestMutations(t *testing.T) {
	if !*playMutations {
		t.Skip("only with -mutations: each is a build of its own")
	}
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.weakness, func(t *testing.T) {
			t.Parallel()
			out, failed := m.play(t)
			pattern := `\b` + m.breaks + `: .*`
			if _, test, named := strings.Cut(m.breaks, " "); named {
				pattern = `--- FAIL: ` + test + `\b.*`
			}
			if broken := regexp.MustCompile(pattern).FindString(out); !failed || broken == "" {
				t.Fatalf("nothing noticed that %s (failed: %v):\n%s", m.weakness, failed, out)
			} else {
				t.Log(broken)
			}
		})
	}
}

// overlay writes the mutated files and the list that go build takes, and returns its name.
func (m mutation) overlay(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(root, filepath.FromSlash(e.file))
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), e.old); n != 1 {
			t.Fatalf("the mutation %q has rotted: its text stands %d times in %s:\n%s", m.weakness, n, e.file, e.old)
		}
		mutated := filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
		if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), e.old, e.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = mutated
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// building bounds how many are built and played at once: each takes a core, and half a gigabyte to link.
var building = make(chan struct{}, 2)

// play builds a package's tests over the mutated source, which must compile, and plays the scenarios of this one, or the test that must notice.
func (m mutation) play(t *testing.T) (out string, failed bool) {
	t.Helper()
	dir := t.TempDir()
	building <- struct{}{}
	defer func() { <-building }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pkg, run, named := strings.Cut(m.breaks, " ")
	if !named {
		pkg, run = "workers", "TestModelScenarios"
	}
	binary := filepath.Join(dir, "mutated.test")
	// Without debugging information the link takes half as long.
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-overlay", m.overlay(t, dir), "-o", binary, "../"+pkg)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutation %q does not compile: %v\n%s", m.weakness, err, out)
	}
	played, err := exec.CommandContext(ctx, binary, "-test.run", "^"+run+"$", "-test.failfast", "-test.timeout=4m").CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("the mutation %q took too long:\n%s", m.weakness, played)
	}
	return string(played), err != nil
}
