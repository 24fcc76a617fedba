package workers

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// check holds what must be true after every step, whatever happened.
func (w *world) check() {
	w.t.Helper()
	w.checkMoney()
	w.checkTrail()
	w.checkStock()
}

// checkMoney compares the charges with what really happened at the providers.
func (w *world) checkMoney() {
	w.t.Helper()
	ledger := w.sandbox.Ledger()
	succeeded, taking, mails, posts := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range ledger.PaymentIntents {
		key := p.Metadata["oncepay_key"]
		if key == "" {
			continue // a stranger's
		}
		switch p.Status {
		case "succeeded":
			succeeded[key]++
			taking[key]++
		case "processing", "requires_capture":
			taking[key]++
		}
	}
	for _, m := range ledger.Mails {
		mails[m.IdempotencyKey]++
	}
	for _, q := range ledger.Requests {
		if q.Method == "POST" && q.Path == "/v1/payment_intents" && !strings.HasPrefix(q.IdempotencyKey, "stranger-") {
			posts[q.IdempotencyKey]++
		}
	}
	for i, id := range w.ids {
		key := w.posts[i].Key.String()
		c := w.get(id)
		if c.NextAction != nil {
			w.handed[*c.PaymentIntent] = true
		}
		switch {
		case mails[key] > 1:
			w.t.Fatalf("I5: %d receipts of charge %d were mailed", mails[key], i)
		case w.excused[i]:
		case taking[key] > 1:
			w.t.Fatalf("I2: %d payments of charge %d took or hold money, under one key", taking[key], i)
		case c.Status == charges.Succeeded && succeeded[key] != 1:
			w.t.Fatalf("I2: charge %d is succeeded, and %d payments are", i, succeeded[key])
		case (c.Status == charges.Failed || c.Status == charges.Canceled) && succeeded[key] > 0:
			w.t.Fatalf("I2: charge %d is %s, and its payment has succeeded", i, c.Status)
		}
	}
	w.checkAttempts(posts)
}

// checkAttempts holds that each request to Stripe was on record before it was made: no key was sent more often than it was written down.
func (w *world) checkAttempts(posts map[string]int) {
	w.t.Helper()
	attempts := map[string]int{}
	rows, err := w.stage.pool.Query(context.Background(), `SELECT provider_key FROM attempt WHERE operation = 'charge'`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			w.t.Fatal(err)
		}
		attempts[key]++
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	for key, n := range posts {
		if n > attempts[key] {
			w.t.Fatalf("I2: %d requests were sent under key %s, and %d are on record", n, key, attempts[key])
		}
	}
}

// checkTrail holds that the events tell each step of each charge, one after the other, up to where it is.
func (w *world) checkTrail() {
	w.t.Helper()
	rows, err := w.stage.pool.Query(context.Background(), `
SELECT c.id, c.status, coalesce(e.from_status, ''), e.to_status
  FROM charge c JOIN charge_event e ON e.charge_id = c.id ORDER BY c.id, e.id`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	type step struct{ now, told string }
	trail := map[uuid.UUID]step{}
	for rows.Next() {
		var id uuid.UUID
		var now, from, to string
		if err := rows.Scan(&id, &now, &from, &to); err != nil {
			w.t.Fatal(err)
		}
		if from != trail[id].told {
			w.t.Fatalf("I7: charge %d went from %q to %q, and had been %q", slices.Index(w.ids, id), from, to, trail[id].told)
		}
		trail[id] = step{now, to}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	for i, id := range w.ids {
		if s := trail[id]; s.now != s.told || s.now == "" {
			w.t.Fatalf("I7: charge %d is %q, and its events tell of %q", i, s.now, s.told)
		}
	}
}

// live counts the live jobs of each kind and charge.
func (w *world) live() map[outbox.Entry]int {
	w.t.Helper()
	rows, err := w.stage.pool.Query(context.Background(), `SELECT kind, (args ->> 'charge_id')::uuid FROM river_job
		WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled') AND args ? 'charge_id'`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	live := map[outbox.Entry]int{}
	for rows.Next() {
		var e outbox.Entry
		if err := rows.Scan(&e.Kind, &e.ChargeID); err != nil {
			w.t.Fatal(err)
		}
		live[e]++
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return live
}

// wantJobs holds what a sweep or a replay may write: a job for what waits without one, and no other. After it, everything has a job
// that is not final and waits for no person.
func (w *world) wantJobs(write func() error) {
	w.t.Helper()
	before := w.live()
	if err := write(); err != nil {
		w.t.Fatal(err)
	}
	after := w.live()
	for e, n := range after {
		if n > max(before[e], 1) {
			w.t.Fatalf("I3: %d live jobs %s of charge %d, and %d before", n, e.Kind, slices.Index(w.ids, e.ChargeID), before[e])
		}
	}
	for i, id := range w.ids {
		c := w.get(id)
		if !c.Status.Final() && c.Status != charges.NeedsReview &&
			after[outbox.Entry{Kind: outbox.KindCharge, ChargeID: id}]+after[outbox.Entry{Kind: outbox.KindFollow, ChargeID: id}] == 0 {
			w.t.Fatalf("I3: charge %d is %s, and no job is there for it", i, c.Status)
		}
		if c.Receipt != nil && (c.Receipt.Status == charges.ReceiptPending || c.Receipt.Status == charges.ReceiptSending) &&
			after[outbox.Entry{Kind: outbox.KindReceipt, ChargeID: id}] == 0 {
			w.t.Fatalf("I3: the receipt of charge %d is %s, and no job is there for it", i, c.Receipt.Status)
		}
	}
}

func (w *world) get(id uuid.UUID) charges.Charge {
	w.t.Helper()
	c, err := w.charges.Get(context.Background(), "shop", id)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// repost posts a charge again, with the same request or another.
func (w *world) repost(i int, same bool) {
	w.t.Helper()
	c := w.posts[i]
	if !same {
		c.Request.Amount++
	}
	a := w.charges.Create(context.Background(), c)
	switch _, reused := a.Err.(*charges.KeyReusedError); {
	case !same && !reused:
		w.t.Fatalf("I4: another request under the key of charge %d was answered %d, %v", i, a.Status, a.Err)
	case same && (a.Err != nil || a.ChargeID != w.ids[i] || !a.Replayed):
		w.t.Fatalf("I4: charge %d posted again was answered by %s, %v", i, a.ChargeID, a.Err)
	case same && !a.Expires.IsZero() && !bytes.Equal(a.Body, w.answers[i].Body):
		w.t.Fatalf("I4: charge %d posted again was answered otherwise:\n%s\n%s", i, a.Body, w.answers[i].Body)
	}
}

// tell delivers one of the providers' events, which may have been delivered before.
func (w *world) tell(i int) {
	w.t.Helper()
	e := w.sandbox.Events()[i]
	var err error
	if e.Provider == "stripe" {
		_, err = w.charges.TakeStripeEvent(context.Background(), e.Payload)
	} else {
		_, err = w.charges.TakeReceiptEvents(context.Background(), slices.Concat([]byte("["), e.Payload, []byte("]")))
	}
	if err == nil {
		_, err = w.charges.ApplyPending(context.Background())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// final are the rounds in which a world comes to its end: some soon, some after all of Stripe's and our own delays.
var final = []time.Duration{2 * time.Minute, 2 * time.Minute, 20 * time.Minute, 20 * time.Minute, time.Hour, time.Hour, time.Hour, 25 * time.Hour,
	time.Minute, time.Minute, 20 * time.Minute, time.Hour, 25 * time.Hour, time.Minute, time.Minute}

// conclude ends all faults, lets time pass and jobs run, and then holds that everything has come to its end (I3), and that what was sold is gone.
func (w *world) conclude() {
	w.t.Helper()
	w.setOutage(false)
	for len(w.asleep) > 0 {
		w.rouse(0, true)
		w.check()
	}
	for i := range w.ids {
		if w.excused[i] {
			w.tellPaid(i)
		}
	}
	w.runOut()
	if w.ruleAll() {
		w.runOut()
	}
	w.checkSold()
}

// runOut lets time pass and jobs run until everything is final or waits for a person.
func (w *world) runOut() {
	w.t.Helper()
	for _, d := range final {
		w.sweep()
		for n, j := range w.jobs() {
			w.work(n%2, j, moment{})
			w.check()
		}
		if w.settled() {
			return
		}
		w.pass(d, true, true)
	}
	for i, id := range w.ids {
		w.t.Logf("charge %d is %s, review %+v, receipt %+v", i, w.get(id).Status, w.get(id).Review, w.get(id).Receipt)
	}
	w.t.Fatalf("I3: not everything has come to its end; %d jobs are left", len(w.jobs()))
}

// settled tells whether everything is final or waits for a person.
func (w *world) settled() bool {
	for i, id := range w.ids {
		c := w.get(id)
		switch {
		case c.Status == charges.NeedsReview && c.Review.Reason != "stored_failure" && c.Review.Reason != "forbidden" && !w.excused[i]:
			w.t.Fatalf("I3: charge %d waits for a person without need: %s", i, c.Review.Reason)
		case !c.Status.Final() && c.Status != charges.NeedsReview:
			return false
		case c.Receipt != nil && (c.Receipt.Status == charges.ReceiptPending || c.Receipt.Status == charges.ReceiptSending):
			return false
		}
	}
	return len(w.jobs()) == 0
}
