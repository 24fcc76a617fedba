package charges

import (
	"testing"

	"github.com/google/uuid"
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
	if err := f.SettleReceipt(t.Context(), id, ReceiptResult{Status: ReceiptSent, MessageID: "m1"}); err != nil {
		t.Fatal(err)
	}
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
	if err := f.SettleReceipt(t.Context(), id, ReceiptResult{Status: ReceiptPending}); err != nil {
		t.Fatal(err)
	}
	if got := f.receipt(t, id); got != ReceiptUnknown {
		t.Errorf("a late failure made it %s", got)
	}
	if err := f.SettleReceipt(t.Context(), id, ReceiptResult{Status: ReceiptSent, MessageID: "m1"}); err != nil {
		t.Fatal(err)
	}
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
	if err := f.SettleReceipt(t.Context(), id, ReceiptResult{Status: ReceiptPending, Error: "503"}); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, id); !c.Send {
		t.Fatalf("claim: %+v", c)
	}
	if err := f.SettleReceipt(t.Context(), id, ReceiptResult{Status: ReceiptFailed, Error: "400"}); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, id); c.Send {
		t.Errorf("claim: %+v", c)
	}
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("the charge is %s", got)
	}
}
