package charges

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

func (f *fixture) due(t *testing.T) uuid.UUID {
	t.Helper()
	id := f.create(t, request(func(r *Request) { r.ReceiptEmail = "buyer@example.com" }))
	f.settle(t, f.begin(t, id, Send), answered("succeeded", "pi_"+id.String()))
	return id
}

func (f *fixture) claim(t *testing.T, id uuid.UUID) ReceiptClaim {
	t.Helper()
	c, err := f.ClaimReceipt(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// anyClaim stands for the latest claim, whatever its id.
var anyClaim uuid.UUID

func (f *fixture) settleReceipt(t *testing.T, id, claim uuid.UUID, r ReceiptResult) (again time.Duration) {
	t.Helper()
	if claim == anyClaim {
		if err := f.pool.QueryRow(t.Context(), `SELECT claim_id FROM receipt WHERE charge_id = $1`, id).Scan(&claim); err != nil {
			t.Fatal(err)
		}
	}
	again, err := f.SettleReceipt(t.Context(), id, claim, r)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func (f *fixture) receipt(t *testing.T, id uuid.UUID) ReceiptStatus {
	t.Helper()
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil {
		t.Fatal(err)
	}
	return c.Receipt.Status
}

// I5: one claim, one send; whatever happens after it, there is no second.
func TestReceiptIsClaimedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.due(t)
	if c := f.claim(t, id); !c.Send || c.Recipient != "buyer@example.com" || c.Charge.Status != Succeeded {
		t.Fatalf("claim: %+v", c)
	}
	if c := f.claim(t, id); c.Send || c.Wait <= 0 {
		t.Errorf("a second claim while the first is in hand: %+v", c)
	}
	f.settleReceipt(t, id, anyClaim, ReceiptResult{Status: ReceiptSent, MessageID: "m1"})
	if c := f.claim(t, id); c.Send || c.Wait != 0 {
		t.Errorf("a claim after it was sent: %+v", c)
	}
}

// I5: a claim whose worker did not come back is unknown, and stays so until news come.
func TestReceiptWithoutNews(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.due(t)
	f.claim(t, id)
	if _, err := f.pool.Exec(t.Context(), `UPDATE receipt SET claimed_at = claimed_at - interval '61 seconds'`); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, id); c.Send || f.receipt(t, id) != ReceiptUnknown {
		t.Errorf("claim %+v, receipt %s", c, f.receipt(t, id))
	}
	f.settleReceipt(t, id, anyClaim, ReceiptResult{Status: ReceiptPending})
	if got := f.receipt(t, id); got != ReceiptUnknown {
		t.Errorf("a late failure made it %s", got)
	}
	f.settleReceipt(t, id, anyClaim, ReceiptResult{Status: ReceiptSent, MessageID: "m1"})
	if got := f.receipt(t, id); got != ReceiptSent {
		t.Errorf("the late news that it was sent left it %s", got)
	}
}

// A receipt that was surely not sent may be claimed again; one that was refused for good may not.
func TestReceiptTurnedAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.due(t)
	f.claim(t, id)
	f.settleReceipt(t, id, anyClaim, ReceiptResult{Status: ReceiptPending, Error: "503"})
	if c := f.claim(t, id); !c.Send {
		t.Fatalf("claim: %+v", c)
	}
	f.settleReceipt(t, id, anyClaim, ReceiptResult{Status: ReceiptFailed, Error: "400"})
	if c := f.claim(t, id); c.Send {
		t.Errorf("claim: %+v", c)
	}
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("the charge is %s", got)
	}
}

// age makes a receipt's status, and its claim, that much older.
func (f *fixture) age(t *testing.T, id uuid.UUID, by string) {
	t.Helper()
	_, err := f.pool.Exec(t.Context(), `UPDATE receipt SET updated_at = updated_at - $2::interval, claimed_at = claimed_at - $2::interval WHERE charge_id = $1`, id, by)
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) mailEvent(t *testing.T, id uuid.UUID, event string) {
	t.Helper()
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil {
		t.Fatal(err)
	}
	batch := fmt.Sprintf(`[{"sg_event_id":%q,"event":%q,"timestamp":1793000000,"oncepay_key":%q,"oncepay_charge":%q}]`, uuid.NewString(), event, c.IdempotencyKey, id)
	taken, err := f.TakeReceiptEvents(t.Context(), []byte(batch))
	if err != nil || len(taken) != 1 || taken[0].Status != EventApplied {
		t.Fatalf("event %s: %+v, %v", event, taken, err)
	}
}

// I5: where it is asked for, an unknown receipt is sent again, after a time in which an event may settle it, and not without end.
func TestUnknownReceiptIsSentAgainWhereAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Receipts: ReceiptPolicy{Resend: true}})
	id := f.due(t)
	wants := func() bool {
		t.Helper()
		var items []outbox.Item
		err := outbox.InTx(t.Context(), f.pool, "test", func(tx pgx.Tx) (err error) {
			items, _, err = f.Unfinished(t.Context(), tx, outbox.Filter{Wanting: true}, uuid.Nil, 10, outbox.NoLock)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(items) == 1 && items[0].Wants && items[0].Kind == outbox.KindReceipt
	}
	for sent := 1; sent <= 3; sent++ {
		if !wants() {
			t.Errorf("send %d: nobody would notice that its job is lost", sent)
		}
		c := f.claim(t, id)
		if !c.Send {
			t.Fatalf("send %d: claim %+v", sent, c)
		}
		if sent == 2 { // killed
			f.age(t, id, "61s")
			if c := f.claim(t, id); c.Send || c.Wait != 15*time.Minute {
				t.Errorf("after a kill: claim %+v", c)
			}
		} else if again := f.settleReceipt(t, id, c.ID, ReceiptResult{Status: ReceiptUnknown, Error: "EOF"}); (again > 0) != (sent < 3) {
			t.Errorf("send %d is followed by another after %v", sent, again)
		}
		f.age(t, id, "14m")
		if c := f.claim(t, id); c.Send || (c.Wait > 0) != (sent < 3) {
			t.Errorf("send %d: too early: claim %+v", sent, c)
		}
		f.age(t, id, "2m")
	}
	if c := f.claim(t, id); c.Send || c.Wait > 0 || f.receipt(t, id) != ReceiptUnknown || wants() {
		t.Errorf("after three sends in doubt: claim %+v, receipt %s, wants a job: %v", c, f.receipt(t, id), wants())
	}

	late := f.due(t)
	f.settleReceipt(t, late, f.claim(t, late).ID, ReceiptResult{Status: ReceiptUnknown, Error: "EOF"})
	f.mailEvent(t, late, "delivered")
	f.age(t, late, "16m")
	if c := f.claim(t, late); c.Send || c.Wait > 0 || f.receipt(t, late) != ReceiptDelivered {
		t.Errorf("after it was delivered: claim %+v, receipt %s", c, f.receipt(t, late))
	}
}

// I5: on a person's word an unknown receipt is sent once more, whoever sent it before comes back or not, unless an event settles it first.
func TestUnknownReceiptOnAPersonsWord(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	ctx := t.Context()
	inDoubt := func() (id, claim uuid.UUID) {
		t.Helper()
		id = f.due(t)
		claim = f.claim(t, id).ID
		f.settleReceipt(t, id, claim, ReceiptResult{Status: ReceiptUnknown, Error: "EOF"})
		return id, claim
	}
	sent, _ := inDoubt()
	failed, _ := inDoubt()
	for id, as := range map[uuid.UUID]ReceiptStatus{sent: ReceiptSent, failed: ReceiptFailed} {
		if err := f.RuleReceipt(ctx, id, as, "seen in the activity feed", "operator:ann"); err != nil {
			t.Fatal(err)
		}
		if c := f.claim(t, id); c.Send || f.receipt(t, id) != as {
			t.Errorf("claim %+v, receipt %s, want %s", c, f.receipt(t, id), as)
		}
		if err := f.RuleReceipt(ctx, id, ReceiptPending, "again", "operator:ann"); !errors.As(err, new(*RulingError)) {
			t.Errorf("a second ruling: %v", err)
		}
	}
	again, before := inDoubt()
	delivered, _ := inDoubt()
	if n, err := f.ResendUnknown(ctx, outbox.Filter{}, "SendGrid lost them", "operator:ann"); err != nil || n != 2 {
		t.Fatalf("%d sent again, %v", n, err)
	}
	f.mailEvent(t, delivered, "delivered")
	if c := f.claim(t, delivered); c.Send {
		t.Error("sent again after it was delivered")
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'receipt_send' AND args ->> 'charge_id' = $1`, again.String()); n != 1 {
		t.Errorf("%d jobs", n) // the one of the charge's success waits still
	}
	c := f.claim(t, again)
	if !c.Send {
		t.Fatalf("claim: %+v", c)
	}
	f.settleReceipt(t, again, before, ReceiptResult{Status: ReceiptPending, Error: "not sent after all"})
	if got := f.receipt(t, again); got != ReceiptSending {
		t.Errorf("an earlier claim's outcome made it %s", got)
	}
	f.settleReceipt(t, again, c.ID, ReceiptResult{Status: ReceiptSent, MessageID: "m2"})
	if got := f.receipt(t, again); got != ReceiptSent {
		t.Errorf("receipt %s", got)
	}
	if n := f.count(t, `SELECT count(*) FROM charge_event WHERE type = 'receipt.resend' AND actor = 'operator:ann' AND data ->> 'because' = 'SendGrid lost them'`); n != 2 {
		t.Errorf("%d events in the trails", n)
	}
}
