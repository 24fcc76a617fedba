package charges

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// DisputeNews is what Stripe said of one dispute at one moment, in an event or a list.
type DisputeNews struct {
	ID       string    // "du_..." or "dp_..."
	Payment  string    // "pi_...", the payment that is disputed
	Amount   int64     // in the minor unit of its own currency: that may be another one than the charge's
	Currency string    //
	Status   string    // Stripe's own word
	Reason   string    // Stripe's own word, such as fraudulent
	OpenedAt time.Time // by Stripe's clock
	DueBy    time.Time // until when evidence is taken; zero: none is asked for
	AsOf     time.Time // by Stripe's clock, to the second
}

// disputeRank orders Stripe's statuses of one dispute for news of one second: the further on, the later. An inquiry (warning_...)
// may become a dispute, even after it was closed: https://docs.stripe.com/api/disputes/object#dispute_object-status
var disputeRank = map[string]int{
	"warning_needs_response": 1,
	"warning_under_review":   2,
	"warning_closed":         3,
	"needs_response":         4,
	"under_review":           5,
	"prevented":              6,
	"charge_refunded":        7,
	"lost":                   8, // banks have turned a lost one into a won one, not the other way round
	"won":                    9,
}

// closedDisputes are the statuses of a dispute that is over, for now. One that we do not know counts as open, so that it is seen.
const closedDisputes = `('warning_closed', 'prevented', 'charge_refunded', 'lost', 'won')`

// quiet are the statuses of a dispute that asks nothing of the shop and takes nothing from it. One that we do not know is none of them.
var quiet = []string{"warning_under_review", "under_review", "warning_closed", "prevented", "charge_refunded", "won"}

// compare says which of two pieces of news about one dispute is true later, in a total order, as that of a refund. None of the
// statuses is an end for good: inquiries come back, and banks change their minds.
func (n DisputeNews) compare(m DisputeNews) int {
	return cmp.Or(
		n.AsOf.Compare(m.AsOf),
		cmp.Compare(disputeRank[n.Status], disputeRank[m.Status]),
		cmp.Compare(n.Status, m.Status), // two that we do not know
		n.DueBy.Compare(m.DueBy),
		cmp.Compare(n.Amount, m.Amount),
		cmp.Compare(n.Currency, m.Currency),
		cmp.Compare(n.Reason, m.Reason),
		n.OpenedAt.Compare(m.OpenedAt),
	)
}

// merge adds news to what is known; the zero value knows nothing.
func (n DisputeNews) merge(m DisputeNews) DisputeNews {
	if n.ID == "" || m.compare(n) > 0 {
		return m
	}
	return n
}

// saysAs tells whether two pieces of news differ in nothing but their time.
func (n DisputeNews) saysAs(m DisputeNews) bool {
	n.AsOf, m.AsOf = time.Time{}, time.Time{}
	return n == m
}

// takeDispute merges news of a dispute into what is known of it, and leaves an event with each change. The payment is on
// record as the locked charge's. A dispute moves no status of the charge: the buyer has paid, and the shop may win.
func takeDispute(ctx context.Context, tx pgx.Tx, c Charge, n DisputeNews, actor string, data map[string]any) (EventNote, error) {
	known, err := findDispute(ctx, tx, n.ID)
	if err != nil {
		return "", err
	}
	if known.ID != "" && known.Payment != n.Payment {
		return EventNote(PaymentDiffers), nil
	}
	state := known.merge(n)
	if state == known {
		return "", nil
	}
	if err := upsertDispute(ctx, tx, c.ID, state); err != nil {
		return "", err
	}
	if state.saysAs(known) {
		return "", nil
	}
	said := map[string]any{"dispute": n.ID, "payment_intent": n.Payment, "amount": state.Amount, "currency": state.Currency, "reason": state.Reason}
	if !state.DueBy.IsZero() {
		said["due_by"] = state.DueBy
	}
	if err := recordSaid(ctx, tx, c, "dispute."+state.Status, actor, said, data); err != nil {
		return "", err
	}
	if state.Status != known.Status && !slices.Contains(quiet, state.Status) {
		return EventDisputed, nil
	}
	return "", nil
}
