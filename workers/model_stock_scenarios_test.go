package workers

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// stockScenarios are about the last cup: who gets it, and who gets it back.
var stockScenarios = []scenario{
	{name: "the last one, for two buyers", ends: charges.Succeeded, play: func(w *world) {
		w.sellOne("pm_card_visa")
		w.soldOut()
		w.then("nothing")
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
		w.soldOut()
		w.repost(0, true) // who has it is told so, although there is none
		w.repost(0, false)
		w.stock("cup", 2)
		w.tryAgain(0, true)
		w.tryAgain(0, true) // too late again
		w.stock("cup", 1)   // less than is allocated: refused
	}},
	{name: "several at once, one of which is short", play: func(w *world) {
		w.sell("pm_card_visa", "", sale{items: []charges.Item{{SKU: "tee", Quantity: 3}, {SKU: "cup", Quantity: 1}}})
		w.sell("pm_card_visa", "", sale{items: []charges.Item{{SKU: "mug", Quantity: 1}, {SKU: "tee", Quantity: 1}}})
		w.check()
		w.tryAgain(0, false) // the mug alone
		w.then("nothing")
	}},
	{name: "declined: given back", ends: charges.Failed, play: func(w *world) {
		w.sellOne("pm_card_chargeDeclined")
		w.then("nothing")
		w.wantStock(0, charges.Failed, charges.StockReturned)
		w.sellOne("pm_card_visa")
	}},
	{name: "declined, and killed before that was written down", ends: charges.Failed, play: func(w *world) {
		w.sellOne("pm_card_chargeDeclined")
		w.then("dies before the second commit")
		w.soldOut()
		w.pass(2*time.Minute, true, true)
		w.then("nothing")
		w.wantStock(0, charges.Failed, charges.StockReturned)
		w.sellOne("pm_card_visa")
	}},
	{name: "an abandoned 3-D Secure: given back once the payment is canceled", ends: charges.Canceled, play: func(w *world) {
		w.sellOne("pm_card_authenticationRequired")
		w.then("nothing")
		w.wantStock(0, charges.RequiresAction, charges.StockHeld)
		w.pass(23*time.Hour, true, true)
		w.follow("nothing")
		w.soldOut() // no timer takes from a buyer what can still be paid
		w.pass(2*time.Hour, true, true)
		w.follow("dies before the answer")
		w.soldOut()
		w.pass(2*time.Minute, true, true)
		w.follow("nothing")
		w.wantStock(0, charges.Canceled, charges.StockReturned)
		w.sellOne("pm_card_visa")
	}},
	{name: "not sent in time: given back", ends: charges.Canceled, play: func(w *world) {
		w.sell("pm_card_visa", "", sale{items: one("cup").items, sendBefore: time.Hour})
		w.pass(2*time.Hour, true, true)
		w.soldOut() // it is held until somebody has seen that it is too late
		w.then("nothing")
		w.wantStock(0, charges.Canceled, charges.StockReturned)
		w.sellOne("pm_card_visa")
	}},
	{name: "paid after its end: held again", ends: charges.Succeeded, play: func(w *world) {
		w.sellOne("pm_card_visa")
		w.misjudge(0)
		w.wantStock(0, charges.Failed, charges.StockReturned)
		w.tellPaid(0)
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
		w.soldOut()
	}},
	{name: "paid after its end, and nothing is left: for a person, who stocks more", ends: charges.Succeeded, play: func(w *world) {
		w.soldMeanwhile()
		if w.rule(0, charges.Succeeded, false) {
			w.t.Fatal("stock: settled without an item")
		}
		w.tellPaidAgain(0) // what Stripe repeats changes nothing
		w.wantStock(0, charges.NeedsReview, charges.StockReturned)
		w.stock("cup", 2)
		w.tellPaidAgain(0) // nor does it then: a person was asked
		w.wantStock(0, charges.NeedsReview, charges.StockReturned)
		w.rule(0, charges.Succeeded, false)
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
		w.soldOut()
	}},
	{name: "paid after its end, and nothing is left: for a person, who leaves it to others", ends: charges.Succeeded, play: func(w *world) {
		w.soldMeanwhile()
		if w.rule(0, charges.Succeeded, true) {
			w.t.Fatal("stock: settled without an item, by force")
		}
		w.rule(0, charges.Succeeded, false, withoutItems)
		w.wantStock(0, charges.Succeeded, charges.StockReturned)
	}},
	{name: "paid after its end, and nothing is left: for a person, who stocks it in the same step", ends: charges.Succeeded, play: func(w *world) {
		w.soldMeanwhile()
		w.rule(0, charges.Succeeded, false, restocking)
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
		w.soldOut()
	}},
	{name: "paid after its end, and refunded: for a person, who leaves to others what there is", ends: charges.Succeeded, play: func(w *world) {
		w.soldMeanwhile()
		w.stock("cup", 2)
		w.rule(0, charges.Succeeded, false, withoutItems)
		w.wantStock(0, charges.Succeeded, charges.StockReturned)
		w.sellOne("pm_card_visa")
	}},
	{name: "paid after its end, and what was left was not enough, and is given back by another", ends: charges.Succeeded, play: func(w *world) {
		w.sellOne("pm_card_visa")
		w.misjudge(0)
		w.sellOne("pm_card_chargeDeclined")
		w.tellPaid(0)
		w.wantStock(0, charges.NeedsReview, charges.StockReturned)
		w.work(0, w.jobOf(1, outbox.KindCharge), moment{})
		w.wantStock(1, charges.Failed, charges.StockReturned)
		w.rule(0, charges.Succeeded, false)
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
	}},
	{name: "a second payment: what is taken stays taken", ends: charges.Succeeded, play: func(w *world) {
		w.sellOne("pm_card_visa")
		w.then("nothing")
		w.excused[0] = true
		w.elsewhere(0, true)
		for n := range w.sandbox.Events() {
			w.tell(n)
		}
		w.wantStock(0, charges.NeedsReview, charges.StockTaken)
		w.soldOut()
		w.rule(0, charges.Succeeded, true)
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
	}},
	{name: "a ruling that Stripe contradicts: given back by the next one", ends: charges.Failed, play: func(w *world) {
		w.sellOne("pm_card_visa")
		w.work(0, w.jobOf(0, outbox.KindCharge), moment{}, onCreating(sandbox.Fault{Kind: sandbox.Status, Status: 403})...)
		payment := w.elsewhere(0, false) // which nobody has confirmed yet
		w.excused[0] = true
		w.mustRule(0, charges.Ruling{As: charges.Succeeded, Payment: payment})
		w.wantStock(0, charges.Succeeded, charges.StockTaken)
		w.ask("/v1/payment_intents/"+payment+"/cancel", "", nil)
		for n := range w.sandbox.Events() {
			w.tell(n)
		}
		w.wantStock(0, charges.NeedsReview, charges.StockTaken)
		w.soldOut()
		w.mustRule(0, charges.Ruling{As: charges.Failed})
		w.wantStock(0, charges.Failed, charges.StockReturned)
		w.sellOne("pm_card_visa")
	}},
}

// Two buyers who ask for the last one in the same moment: one gets it, and of the other nothing is left.
func TestModelRush(t *testing.T) {
	t.Parallel()
	w := newStage(t).newWorld(t, false)
	defer w.close()
	w.rush("cup")
}

// sellOne sells the last cup.
func (w *world) sellOne(method string) {
	w.t.Helper()
	if w.sell(method, "", one("cup")) < 0 {
		w.t.Fatal("stock: there is one, and it was not sold")
	}
	w.check()
}

// soldOut has a buyer come too late.
func (w *world) soldOut() {
	w.t.Helper()
	if w.sell("pm_card_visa", "", one("cup")) >= 0 {
		w.t.Fatal("stock: the last one was sold again")
	}
	w.check()
}

// soldMeanwhile has the cup of a charge that was paid after its end taken by another one.
func (w *world) soldMeanwhile() {
	w.t.Helper()
	w.sellOne("pm_card_visa")
	w.misjudge(0)
	w.sellOne("pm_card_visa")
	w.tellPaid(0)
	w.wantStock(0, charges.NeedsReview, charges.StockReturned)
	if c := w.get(w.ids[0]); c.Review.Reason != charges.InsufficientInventory {
		w.t.Fatalf("stock: a person is asked for another reason: %s", c.Review.Reason)
	}
	w.work(0, w.jobOf(1, outbox.KindCharge), moment{})
	w.wantStock(1, charges.Succeeded, charges.StockTaken)
}

// wantStock holds where a charge and its items are.
func (w *world) wantStock(i int, status charges.Status, stock charges.Stock) {
	w.t.Helper()
	w.check()
	if c := w.get(w.ids[i]); c.Status != status || c.Stock == nil || *c.Stock != stock {
		w.t.Fatalf("stock: charge %d is %s and its items %s, and should be %s and %s", i, c.Status, *stockOf(c), status, stock)
	}
}

// elsewhere makes another payment for a charge, as no release of ours does, and returns its id.
func (w *world) elsewhere(i int, confirmed bool) string {
	w.t.Helper()
	form := url.Values{"amount": {"1099"}, "currency": {"usd"}, "payment_method": {"pm_card_visa"}, "automatic_payment_methods[enabled]": {"true"},
		"automatic_payment_methods[allow_redirects]": {"never"}, "metadata[oncepay_key]": {w.posts[i].Key.String()}, "metadata[oncepay_charge]": {w.ids[i].String()}}
	if confirmed {
		form.Set("confirm", "true")
	}
	if status := w.ask("/v1/payment_intents", "stranger-elsewhere", form); status != http.StatusOK {
		w.t.Fatalf("another payment: HTTP %d", status)
	}
	all := w.sandbox.Ledger().PaymentIntents
	return all[len(all)-1].ID
}
