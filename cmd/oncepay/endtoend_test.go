package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// order is one charge that somebody wants made once, and what they were told about it.
type order struct {
	params  client.CreateParams
	decline bool

	mu      sync.Mutex
	answers []*client.Charge
}

// orders are n different ones: a third of the cards are declined, half of the buyers want a receipt.
func orders(n int) []*order {
	all := make([]*order, n)
	for i := range all {
		o := &order{decline: i%3 == 2}
		o.params = client.CreateParams{IdempotencyKey: newKey(), Amount: int64(100 + i), Currency: "usd", PaymentMethod: "pm_card_visa"}
		if o.decline {
			o.params.PaymentMethod = "pm_card_chargeDeclined"
		}
		if i%2 == 0 {
			o.params.ReceiptEmail = fmt.Sprintf("buyer%d@%s", i, buyersHost)
		}
		all[i] = o
	}
	return all
}

// post posts the order as an application does, until there is an answer.
func (o *order) post(ctx context.Context, c *client.Client) error {
	charge, err := c.Create(ctx, o.params)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers = append(o.answers, charge)
	return nil
}

// Two API and two worker processes, callers who post everything twice at once, a Stripe and a SendGrid that lose and
// refuse every other call, and a worker that is killed in the middle.
func TestI2I3I4I5EndToEnd(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	apis := []service{d.api(), d.api()}
	callers := []*client.Client{d.client(apis[0]), d.client(apis[1])}
	for _, members := range []string{
		`"fault":"drop_after","probability":0.12`, `"fault":"drop_before","probability":0.1`, `"fault":"truncate","probability":0.1`,
		`"fault":"status","status":500,"probability":0.1`, `"fault":"delay","delay_ms":400,"probability":0.4`,
	} {
		d.box.fault(members + `,"times":-1`)
	}
	d.box.fault(`"fault":"status","status":429,"retry_after":1,"probability":0.1,"times":5`)
	for _, members := range []string{`"fault":"drop_after","probability":0.15`, `"fault":"truncate","probability":0.15`, `"fault":"delay","delay_ms":300,"probability":0.4`} {
		d.box.mailFault(members + `,"times":-1`)
	}
	// Slower than Stripe would have it, so that there is a middle in which to be killed.
	slow := []string{"--stripe-rate=8/s", "--concurrency=8"}
	victim := d.worker(slow...)
	d.worker(slow...)

	all := orders(48)
	var posting sync.WaitGroup
	errs := make(chan error, 2*len(all))
	for _, o := range all {
		for _, c := range callers {
			posting.Go(func() { errs <- o.post(t.Context(), c) })
		}
	}
	await(t, patience, "a part of the payments is made", func() error {
		if made := len(d.box.ledger().Payments); made < len(all)/4 {
			return fmt.Errorf("%d are", made)
		}
		return nil
	})
	victim.kill()
	t.Logf("killed with %d calls to Stripe open", d.count(`SELECT count(*) FROM attempt WHERE outcome IS NULL`))
	d.worker()
	posting.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatalf("post: %v", err)
		}
	}

	await(t, 2*patience, "most of it is settled, faults or not", func() error {
		if n := d.count(`SELECT count(*) FROM charge WHERE status IN ('succeeded', 'failed')`); n < len(all)/2 {
			return fmt.Errorf("%d charges are", n)
		}
		return nil
	})
	d.box.clearFaults()
	// A killed worker's jobs run again within two minutes; the rest is backing off from faults.
	await(t, 4*time.Minute, "everything is settled", func() error {
		open := d.count(`SELECT count(*) FROM charge WHERE status NOT IN ('succeeded', 'failed')`)
		receipts := d.count(`SELECT count(*) FROM receipt WHERE status IN ('pending', 'sending')`)
		if open+receipts > 0 {
			return fmt.Errorf("%d charges and %d receipts are open", open, receipts)
		}
		return nil
	})
	for i, o := range all {
		if err := o.post(t.Context(), callers[i%2]); err != nil {
			t.Errorf("post again: %v", err)
		}
	}
	d.check(all, callers[0])
}

// check compares what the callers were told, what the API says now, and what really happened.
func (d *deployment) check(all []*order, c *client.Client) {
	d.t.Helper()
	l := d.box.ledger()
	for _, o := range all {
		if err := d.checkOrder(o, c, l); err != nil {
			d.t.Errorf("key %s: %v", o.params.IdempotencyKey, err)
		}
	}
	if len(l.Payments) > len(all) {
		d.t.Errorf("%d payments for %d orders", len(l.Payments), len(all))
	}
	if n := d.count(`SELECT count(*) FROM charge`); n != len(all) {
		d.t.Errorf("%d charges for %d orders", n, len(all))
	}
	if n := d.count(`SELECT count(*) FROM river_job WHERE state IN ('discarded', 'cancelled')`); n != 0 {
		d.t.Errorf("River gave %d jobs up", n)
	}
}

func (d *deployment) checkOrder(o *order, c *client.Client, l ledger) error {
	key := o.params.IdempotencyKey
	use, err := c.Key(d.t.Context(), key)
	if err != nil {
		return fmt.Errorf("forgotten: %w", err)
	}
	now := use.Charge
	for _, told := range o.answers {
		if told.ID != now.ID || !bytes.Equal(told.Raw, o.answers[0].Raw) {
			return fmt.Errorf("answers differ: %s and %s, now %s", o.answers[0].Raw, told.Raw, now.Raw)
		}
	}
	got, err := c.Get(d.t.Context(), now.ID)
	if err != nil {
		return err
	}
	if got.Amount != o.params.Amount || got.ReceiptEmail != o.params.ReceiptEmail || got.Status != now.Status {
		return fmt.Errorf("GET differs: %s", got.Raw)
	}

	payments, succeeded := l.payments(key)
	mails := l.mails(key)
	switch {
	case o.decline && (got.Status != client.StatusFailed || succeeded > 0 || payments > 1):
		err = errors.New("the card was declined")
	case !o.decline && (got.Status != client.StatusSucceeded || succeeded != 1 || payments != 1 || got.PaymentIntent != l.paymentOf(key)):
		err = errors.New("the card was good")
	case got.Receipt == nil && mails > 0, mails > 1:
		err = errors.New("mails that nobody should get")
	case !o.decline && o.params.ReceiptEmail != "" && got.Receipt == nil:
		err = errors.New("the receipt was forgotten")
	case got.Receipt != nil && !slices.Contains([]string{"sent", "unknown"}, got.Receipt.Status):
		err = errors.New("the receipt has no outcome")
	case got.Receipt != nil && got.Receipt.Status == "sent" && mails != 1:
		err = errors.New("the receipt was not sent")
	}
	if err != nil {
		return fmt.Errorf("%w: %s; %d payments, %d succeeded, %d mails", err, got.Raw, payments, succeeded, mails)
	}
	return nil
}
