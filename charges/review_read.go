package charges

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Waiting is a charge that a person must decide about.
type Waiting struct {
	Charge   Charge    `json:"charge"`
	Caller   string    `json:"caller"`
	Since    time.Time `json:"since"` // when a person was asked (UTC)
	Payments []string  `json:"payments"`

	// Of a charge that waits because its items are short. Charge.AmountRefunded tells what of Received was given back.
	Short    []Shortage    `json:"short"`    // of its items, what less is available of now than it asks for; empty: it can be settled
	Received int64         `json:"received"` // what its payment took, in the minor unit
	Others   []OtherCharge `json:"others"`   // of the same order, those that go on: the likeliest reason is that it was paid again
}

// Reviews returns the charges that a person must decide about, the latest accepted first, at most limit of them, and whether there are more.
func (s *Service) Reviews(ctx context.Context, limit int) (list []Waiting, more bool, err error) {
	f := ListFilter{Status: NeedsReview}
	for more = true; more && len(list) < limit; {
		f.Limit = limit - len(list)
		var page []Charge
		if page, more, err = s.List(ctx, "", f); err != nil {
			return nil, false, err
		}
		for _, c := range page {
			states, err := listPayments(ctx, s.reads, c.ID)
			if err != nil {
				return nil, false, err
			}
			w := Waiting{Charge: c, Caller: c.Caller, Since: c.UpdatedAt, Payments: []string{}, Short: []Shortage{}, Others: []OtherCharge{}}
			for _, p := range states {
				w.Payments = append(w.Payments, p.ID)
			}
			if c.Review != nil && c.Review.Reason == InsufficientInventory {
				if err := s.lookIntoShortage(ctx, &w, states); err != nil {
					return nil, false, err
				}
			}
			list, f.After = append(list, w), c.ID
		}
	}
	return list, more, nil
}

// lookIntoShortage finds what there is too little of for a charge that waits because of that, and what may have come of its order.
func (s *Service) lookIntoShortage(ctx context.Context, w *Waiting, payments []paymentState) error {
	available, err := readAvailable(ctx, s.reads, skusOf([][]Item{w.Charge.Items}))
	if err != nil {
		return err
	}
	w.Short = append(w.Short, shortOf(w.Charge.Items, available)...)
	for _, p := range payments {
		if p.ID == text(w.Charge.PaymentIntent) {
			w.Received = p.Received
		}
	}
	others, err := s.othersOf(ctx, w.Charge)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.GoesOn() {
			w.Others = append(w.Others, o)
		}
	}
	return nil
}

// Evidence is all that is known of a charge, for a person who must decide about it. It holds no client secret.
type Evidence struct {
	Charge   Charge         `json:"charge"`
	Caller   string         `json:"caller"`
	Attempts []TriedAttempt `json:"attempts"`
	Looks    []MadeLook     `json:"looks"`
	Payments []KnownPayment `json:"payments"`
	Receipt  *ReceiptRecord `json:"receipt"` // null: none is due
	Events   []Event        `json:"events"`

	Inventory []Inventory `json:"inventory"` // what there is now of the charge's items

	Others []OtherCharge `json:"others"` // of the same order, those that go on first, at most 100
}

// TriedAttempt is one request to Stripe, and what came of it.
type TriedAttempt struct {
	Operation  string     `json:"operation"` // charge or cancel
	Number     int        `json:"number"`
	Key        string     `json:"provider_key"`
	Account    string     `json:"account"`
	Livemode   bool       `json:"livemode"`
	SentAt     time.Time  `json:"sent_at"`
	EndedAt    *time.Time `json:"ended_at"` // null: nobody has seen the call end
	Outcome    *Outcome   `json:"outcome"`
	HTTPStatus *int       `json:"http_status"`
	Code       *string    `json:"code"`
	RequestID  *string    `json:"request_id"` // by which Stripe's support and dashboard find it
	Payment    *string    `json:"payment_intent"`
}

// MadeLook is one reading of Stripe's list of payments for the charge's own.
type MadeLook struct {
	At       time.Time `json:"at"`
	Complete bool      `json:"complete"`
	Seen     int       `json:"seen"`
	Found    []string  `json:"found"`
	Error    string    `json:"error,omitempty"`
}

// KnownPayment is what Stripe has told of one payment.
type KnownPayment struct {
	ID       string    `json:"payment_intent"`
	Status   string    `json:"status"`
	AsOf     time.Time `json:"as_of"` // by Stripe's clock
	Received int64     `json:"received"`
	Refunded int64     `json:"refunded"`
	Followed bool      `json:"may_still_change"`
}

const listTriedSQL = `
SELECT operation, number, provider_key, stripe_account, livemode, sent_at, ended_at, outcome, http_status, code, request_id, payment
  FROM attempt WHERE charge_id = $1 ORDER BY sent_at, number`

const listKnownSQL = `
SELECT p.id, p.status, p.as_of, p.received, coalesce((SELECT sum(amount) FROM refund WHERE payment = p.id AND status IN ` + countedRefunds + `), 0)::bigint, p.followed
  FROM payment p WHERE p.charge_id = $1 ORDER BY p.id`

// mostEvents bounds the part of a charge's trail that is shown.
const mostEvents = 1000

// Evidence tells all that is known of a charge. An unknown charge is [ErrNotFound].
func (s *Service) Evidence(ctx context.Context, id uuid.UUID) (e Evidence, err error) {
	if e.Charge, err = s.Get(ctx, "", id); err != nil {
		return e, err
	}
	e.Caller = e.Charge.Caller
	rows, err := s.reads.Query(ctx, listTriedSQL, id)
	if err != nil {
		return e, fmt.Errorf("list attempts of charge %s: %w", id, err)
	}
	if e.Attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[TriedAttempt]); err != nil {
		return e, fmt.Errorf("list attempts of charge %s: %w", id, err)
	}
	if rows, err = s.reads.Query(ctx, listKnownSQL, id); err != nil {
		return e, fmt.Errorf("list payments of charge %s: %w", id, err)
	}
	if e.Payments, err = pgx.CollectRows(rows, pgx.RowToStructByPos[KnownPayment]); err != nil {
		return e, fmt.Errorf("list payments of charge %s: %w", id, err)
	}
	looks, err := listLooks(ctx, s.reads, []uuid.UUID{id})
	if err != nil {
		return e, err
	}
	e.Looks = []MadeLook{}
	for _, l := range looks[id] {
		e.Looks = append(e.Looks, MadeLook{At: l.At.UTC(), Complete: l.Complete, Seen: l.Seen, Found: l.Found, Error: l.Error})
	}
	if e.Receipt, err = findReceipt(ctx, s.reads, id); err != nil {
		return e, err
	}
	if e.Inventory, err = s.inventoryOf(ctx, e.Charge.Items); err != nil {
		return e, err
	}
	if e.Others, err = s.othersOf(ctx, e.Charge); err != nil {
		return e, err
	}
	e.Events, _, err = s.Events(ctx, "", id, 0, mostEvents)
	return e, err
}
