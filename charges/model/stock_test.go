package model

import (
	"regexp"
	"strings"
	"testing"
)

// unreached are places in the model that no run comes to.
var unreached = regexp.MustCompile(`(?m)^\tstock\.pml:\d+, state \d+, "(.*)"$`)

// Whoever crashes, errs or comes late: no more is allocated than there is, none is lost, nothing is held by a charge that is over, and what has
// succeeded has its item, or a person was asked.
func TestStockModelHolds(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{
		"the last one":                    {file: "stock.pml"},
		"none at first, and two at last":  {file: "stock.pml", defs: []string{"-DITEMS=0", "-DMORE=2"}},
		"the last one, with more crashes": {file: "stock.pml", defs: []string{"-DFAULTS=5", "-DMORE=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := v.check(t)
			if !strings.Contains(out, verified) || strings.Contains(out, "not completed") || strings.Contains(out, "depth too small") {
				t.Errorf("the model does not hold:\n%s", out)
			}
			for _, place := range unreached.FindAllStringSubmatch(out, -1) {
				if place[1] != "-end-" && v.defs == nil {
					t.Errorf("no run comes to %s", place[0])
				}
			}
		})
	}
}

// The model can fail: without any one of its rules, a promise breaks.
func TestStockModelNeedsEveryRule(t *testing.T) {
	t.Parallel()
	const oversold, wrong, without, unasked = "(allocated<=quantity)", "(allocated==((", "stock[0]!=", "asked[0]"
	for rule, r := range map[string]struct{ what, breaks string }{
		"NO_LOCK":       {"what is available is read without a lock", oversold},
		"QUANTITY_FREE": {"the quantity is set below what is allocated", oversold},
		"NO_UNDO":       {"the row of a charge that was refused stays", without},
		"TIMER":         {"what is held for long is given back, whatever becomes of the payment", without},
		"NO_GIVE_BACK":  {"a charge that is over gives nothing back", wrong},
		"APART":         {"items are given back in another commit than the one that ends their charge", wrong},
		"STALE":         {"where items are is read before the charge is locked", wrong},
		"LATE_FREE":     {"a late success does not hold again", wrong},
		"PERSON_FREE":   {"a person settles as succeeded what is short", wrong},
		"LATE_ANYWAY":   {"a late success goes on without its item, and nobody is asked", unasked},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			out := variant{file: "stock.pml", defs: []string{"-D" + rule}}.check(t)
			if _, broken, found := strings.Cut(out, "assertion violated "); !found || !strings.Contains(strings.SplitN(broken, "\n", 2)[0], r.breaks) {
				t.Errorf("%s, and %s was not broken:\n%s", r.what, r.breaks, out)
			}
		})
	}
}
