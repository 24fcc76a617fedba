package charges

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// A crowd of charges goes through all of its transactions together: each is sent once, with an attempt of its own, and ends where it is alone.
func TestI7CrowdEndsAsEachAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	const n = 200
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = f.create(t, request(func(r *Request) { r.ReceiptEmail = "buyer@example.com" }))
	}
	var crowd sync.WaitGroup
	for i, id := range ids {
		crowd.Go(func() {
			b, err := f.Begin(t.Context(), id, f.here(true))
			if err != nil || b.Action != Send || b.Attempt.ChargeID != id {
				t.Errorf("begin %s: %q, %v", id, b.Action, err)
				return
			}
			result := answered("succeeded", fmt.Sprintf("pi_%d", i))
			if i%3 == 0 {
				result = declined(fmt.Sprintf("pi_%d", i))
			}
			if _, err := f.Settle(t.Context(), b.Attempt, result); err != nil {
				t.Errorf("settle %s: %v", id, err)
			}
			if i%3 == 0 {
				return
			}
			claim, err := f.ClaimReceipt(t.Context(), id)
			if err != nil || !claim.Send || claim.Charge.ID != id {
				t.Errorf("claim %s: %+v, %v", id, claim, err)
			}
			if _, err := f.SettleReceipt(t.Context(), id, claim.ID, ReceiptResult{Status: ReceiptSent, MessageID: id.String()}); err != nil {
				t.Errorf("settle receipt %s: %v", id, err)
			}
		})
	}
	crowd.Wait()
	const paid, refused = n - (n+2)/3, (n + 2) / 3
	for sql, want := range map[string]int{
		`SELECT count(*) FROM charge WHERE status = 'succeeded' AND payment_intent IS NOT NULL`:   paid,
		`SELECT count(*) FROM charge WHERE status = 'failed' AND failure_code = 'card_declined'`:  refused,
		`SELECT count(DISTINCT charge_id) FROM attempt WHERE outcome = 'answered' AND number = 1`: n,
		`SELECT count(*) FROM attempt`: n,
		`SELECT count(*) FROM receipt WHERE status = 'sent' AND message_id = charge_id::text`:                               paid,
		`SELECT count(*) FROM charge_event WHERE type = 'charge.processing'`:                                                n,
		`SELECT count(*) FROM charge_event WHERE type IN ('charge.succeeded', 'charge.failed')`:                             n,
		`SELECT count(DISTINCT args ->> 'charge_id') FROM river_job WHERE kind = 'receipt_send'`:                            paid,
		`SELECT count(*) FROM river_job WHERE kind = 'receipt_send'`:                                                        paid,
		`SELECT count(*) FROM payment p JOIN charge c ON c.id = p.charge_id AND c.payment_intent = p.id WHERE NOT followed`: n,
	} {
		if got := f.count(t, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}
