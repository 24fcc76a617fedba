package api_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
)

const longAgo = 1_700_000_000 // when these tests' events happen, by Stripe's clock

// stripeEvent is Stripe's event about any object.
func stripeEvent(kind string, at int64, about object, change func(event, about object)) []byte {
	event := object{
		"id": "evt_" + uuid.NewString(), "object": "event", "api_version": stripego.APIVersion, "type": kind,
		"created": longAgo + at, "livemode": false, "data": object{"object": about},
	}
	if change != nil {
		change(event, about)
	}
	return mustJSON(event)
}

func refundEvent(c charge, kind, id, status string, amount, at int64, change func(event, refund object)) []byte {
	return stripeEvent(kind, at, object{
		"id": id, "object": "refund", "amount": amount, "charge": "ch_1", "currency": "usd", "metadata": object{},
		"payment_intent": paymentOf(c), "reason": nil, "status": status,
	}, change)
}

func disputeEvent(c charge, kind, status string, at int64, change func(event, dispute object)) []byte {
	return stripeEvent(kind, at, object{
		"id": "du_1", "object": "dispute", "amount": c.Amount, "charge": "ch_1", "created": longAgo, "currency": "usd", "livemode": false,
		"evidence_details": object{"due_by": longAgo + 864000}, "metadata": object{}, "payment_intent": paymentOf(c), "reason": "fraudulent", "status": status,
	}, change)
}

func refundedEvent(c charge, change func(event, about object)) []byte {
	return stripeEvent("charge.refunded", 0, object{
		"id": "ch_1", "object": "charge", "amount": c.Amount, "amount_refunded": c.Amount, "payment_intent": paymentOf(c),
		"metadata": object{"oncepay_key": c.IdempotencyKey, "oncepay_charge": c.ID},
	}, change)
}

// succeeded is a charge whose payment is on record, and no event.
func (d *deployment) succeeded(t *testing.T) charge {
	t.Helper()
	c := d.sent(t, goodBody)
	d.tell(t, paymentEvent(c, "succeeded", nil)).wantReceived(t)
	d.exec(t, `DELETE FROM webhook_event`)
	return c
}

// givenBack is what a charge says of its refunds and its dispute.
type givenBack struct {
	Status         string `json:"status"`
	AmountRefunded *int64 `json:"amount_refunded"`
	Dispute        *struct {
		Status   string  `json:"status"`
		Reason   string  `json:"reason"`
		Amount   int64   `json:"amount"`
		Currency string  `json:"currency"`
		DueBy    *string `json:"due_by"`
	} `json:"dispute"`
}

func (d *deployment) givenBack(t *testing.T, c charge) givenBack {
	t.Helper()
	g := decode[givenBack](t, d.get(t, alice, "/charges/"+c.ID).body)
	if g.AmountRefunded == nil {
		t.Fatal("the charge has no amount_refunded")
	}
	return g
}

func (d *deployment) wantRefunded(t *testing.T, c charge, want int64) {
	t.Helper()
	if got := *d.givenBack(t, c).AmountRefunded; got != want {
		t.Errorf("%d refunded, want %d", got, want)
	}
}

// trail is the types of a charge's events about refunds and disputes, all of which leave the status as it is.
func (d *deployment) trail(t *testing.T, c charge) (types []string) {
	t.Helper()
	type event struct{ Type, From, To, Actor string }
	events := decode[struct{ Data []event }](t, d.get(t, alice, "/charges/"+c.ID+"/events").body)
	for _, e := range events.Data {
		if strings.HasPrefix(e.Type, "charge.") {
			continue
		}
		if e.From != e.To || e.Actor != "stripe" {
			t.Errorf("%+v", e)
		}
		types = append(types, e.Type)
	}
	return types
}

func (d *deployment) wantTrail(t *testing.T, c charge, want ...string) {
	t.Helper()
	if got := d.trail(t, c); !slices.Equal(got, want) {
		t.Errorf("the trail is %q, want %q", got, want)
	}
}

func (d *deployment) wantNote(t *testing.T, event string, status charges.EventStatus, note charges.EventNote) {
	t.Helper()
	list, _, err := d.service.ProviderEvents(t.Context(), charges.EventFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(e charges.ProviderEvent) bool { return strings.Contains(event, e.EventID) })
	if i < 0 || list[i].Status != status || list[i].Note != note {
		t.Errorf("want %s %q of %s: %+v", status, note, event, list)
	}
}

// Refunds made at Stripe's dashboard show in the charge: two of them, both counted, each once.
func TestRefundTwiceByEvents(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.succeeded(t)
	d.wantRefunded(t, c, 0)
	first := refundEvent(c, "refund.created", "re_1", "pending", 300, 1, nil)
	for range 2 {
		d.tell(t, first).wantReceived(t)
	}
	d.tell(t, refundEvent(c, "charge.refund.updated", "re_1", "succeeded", 300, 2, nil)).wantReceived(t)
	d.tell(t, refundEvent(c, "refund.updated", "re_1", "succeeded", 300, 2, nil)).wantReceived(t)
	d.tell(t, refundEvent(c, "refund.created", "pyr_2", "requires_action", 400, 3, nil)).wantReceived(t)
	d.wantRefunded(t, c, 700)
	d.wantTrail(t, c, "refund.pending", "refund.succeeded", "refund.requires_action")
	d.wantStatus(t, c, "succeeded")
	if n := d.count(t, "charge_event WHERE type = 'refund.requires_action' AND data->>'refund' = 'pyr_2' AND data->>'amount' = '400' AND data->>'amount_refunded' = '700' AND data->>'event' LIKE 'evt_%'"); n != 1 {
		t.Errorf("%d events tell the amounts", n)
	}
	list := d.get(t, alice, "/charges?limit=5").body
	if !strings.Contains(list, `"amount_refunded":700,"dispute":null`) {
		t.Errorf("listed as %s", list)
	}
}

// A refund that fails days after it succeeded frees the balance, visibly, whatever the order in which that is heard.
func TestRefundFailsLater(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	for range 8 {
		c := d.succeeded(t)
		id := "re_" + strings.ReplaceAll(c.ID, "-", "")
		failed := func(_, r object) { r["failure_reason"] = "expired_or_canceled_card" }
		events := [][]byte{
			refundEvent(c, "refund.created", id, "succeeded", c.Amount, 0, nil),
			refundEvent(c, "charge.refund.updated", id, "failed", c.Amount, 259200, failed),
			refundEvent(c, "refund.updated", id, "failed", c.Amount, 259200, failed),
			refundEvent(c, "refund.failed", id, "failed", c.Amount, 259200, failed),
		}
		order := rand.Perm(len(events))
		for _, i := range order {
			d.tell(t, events[i]).wantReceived(t)
		}
		d.wantRefunded(t, c, 0)
		if got := d.trail(t, c); got[len(got)-1] != "refund.failed" {
			t.Errorf("in the order %v the trail is %q", order, got)
		}
		if n := d.count(t, "refund WHERE id = $1 AND status = 'failed' AND failure_reason = 'expired_or_canceled_card'", id); n != 1 {
			t.Errorf("in the order %v: not kept", order)
		}
	}
}

// A dispute is an alarm when it opens, and none when it is won.
func TestDisputeByEvents(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.succeeded(t)
	opened := disputeEvent(c, "charge.dispute.created", "needs_response", 0, nil)
	d.tell(t, opened).wantReceived(t)
	d.tell(t, opened).wantReceived(t)
	d.wantNote(t, string(opened), charges.EventApplied, charges.EventDisputed)
	g := d.givenBack(t, c)
	if g.Status != "succeeded" || g.Dispute == nil || g.Dispute.Status != "needs_response" || g.Dispute.Reason != "fraudulent" || g.Dispute.Amount != c.Amount ||
		g.Dispute.Currency != "usd" || g.Dispute.DueBy == nil || *g.Dispute.DueBy != "2023-11-24T22:13:20Z" {
		t.Errorf("%+v, dispute %+v", g, g.Dispute)
	}
	d.tell(t, disputeEvent(c, "charge.dispute.funds_withdrawn", "needs_response", 0, nil)).wantReceived(t)
	won := disputeEvent(c, "charge.dispute.closed", "won", 9, func(_, p object) { p["evidence_details"] = object{"due_by": nil} })
	d.tell(t, won).wantReceived(t)
	d.wantNote(t, string(won), charges.EventApplied, "")
	d.tell(t, disputeEvent(c, "charge.dispute.updated", "under_review", 5, nil)).wantReceived(t) // late
	if g := d.givenBack(t, c); g.Dispute == nil || g.Dispute.Status != "won" || g.Dispute.DueBy != nil {
		t.Errorf("%+v", g.Dispute)
	}
	d.wantTrail(t, c, "dispute.needs_response", "dispute.won")
	if page := d.get(t, "", "/metrics").body; !strings.Contains(page, `oncepay_webhook_notes_total{note="disputed",provider="stripe"} 1`) {
		t.Error("no alarm in the metrics, or more than one")
	}
	// The open one is shown, however old.
	for at, status := range map[int64]string{-9: "under_review", 20: "lost"} {
		d.tell(t, disputeEvent(c, "charge.dispute.created", status, at, func(_, p object) {
			p["id"], p["created"] = fmt.Sprintf("dp_%s", status), longAgo+at
		})).wantReceived(t)
	}
	if g := d.givenBack(t, c); g.Dispute == nil || g.Dispute.Status != "under_review" {
		t.Errorf("%+v", g.Dispute)
	}
	if page := d.get(t, "", "/metrics").body; !strings.Contains(page, `oncepay_webhook_notes_total{note="disputed",provider="stripe"} 2`) {
		t.Error("a lost dispute is no alarm, or one under review is")
	}
}

// The attempts of a charge that is long over are removed, and with them what tells its account. What is given back of its payment, which is on record,
// is taken all the same.
func TestGivenBackAfterAttemptsWereRemoved(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.succeeded(t)
	d.exec(t, `DELETE FROM attempt`)
	connected := func(e, _ object) { e["account"] = "acct_connected" }
	for _, event := range [][]byte{
		refundEvent(c, "refund.created", "re_1", "succeeded", 7, 0, connected), refundEvent(c, "refund.created", "re_2", "succeeded", 5, 1, nil),
	} {
		d.tell(t, event).wantReceived(t)
		d.wantNote(t, string(event), charges.EventApplied, "")
	}
	d.wantRefunded(t, c, 12)
	opened := disputeEvent(c, "charge.dispute.created", "needs_response", 2, connected)
	d.tell(t, opened).wantReceived(t)
	d.wantNote(t, string(opened), charges.EventApplied, charges.EventDisputed)

	second := paymentEvent(c, "succeeded", func(e, p object) { connected(e, p); p["id"] = "pi_second" })
	d.tell(t, second).wantReceived(t)
	d.wantNote(t, string(second), charges.EventIgnored, charges.EventAnotherAccount)
}

// What does not say which refunds there are, or in a form that is not trusted, makes a worker list them.
func TestRefundsThatAreRead(t *testing.T) {
	t.Parallel()
	foreign := func(e, _ object) { e["api_version"] = "2031-01-01.plum" }
	for name, event := range map[string]func(c charge) []byte{
		"charge.refunded":          func(c charge) []byte { return refundedEvent(c, nil) },
		"... of another version":   func(c charge) []byte { return refundedEvent(c, foreign) },
		"refund, another version":  func(c charge) []byte { return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, foreign) },
		"dispute, another version": func(c charge) []byte { return disputeEvent(c, "charge.dispute.created", "lost", 0, foreign) },
		"... with an expanded payment": func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(e, r object) {
				e["api_version"], r["payment_intent"] = "2031-01-01.plum", object{"id": paymentOf(c)}
			})
		},
		"thin, of a refund that is on record": func(charge) []byte {
			return []byte(`{"id":"evt_thin","object":"v2.core.event","type":"v1.refund.failed","created":"2026-01-02T03:04:05.678Z","livemode":false,
				"related_object":{"id":"re_known","type":"refund","url":"/v1/refunds/re_known"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, hooked)
			c := d.succeeded(t)
			d.tell(t, refundEvent(c, "refund.created", "re_known", "succeeded", 7, 0, nil)).wantReceived(t)
			e := event(c)
			d.tell(t, e).wantReceived(t)
			d.tell(t, e).wantReceived(t)
			d.wantNote(t, string(e), charges.EventApplied, charges.EventReadAgain)
			d.wantRefunded(t, c, 7)
			if n := d.count(t, "river_job WHERE kind = 'refunds_read' AND args->>'charge_id' = $1", c.ID); n != 1 {
				t.Errorf("%d jobs to read them", n)
			}
		})
	}
}

func TestRefundsThatAreOdd(t *testing.T) {
	t.Parallel()
	stranger := charge{ID: newKey(), IdempotencyKey: newKey(), Amount: 1099}
	for name, tc := range map[string]struct {
		event    func(c charge) []byte
		status   charges.EventStatus
		note     charges.EventNote
		refunded int64
	}{
		"beyond the charge": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", c.Amount+1, 0, nil)
		}, "applied", "refunds_exceed", 1100},
		"of an unknown payment": {func(charge) []byte {
			return refundEvent(stranger, "refund.created", "re_1", "succeeded", 1, 0, nil)
		}, "pending", "unmatched", 0},
		"a dispute of an unknown payment": {func(charge) []byte { return disputeEvent(stranger, "charge.dispute.created", "lost", 0, nil) }, "pending", "unmatched", 0},
		"a charge that is not here":       {func(charge) []byte { return refundedEvent(stranger, nil) }, "pending", "unmatched", 0},
		"a charge that is not ours": {func(charge) []byte {
			return refundedEvent(stranger, func(_, p object) { p["metadata"] = object{} })
		}, "ignored", "not_ours", 0},
		"of no payment": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(_, r object) { r["payment_intent"] = nil })
		}, "ignored", "not_ours", 0},
		"another currency": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(_, r object) { r["currency"] = "eur" })
		}, "ignored", "payment_differs", 0},
		"wrong mode": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(e, _ object) { e["livemode"] = true })
		}, "ignored", "wrong_mode", 0},
		"another account": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(e, _ object) { e["account"] = "acct_other" })
		}, "ignored", "another_account", 0},
		"no amount": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 0, 0, nil)
		}, "ignored", "malformed", 0},
		"an amount beyond all": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1<<62, 0, nil)
		}, "ignored", "malformed", 0},
		"no refund": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(_, r object) { r["object"] = "charge" })
		}, "ignored", "malformed", 0},
		"no object": {func(c charge) []byte {
			return refundEvent(c, "refund.created", "re_1", "succeeded", 1, 0, func(e, _ object) { e["data"] = object{} })
		}, "ignored", "malformed", 0},
		"thin, of an unknown refund": {func(charge) []byte {
			return []byte(`{"id":"evt_thin","object":"v2.core.event","type":"v1.refund.failed","created":"2026-01-02T03:04:05.678Z","livemode":false,
				"related_object":{"id":"re_unknown","type":"refund"}}`)
		}, "pending", "unmatched", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, hooked)
			c := d.succeeded(t)
			event := tc.event(c)
			d.tell(t, event).wantReceived(t)
			d.tell(t, event).wantReceived(t)
			d.wantEvent(t, tc.status, tc.note)
			d.wantRefunded(t, c, tc.refunded)
			d.wantStatus(t, c, "succeeded")
			if n := d.count(t, "river_job WHERE kind = 'refunds_read'"); n != 0 {
				t.Errorf("%d jobs to read them", n)
			}
		})
	}
}

// A refund never moves from one payment to another, and that of a second payment is not the charge's.
func TestRefundOfAnotherPayment(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c, other := d.succeeded(t), d.succeeded(t)
	d.tell(t, refundEvent(c, "refund.created", "re_1", "succeeded", 10, 0, nil)).wantReceived(t)
	moved := refundEvent(other, "refund.updated", "re_1", "succeeded", 10, 1, nil)
	d.tell(t, moved).wantReceived(t)
	d.wantNote(t, string(moved), charges.EventIgnored, charges.EventNote(charges.PaymentDiffers))
	d.wantRefunded(t, c, 10)
	d.wantRefunded(t, other, 0)

	d.tell(t, paymentEvent(c, "succeeded", func(_, p object) { p["id"] = "pi_second" })).wantReceived(t)
	d.tell(t, refundEvent(c, "refund.created", "re_2", "succeeded", c.Amount, 1, func(_, r object) { r["payment_intent"] = "pi_second" })).wantReceived(t)
	d.wantRefunded(t, c, 10)
	if n := d.count(t, "charge_event WHERE charge_id = $1 AND type = 'refund.succeeded' AND data->>'payment_intent' = 'pi_second'", c.ID); n != 1 {
		t.Errorf("%d events tell of it", n)
	}
}

// A refund may be heard of before its payment.
func TestRefundBeforeItsPayment(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.sent(t, goodBody)
	early := refundEvent(c, "refund.created", "re_1", "succeeded", 10, 0, nil)
	d.tell(t, early).wantReceived(t)
	d.wantEvent(t, charges.EventPending, charges.EventUnmatched)
	d.tell(t, refundedEvent(c, nil)).wantReceived(t)
	d.tell(t, paymentEvent(c, "succeeded", nil)).wantReceived(t)
	d.applyPending(t)
	d.wantNote(t, string(early), charges.EventApplied, "")
	d.wantRefunded(t, c, 10)
	if n := d.count(t, "river_job WHERE kind = 'refunds_read'"); n != 1 {
		t.Errorf("%d jobs to read them", n)
	}
}

// I1: what was heard of a refund and its trace are stored together or not at all; the event waits.
func TestI1RefundThatRollsBack(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.succeeded(t)
	d.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	d.exec(t, `CREATE TRIGGER broken BEFORE INSERT ON charge_event FOR EACH ROW WHEN (NEW.type LIKE 'refund.%' OR NEW.type LIKE 'dispute.%') EXECUTE FUNCTION broken()`)
	for _, event := range [][]byte{refundEvent(c, "refund.created", "re_1", "succeeded", 10, 0, nil), disputeEvent(c, "charge.dispute.created", "lost", 0, nil)} {
		d.tell(t, event).wantReceived(t)
	}
	if n := d.count(t, "refund") + d.count(t, "dispute"); n != 0 {
		t.Errorf("%d rows were left", n)
	}
	if n := d.count(t, "webhook_event WHERE status = 'pending' AND note = 'error'"); n != 2 {
		t.Errorf("%d events wait, want both", n)
	}
}

// A payment that only the charge itself names, from before payments had rows of their own, has its refunds and dispute as well.
func TestRefundOfAPaymentWithoutARow(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	c := d.succeeded(t)
	d.exec(t, `DELETE FROM payment`)
	d.tell(t, refundEvent(c, "refund.created", "re_1", "succeeded", 10, 0, nil)).wantReceived(t)
	d.tell(t, disputeEvent(c, "charge.dispute.created", "lost", 0, nil)).wantReceived(t)
	d.tell(t, refundedEvent(c, nil)).wantReceived(t)
	if g := d.givenBack(t, c); *g.AmountRefunded != 10 || g.Dispute == nil {
		t.Errorf("%+v", g)
	}
	f, err := d.service.Payments(t.Context(), uuid.MustParse(c.ID))
	if err != nil || !slices.Equal(f.Payments, []string{paymentOf(c)}) || f.Account.ID != "acct_home" {
		t.Errorf("to be read: %+v, %v", f, err)
	}
}
