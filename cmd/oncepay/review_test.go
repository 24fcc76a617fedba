package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

// What needs a person is listed with what to do, shown with its evidence, and settled by commands that leave who and why in the trail.
func TestReview(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	d.box.fault(`"fault":"status","status":403,"times":-1`)
	d.worker()
	review := func(args ...string) string { return d.oncepay(append([]string{"review"}, args...)...).must(t) }
	expect(t, "empty", review("list"), `^No charge needs a person\.\n$`)

	key := newKey()
	id := fmt.Sprint(member(t, d.mustPost(api.url, key, plainCharge).body, "id"))
	lost := fmt.Sprint(member(t, d.mustPost(api.url, newKey(), plainCharge).body, "id"))
	await(t, patience, "a person is asked", func() error {
		if n := d.count(`SELECT count(*) FROM charge WHERE status = 'needs_review'`); n != 2 {
			return fmt.Errorf("about %d", n)
		}
		return nil
	})
	expect(t, "list", review("list"), `^CHARGE .* PAYMENTS\n`, `(?m)^`+id+` +shop +\S+ +\S+ +\S+ +forbidden +-$`, `(?m)^forbidden +mend what Stripe refuses`)
	expect(t, "show", review("show", id), `(?m)^status +needs_review$`, `(?m)^key +`+key+`$`, `(?m)^charge 1 +`+key+` +acct_\S+ +test +.* refused +403 .* req_`,
		`(?m)^charge.needs_review .* worker `)
	var list struct {
		Charges []struct {
			Charge struct{ ID, Status string }
			Caller string
		}
	}
	if err := json.Unmarshal([]byte(review("list", "--json")), &list); err != nil || len(list.Charges) != 2 || list.Charges[0].Charge.ID != lost || list.Charges[1].Caller != "shop" {
		t.Errorf("as JSON: %+v, %v", list, err)
	}
	var evidence struct {
		Attempts []map[string]any
		Events   []map[string]any
	}
	if err := json.Unmarshal([]byte(review("show", "--json", id)), &evidence); err != nil || len(evidence.Attempts) != 1 || evidence.Attempts[0]["http_status"] != 403.0 {
		t.Errorf("as JSON: %+v, %v", evidence, err)
	}

	for _, bad := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"settle", id, "--as=failed"}, 2, "--because"},
		{[]string{"settle", id, "--as=won", "--because=x"}, 2, "--as"},
		{[]string{"settle", id, "--as=succeeded", "--because=x"}, 1, "name the one that took the money"},
		{[]string{"settle", id, "--as=resend", "--new-key", "--because=x"}, 1, "only for a failure that Stripe has stored"},
		{[]string{"settle", newKey(), "--as=failed", "--because=x"}, 1, "no charge has the id"},
		{[]string{"settle-receipt", id, "--as=sent", "--because=x"}, 1, "has no receipt"},
	} {
		if r := d.oncepay(append([]string{"review"}, bad.args...)...).run(t); r.code != bad.code || !strings.Contains(r.stderr, bad.says) {
			t.Errorf("%v: exit %d: %s", bad.args, r.code, r.stderr)
		}
	}

	d.box.clearFaults()
	expect(t, "settle", review("settle", id, "--as=resend", "--because=the key may write again", "--who=ann"), `^`+id+` is processing\.\n$`)
	expect(t, "settle", review("settle", lost, "--as=failed", "--because=the order was withdrawn", "--who=ann"), `^`+lost+` is failed\.\n$`)
	d.awaitStatus(api, key, client.StatusSucceeded)
	if n := d.box.ledger().sends(key); n != 2 {
		t.Errorf("%d requests to Stripe", n)
	}
	for to, because := range map[string]string{"processing": "the key may write again", "failed": "the order was withdrawn"} {
		if n := d.count(`SELECT count(*) FROM charge_event WHERE from_status = 'needs_review' AND to_status = '` + to + `' AND actor = 'operator:ann'
			AND data ->> 'because' = '` + because + `' AND data ->> 'review' = 'forbidden'`); n != 1 {
			t.Errorf("%d events of the ruling to %s", n, to)
		}
	}
	if r := d.oncepay("review", "settle", id, "--as=failed", "--because=x").run(t); r.code != 1 || !strings.Contains(r.stderr, "the charge is succeeded: there is nothing to settle") {
		t.Errorf("a settled one: %+v", r)
	}
}

// I5: receipts that are unknown are listed, and settled or sent once more on a person's word.
func TestReviewReceipts(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	d.box.mailFault(`"fault":"drop_after","times":-1`)
	d.worker()
	var ids []string
	for i := range 3 {
		body := strings.Replace(plainCharge, "{", fmt.Sprintf(`{"receipt_email":"buyer%d@%s",`, i, buyersHost), 1)
		ids = append(ids, fmt.Sprint(member(t, d.mustPost(api.url, newKey(), body).body, "id")))
	}
	unknown := func(n int) {
		t.Helper()
		await(t, patience, fmt.Sprint(n, " receipts are unknown"), func() error {
			if got := d.count(`SELECT count(*) FROM receipt WHERE status = 'unknown'`); got != n {
				return fmt.Errorf("%d are", got)
			}
			return nil
		})
	}
	unknown(3)
	list := d.oncepay("review", "list").must(t)
	expect(t, "list", list, `No charge needs a person`, `(?m)^RECEIPT OF CHARGE +UNKNOWN FOR `, `(?m)^`+ids[0]+` +\S+ +1 +\S`, `settle-receipt --as sent, failed or resend`)
	if strings.Contains(list, buyersHost) {
		t.Error("the list names a buyer")
	}
	d.box.clearFaults()
	expect(t, "sent", d.oncepay("review", "settle-receipt", ids[0], "--as=sent", "--because=in the feed").must(t), `is sent\.\n$`)
	expect(t, "resend", d.oncepay("review", "settle-receipt", ids[1], "--as=resend", "--because=not in the feed").must(t), `is pending\.\n$`)
	expect(t, "dry run", d.oncepay("outbox", "replay", "--resend-unknown-receipts").must(t), `(?m)^1 unknown receipts would be sent again\.$`)
	expect(t, "replay", d.oncepay("outbox", "replay", "--resend-unknown-receipts", "--apply", "--who=ann").must(t), `(?m)^1 unknown receipts are sent again\.$`)
	await(t, patience, "all receipts are sent", func() error {
		if n := d.count(`SELECT count(*) FROM receipt WHERE status = 'sent'`); n != 3 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	if n := d.count(`SELECT count(*) FROM charge_event WHERE type = 'receipt.resend' AND actor = 'operator:ann'`); n != 1 {
		t.Errorf("%d lines of the replay in the trails", n)
	}
	if n := len(d.box.ledger().Mails); n != 5 {
		t.Errorf("%d mails, want 5: three that were unknown, two of them again", n)
	}
}
