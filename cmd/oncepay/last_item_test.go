package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/oncepay/oncepay/charges/client"
)

// I1, I2, I4: a hundred buyers want the last item at once, through two API processes. One gets it. The others are refused, and their keys with
// them, which serve again once there is more.
func TestI2LastItem(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	apis := []service{d.api(), d.api()}
	d.inventory("set", "tee", "1").must(t)

	const buyers = 100
	keys := make([]string, buyers)
	for i := range keys {
		keys[i] = newKey()
	}
	all := func(want func(i int) int) (answers []answer) {
		t.Helper()
		answers = make([]answer, buyers)
		begin := make(chan struct{})
		var posts sync.WaitGroup
		for i, key := range keys {
			posts.Go(func() {
				<-begin
				body := fmt.Sprintf(`{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","reference":"order-%d","items":[{"sku":"tee","quantity":1}]}`, i)
				var err error
				if answers[i], err = d.post(apis[i%2].url, key, body); err != nil {
					t.Errorf("buyer %d: %v", i, err)
				}
			})
		}
		close(begin)
		posts.Wait()
		for i, a := range answers {
			if status := want(i); status != 0 && a.status != status {
				t.Errorf("buyer %d: want %d, got %v", i, status, a)
			}
		}
		return answers
	}

	first := all(func(int) int { return 0 })
	winner := -1
	for i, a := range first {
		switch {
		case a.status == http.StatusAccepted && winner < 0:
			winner = i
		case a.status == http.StatusAccepted:
			t.Errorf("buyers %d and %d have the last item", winner, i)
		case a.status != http.StatusConflict || member(t, a.body, "code") != "insufficient_inventory" || !strings.Contains(a.body, `"sku":"tee"`):
			t.Errorf("buyer %d: %v", i, a)
		}
	}
	if winner < 0 {
		t.Fatal("nobody has the last item")
	}
	refused := func(i int) int {
		if i == winner {
			return http.StatusAccepted
		}
		return http.StatusConflict
	}
	if again := all(refused); again[winner].body != first[winner].body || again[winner].header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the winner again: %v, at first %v", again[winner], first[winner])
	}
	for table, want := range map[string]int{"charge": 1, "idempotency_key": 1, "charge_event": 1, "charge_item": 1, "river_job WHERE kind = 'charge_send'": 1} {
		if n := d.count(`SELECT count(*) FROM ` + table); n != want {
			t.Errorf("%d rows of %s, want %d", n, table, want)
		}
	}

	d.worker("--stripe-rate=200/s")
	d.awaitStatus(apis[0], keys[winner], client.StatusSucceeded)
	if payments := d.box.ledger().Payments; len(payments) != 1 || payments[0].Metadata["oncepay_key"] != keys[winner] {
		t.Errorf("payments %+v, want one under the winner's key", payments)
	}
	d.inventory("set", "tee", fmt.Sprint(buyers)).must(t)
	all(func(int) int { return http.StatusAccepted })
	for _, key := range keys {
		d.awaitStatus(apis[1], key, client.StatusSucceeded)
	}
	paid := map[string]int{}
	for _, p := range d.box.ledger().Payments {
		paid[p.Metadata["oncepay_key"]]++
	}
	for i, key := range keys {
		if paid[key] != 1 {
			t.Errorf("buyer %d has paid %d times", i, paid[key])
		}
	}
	if n := d.count(`SELECT allocated FROM inventory WHERE sku = 'tee' AND NOT EXISTS (SELECT FROM charge_item WHERE stock <> 'taken')`); n != buyers {
		t.Errorf("%d are taken", n)
	}
}
