package charges

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// I5: what was due when the database was restored may have been mailed since the backup. It is sent again on a person's word only, and only once
// asked; what is accepted later goes as ever.
func TestReceiptsOfARestoredDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	before, after, lost, refused := f.due(t), f.due(t), f.due(t), f.due(t)
	f.settleReceipt(t, refused, f.claim(t, refused).ID, ReceiptResult{Status: ReceiptPending, Error: "HTTP 503"})
	if _, err := f.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:test", "a snapshot"); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, before); c.Send || c.Wait != 0 || f.receipt(t, before) != ReceiptUnknown {
		t.Errorf("due before the restore: %+v, %s", c, f.receipt(t, before))
	}
	if c := f.claim(t, refused); c.Send || f.receipt(t, refused) != ReceiptUnknown {
		t.Errorf("turned away before the restore: %+v, %s", c, f.receipt(t, refused))
	}
	if err := f.RuleReceipt(t.Context(), before, ReceiptPending, "the buyer has none", "operator:test"); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, before); !c.Send || c.Recipient != "buyer@example.com" {
		t.Errorf("sent again on a person's word: %+v", c)
	}

	// Found an hour ago, before the others were accepted.
	if _, err := f.pool.Exec(t.Context(), `UPDATE restoration SET detected_at = lost_from`); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, after); !c.Send {
		t.Errorf("accepted after the restore: %+v", c)
	}
	if _, err := f.pool.Exec(t.Context(), `
INSERT INTO look (charge_id, operation, complete, seen, found, restoration) SELECT $1, 'charge', true, 1, $2, id FROM restoration`, lost, "pi_"+lost.String()); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, lost); c.Send || f.receipt(t, lost) != ReceiptUnknown {
		t.Errorf("lost, and found again at Stripe: %+v, %s", c, f.receipt(t, lost))
	}
}

// Where unknown receipts are sent again by themselves, so are those.
func TestReceiptsOfARestoredDatabaseAreSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Receipts: ReceiptPolicy{Resend: true, Wait: time.Minute}})
	id := f.due(t)
	if _, err := f.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:test", "a snapshot"); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, id); c.Send || c.Wait != time.Minute {
		t.Fatalf("%+v", c)
	}
	if _, err := f.pool.Exec(t.Context(), `UPDATE receipt SET updated_at = updated_at - interval '61 seconds'`); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(t, id); !c.Send || c.ID == uuid.Nil {
		t.Errorf("%+v", c)
	}
}
