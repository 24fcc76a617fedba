package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

func TestOutbox(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	var keys, ids []string
	for range 3 {
		key := newKey()
		a := d.mustPost(api.url, key, plainCharge)
		keys, ids = append(keys, key), append(ids, fmt.Sprint(member(t, a.body, "id")))
	}
	jobs := func() int { return d.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send'`) }
	outbox := func(args ...string) string { return d.oncepay(append([]string{"outbox"}, args...)...).must(t) }

	expect(t, "all live", outbox("replay"), `(?m)^live +3 `, `(?m)^0 jobs would be written\. Nothing was changed`)

	if _, err := d.pool.Exec(t.Context(), `DELETE FROM river_job WHERE args->>'charge_id' <> $1`, ids[0]); err != nil {
		t.Fatal(err)
	}
	expect(t, "list", outbox("list"), `(?m)^`+ids[0]+` +charge.* available `, `(?m)^`+ids[1]+` +charge.* never_sent .* none `, `(?m)^`+ids[2]+` +charge.* none `)
	if lines := strings.Count(outbox("list", "--charge="+ids[1]), "\n"); lines != 2 {
		t.Errorf("one charge's list has %d lines", lines)
	}
	if more := d.oncepay("outbox", "list", "--limit=2").run(t); more.code != 0 || strings.Count(more.stdout, "\n") != 3 || !strings.Contains(more.stderr, "more") {
		t.Errorf("a list cut short: %+v", more)
	}

	expect(t, "dry run", outbox("replay"), `(?m)^live +1 `, `(?m)^never_sent +2 +send$`, `(?m)^2 jobs would be written\. Nothing was changed; --apply does it\.$`)
	if n := jobs(); n != 1 {
		t.Fatalf("a dry run left %d jobs", n)
	}
	expect(t, "one", outbox("replay", "--apply", "--charge="+ids[1], "--who=night-shift"), `(?m)^1 jobs were written\.$`)
	expect(t, "none of another caller", outbox("replay", "--apply", "--caller=florist"), `(?m)^0 jobs were written\.$`)
	rest := d.oncepay("outbox", "replay", "--apply").run(t)
	if rest.stderr != "" {
		t.Errorf("a bar is drawn where nobody sees it: %q", rest.stderr)
	}
	expect(t, "the rest", rest.stdout, `(?m)^live +2 `, `(?m)^never_sent +1 `, `(?m)^1 jobs were written\.$`)
	expect(t, "nothing more", outbox("replay", "--apply"), `(?m)^live +3 `, `(?m)^0 jobs were written\.$`)
	if n := jobs(); n != 3 {
		t.Errorf("%d jobs", n)
	}
	if n := d.count(`SELECT count(*) FROM replay WHERE actor = 'operator:night-shift' AND enqueued = 1 AND finished_at IS NOT NULL`); n != 1 {
		t.Errorf("%d audit rows", n)
	}

	d.worker()
	for _, key := range keys {
		d.awaitStatus(api, key, client.StatusSucceeded)
	}
	expect(t, "settled", outbox("replay"), `(?m)^settled +3 `, `(?m)^0 jobs would be written`)
	for _, key := range keys {
		if n := d.box.ledger().sends(key); n != 1 {
			t.Errorf("%d requests to Stripe", n)
		}
	}
}

// Whoever reads the list learns why a person is asked, and what is in doubt about a receipt.
func TestOutboxListSaysWhy(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	var ids []string
	for range 3 {
		ids = append(ids, fmt.Sprint(member(t, d.mustPost(api.url, newKey(), plainCharge).body, "id")))
	}
	for _, statement := range []string{
		`UPDATE charge SET status = 'needs_review', review_reason = 'two payments carry its key' WHERE id = '` + ids[0] + `'`,
		`INSERT INTO receipt (charge_id, recipient, status, error) VALUES ('` + ids[1] + `', 'me@` + buyersHost + `', 'unknown', 'no answer ` + strings.Repeat("at all ", 40) + `')`,
		`INSERT INTO receipt (charge_id, recipient, status, error) VALUES ('` + ids[2] + `', 'me@` + buyersHost + `', 'pending', 'SendGrid was away')`,
	} {
		if _, err := d.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	list := d.oncepay("outbox", "list").must(t)
	expect(t, "list", list, `^CHARGE .* REASON\n`, `(?m)^`+ids[0]+` +charge_send +needs_review .* two payments carry its key$`,
		`(?m)^`+ids[1]+` +charge_send +never_sent .* -$`, `(?m)^`+ids[1]+` +receipt_send +receipt_unknown .* no answer at all [atl ]{50,99}…$`,
		`(?m)^`+ids[2]+` +receipt_send +receipt_waiting .* -$`)
}

// Who is asked what a sweep would do decides by the workers' settings, on receipts as well.
func TestOutboxJudgesReceiptsAsTheWorkersDo(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	id := fmt.Sprint(member(t, d.mustPost(d.api().url, newKey(), plainCharge).body, "id"))
	for _, statement := range []string{
		`UPDATE charge SET status = 'succeeded', payment_intent = 'pi_1'`,
		`DELETE FROM river_job`,
		`INSERT INTO receipt (charge_id, recipient, status, doubts) VALUES ('` + id + `', 'me@` + buyersHost + `', 'unknown', 1)`,
	} {
		if _, err := d.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	outbox := func(args ...string) string { return d.oncepay(append([]string{"outbox"}, args...)...).must(t) }
	expect(t, "held", outbox("replay"), `(?m)^receipt_unknown +1 +nothing`, `(?m)^0 jobs would be written`)
	expect(t, "held", outbox("list"), `(?m)^`+id+` +receipt_send +receipt_unknown .* not wanted `)
	expect(t, "sent again", outbox("replay", "--receipt-unknown=resend"), `(?m)^receipt_unknown +1 +mail again`, `(?m)^1 jobs would be written`)
	expect(t, "sent again", outbox("list", "--receipt-unknown=resend"), `(?m)^`+id+` +receipt_send +receipt_unknown .* none `)
}

// expect checks that a text has a match for each of the patterns.
func expect(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s: no match for %s in\n%s", what, pattern, text)
		}
	}
}
