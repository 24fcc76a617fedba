package workers

import (
	"slices"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// scenario is a short list of steps in a world, each of which is followed by the invariants' check. There is one for each rule that keeps
// a charge from being made twice: with the rule, all is well, and without it an invariant breaks (see mutation_test.go).
type scenario struct {
	name  string
	rekey bool
	play  func(w *world)
	ends  charges.Status // the first charge, at last; empty: succeeded or failed
}

const day = 25 * time.Hour // after which Stripe has forgotten every key

var scenarios = []scenario{
	{name: "paid, the answer lost, a day later", play: func(w *world) {
		w.sent("the answer is lost")
		w.pass(day, true, true)
		w.then("nothing")
	}},
	{name: "paid, the answer lost, then refused, a day later", play: func(w *world) {
		w.sent("the answer is lost")
		w.then("429")
		w.pass(day, true, true)
		w.then("nothing")
	}},
	{name: "paid, the answer lost, and found on the second page", play: func(w *world) {
		w.sent("the answer is lost")
		w.strangers(101)
		w.pass(day, true, true)
		w.then("nothing")
	}},
	{name: "paid, the answer lost, and the lists fail", play: func(w *world) {
		w.sent("the answer is lost")
		w.pass(day, true, true)
		w.then("lists fail")
		w.then("nothing")
	}},
	{name: "paid, the answer lost, and only Stripe's clock has moved", play: func(w *world) {
		w.sent("the answer is lost")
		w.pass(day, false, true)
		w.then("nothing")
	}},
	{name: "paid, the answer lost, and only PostgreSQL's clock has moved", play: func(w *world) {
		w.sent("the answer is lost")
		w.pass(day, true, false)
		w.then("nothing")
	}},
	{name: "paid, the answer lost, then the card is gone", play: func(w *world) {
		w.sent("the answer is lost")
		w.pass(2*time.Minute, true, true)
		w.then("400")
		w.then("nothing")
	}},
	{name: "paid under a key with a stored failure", rekey: true, play: func(w *world) {
		w.sent("500, stored, and paid")
		w.then("nothing")
	}},
	{name: "a stored failure, a new key, and nothing paid twice", rekey: true, play: func(w *world) {
		w.sent("500, stored")
		w.then("nothing")
		w.pass(70*time.Minute, true, true)
		w.then("the answer is lost")
		w.pass(day, true, true)
		w.then("nothing")
	}},
	{name: "killed after the call", play: func(w *world) {
		w.sent("dies before the answer")
		w.pass(2*time.Minute, true, true)
		w.then("nothing")
	}},
	{name: "killed after the call, a day later", play: func(w *world) {
		w.sent("dies before the answer")
		w.pass(day, true, true)
		w.then("nothing")
	}},
	{name: "suspended before the call for a day, while another pays", play: func(w *world) {
		w.sent("sleeps before the call")
		w.pass(2*time.Minute, true, true)
		w.then("nothing")
		w.pass(day, true, true)
		w.rouse(0, true)
		w.check()
	}},
	{name: "two jobs at once", play: func(w *world) {
		w.sent("sleeps before the call")
		w.then("nothing")
		w.rouse(0, true)
		w.check()
	}},
	{name: "two jobs in the same moment", play: func(w *world) {
		w.post("pm_card_visa", "buyer@example.com")
		w.twice(w.jobOf(0, outbox.KindCharge))
		w.check()
		w.twice(w.jobOf(0, outbox.KindReceipt))
	}},
	{name: "posted again, before and after it was paid", play: func(w *world) {
		w.post("pm_card_visa", "buyer@example.com")
		w.repost(0, true)
		w.repost(0, false)
		w.then("nothing")
		w.repost(0, true)
		w.pass(day, true, true) // the answer is not stored any more
		w.repost(0, true)
		w.repost(0, false)
	}},
	{name: "swept while a job is there", play: func(w *world) {
		w.post("pm_card_visa", "buyer@example.com")
		w.sweep()
		w.replay()
	}},
	{name: "killed after the mail", play: func(w *world) {
		w.sent("nothing")
		w.mail("dies after the mail")
		w.pass(2*time.Minute, true, true)
		w.mail("nothing")
	}},
	{name: "the receipt's job twice at once", play: func(w *world) {
		w.sent("nothing")
		w.mail("sleeps before the mail")
		w.mail("nothing")
		w.rouse(0, true)
		w.check()
	}},
	{name: "the buyer fails the bank's check, then takes another card", play: func(w *world) {
		w.post("pm_card_authenticationRequired", "")
		w.then("nothing")
		payment := w.waiting()[0]
		w.buyer(payment, "fails the check")
		w.pass(2*time.Second, true, true) // what Stripe says in one second has no order
		w.follow("dies before the call")  // that would cancel the payment
		w.buyer(payment, "takes another card")
		w.follow("nothing")
	}},
	{name: "the buyer fails the bank's check, and the old page goes on after it is over", play: func(w *world) {
		w.post("pm_card_authenticationRequired", "")
		w.then("nothing")
		payment := w.waiting()[0]
		w.buyer(payment, "fails the check")
		w.pass(2*time.Second, true, true) // what Stripe says in one second has no order
		w.follow("nothing")
		w.follow("nothing")
		w.buyer(payment, "takes another card")
	}},
	{name: "a list that is older than the failure it should tell of", rekey: true, play: staleList},
}

// staleList has a list read before a payment, and written down after its failure's last look is due.
func staleList(w *world) {
	w.sent("500, stored")
	w.then("nothing") // learns that the failure is stored, and looks
	w.pass(70*time.Minute, true, true)
	w.then("sleeps with the list")
	w.pass(2*time.Minute, true, true)
	w.then("500, stored, and paid") // looks as well, and sends under a new key
	w.then("lists fail")
	w.pass(70*time.Minute, true, true)
	w.rouse(0, true)
	w.check()
	w.then("nothing")
}

// I2, I3, I4, I5, I7: the scenarios hold, and everything in them comes to its end.
func TestModelScenarios(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, sc := range slices.Concat(scenarios, stockScenarios) {
		t.Run(sc.name, func(t *testing.T) { // one after the other, on one stage
			w := s.newWorld(t, sc.rekey)
			defer w.close()
			sc.play(w)
			w.check()
			w.conclude()
			if c := w.get(w.ids[0]); c.Status != sc.ends && (sc.ends != "" || c.Status != charges.Succeeded && c.Status != charges.Failed) {
				t.Errorf("the charge is %s", c.Status)
			}
		})
	}
}

// sent posts a charge and works its job, with an upset of the model's.
func (w *world) sent(upset string) {
	w.t.Helper()
	w.post("pm_card_visa", "buyer@example.com")
	w.then(upset)
}

// then works the charge's job, again and again until there is nothing more to do at once.
func (w *world) then(upset string) {
	w.t.Helper()
	w.upset(outbox.KindCharge, upset)
}

func (w *world) mail(upset string) {
	w.t.Helper()
	w.upset(outbox.KindReceipt, upset)
}

func (w *world) follow(upset string) {
	w.t.Helper()
	w.upset(outbox.KindFollow, upset)
}

func (w *world) upset(kind outbox.Kind, name string) {
	w.t.Helper()
	u, known := upsets[name]
	if !known {
		w.t.Fatalf("no upset is called %q", name)
	}
	process := len(w.asleep) % 2
	w.t.Logf("%s: %s", kind, name)
	w.work(process, w.jobOf(0, kind), u.stop, u.faults...)
	w.check()
}
