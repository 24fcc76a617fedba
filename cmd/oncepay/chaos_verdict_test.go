package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncepay/oncepay/charges/client"
)

// verdict counts what has become of all charges.
type verdict struct {
	charges, paid, ended, mails int
	short, refused              int // times and orders that there was not enough for
	review, buyer, unknown      int // wait for something that has a name
	lost, doubled, stuck, other int // must be 0
}

var (
	errLost    = errors.New("lost")
	errDoubled = errors.New("doubled")
	errStuck   = errors.New("stuck")
)

// verdict compares what the clients were told with the API, and that with what really happened.
func (c *chaos) verdict() (v verdict) {
	c.t.Helper()
	l := c.box.ledger()
	payments := map[string][]payment{}
	for _, p := range l.Payments {
		if key, ours := p.Metadata["oncepay_key"]; ours {
			payments[key] = append(payments[key], p)
		}
	}
	mails := map[string]int{}
	for _, m := range l.Mails {
		mails[m.Key]++
	}
	caller := c.client(c.apis[0].service)
	v.charges, v.mails = len(c.shops.orders), len(l.Mails)
	all := map[string]*client.Charge{}
	for _, o := range c.shops.orders {
		v.short += o.short
		key := o.params.IdempotencyKey
		var now *client.Charge
		use, err := caller.Key(c.t.Context(), key)
		unknown := (*client.Error)(nil)
		switch {
		case o.waits() && errors.As(err, &unknown) && unknown.Code == "not_found":
			v.refused++
			v.charges--
			err = o.bad
		case err != nil:
			err = fmt.Errorf("%w: %w", errLost, err)
		default:
			now = use.Charge
			all[key] = now
			err = v.judge(o, now, payments[key], mails[key])
		}
		switch {
		case err == nil:
		case errors.Is(err, errLost):
			v.lost++
		case errors.Is(err, errDoubled):
			v.doubled++
		case errors.Is(err, errStuck):
			v.stuck++
		default:
			v.other++
		}
		if err != nil {
			c.t.Errorf("key %s, %s, buyer %q: %v\nnow %s\npayments %v, %d mails\n%s", key, o.card.method, o.card.buyer, err, raw(now), payments[key], mails[key], c.history(key))
		}
		if now != nil { // else none must be left of it
			delete(payments, key)
			delete(mails, key)
		}
	}
	if len(payments)+len(mails) > 0 {
		c.t.Errorf("payments %v and mails %v of nobody", payments, mails)
		v.other += len(payments) + len(mails)
	}
	(&crash{deployment: c.deployment}).checkTrail()
	if n := c.count(`SELECT count(*) FROM charge`); n != v.charges {
		c.t.Errorf("%d charges in the database, and the shops made %d", n, v.charges)
		v.other++
	}
	c.judgeStock(&v, all)
	v.other += c.alarms()
	return v
}

// alarms counts the events that a person should look at: nothing that a provider or a crash did here is a reason to wake anybody.
func (c *chaos) alarms() int {
	c.t.Helper()
	n := c.count(`SELECT count(*) FROM webhook_event WHERE note IN ('payment_differs', 'duplicate_payment', 'paid_after_end', 'key_differs', 'error')`)
	if n > 0 {
		var what string
		if err := c.pool.QueryRow(c.t.Context(), `SELECT string_agg(DISTINCT note || ' of ' || coalesce(charge_id::text, 'nobody'), ', ') FROM webhook_event
			WHERE note IN ('payment_differs', 'duplicate_payment', 'paid_after_end', 'key_differs', 'error')`).Scan(&what); err != nil {
			c.t.Error(err)
		}
		c.t.Errorf("%d events raise an alarm: %s", n, what)
	}
	return n
}

func raw(c *client.Charge) []byte {
	if c == nil {
		return nil
	}
	return c.Raw
}

// judge counts one charge, or says what is wrong with it.
func (v *verdict) judge(o *chaosOrder, now *client.Charge, payments []payment, mails int) error {
	var succeeded []string
	mayMove := false // money, at a payment that has not succeeded
	for _, p := range payments {
		switch p.Status {
		case "succeeded":
			succeeded = append(succeeded, p.ID)
		case "processing", "requires_action", "requires_capture":
			mayMove = true
		}
	}
	switch {
	case len(succeeded) > 1, mails > 1:
		return errDoubled
	case o.bad != nil:
		return fmt.Errorf("its client was told: %w", o.bad)
	case o.id == "":
		return errors.New("its client was never answered")
	case o.id != now.ID:
		return fmt.Errorf("%w: its client knows it as %s", errLost, o.id)
	case len(succeeded) == 1 && (now.Status != client.StatusSucceeded || now.PaymentIntent != succeeded[0]):
		return errors.New("it was paid")
	case len(succeeded) == 0 && now.Status == client.StatusSucceeded:
		return errors.New("it was not paid")
	}
	switch now.Status {
	case client.StatusSucceeded:
		v.paid++
		if mayMove {
			return errors.New("another payment of it may still move money")
		}
		return v.judgeReceipt(o, now, mails)
	case client.StatusFailed, client.StatusCanceled:
		v.ended++
		if mayMove {
			return errors.New("it is over, and its payment may still move money")
		}
		if o.card.method == "pm_card_visa" {
			return errors.New("the card was good")
		}
	case client.StatusRequiresAction:
		v.buyer++
		if o.card.method != "pm_card_authenticationRequired" {
			return fmt.Errorf("%w: no buyer has to do anything", errStuck)
		}
	case client.StatusNeedsReview:
		v.review++
		if now.Review == nil || now.Review.Reason != "stored_failure" {
			return errors.New("a person is asked, and should not be")
		}
	default:
		return errStuck
	}
	if mails > 0 || now.Receipt != nil {
		return errors.New("a receipt for nothing")
	}
	return nil
}

func (v *verdict) judgeReceipt(o *chaosOrder, now *client.Charge, mails int) error {
	switch {
	case o.params.ReceiptEmail == "" && (now.Receipt != nil || mails > 0):
		return errors.New("a receipt that nobody wanted")
	case o.params.ReceiptEmail == "":
		return nil
	case now.Receipt == nil:
		return fmt.Errorf("%w: its receipt was forgotten", errLost)
	case now.Receipt.Status == "unknown":
		v.unknown++
		return nil
	case !slices.Contains([]string{"sent", "delivered"}, now.Receipt.Status):
		return fmt.Errorf("%w: its receipt is %s", errStuck, now.Receipt.Status)
	case mails != 1:
		return errors.New("its receipt was not sent")
	}
	return nil
}

// history is what the database knows of a key, for whoever must find out.
func (c *chaos) history(key string) (text string) {
	for _, query := range []string{
		`SELECT 'event ' || e.at || ' ' || e.type || ' ' || e.to_status || ' ' || e.data FROM charge_event e JOIN charge c ON c.id = charge_id WHERE idempotency_key = $1 ORDER BY e.id`,
		`SELECT concat_ws(' ', 'attempt', operation, number, provider_key, sent_at, stripe_sent_at, ended_at, outcome, code, http_status) FROM attempt a JOIN charge c ON c.id = charge_id WHERE idempotency_key = $1 ORDER BY sent_at`,
		`SELECT concat_ws(' ', 'look', looked_at, complete, seen, found, error) FROM look l JOIN charge c ON c.id = charge_id WHERE idempotency_key = $1 ORDER BY l.id`,
		`SELECT concat_ws(' ', 'receipt', r.status, claimed_at, message_id, error) FROM receipt r JOIN charge c ON c.id = charge_id WHERE idempotency_key = $1`,
		`SELECT concat_ws(' ', 'job', kind, state, attempt, scheduled_at, array_to_json(errors)) FROM river_job j JOIN charge c ON c.id::text = args ->> 'charge_id' WHERE idempotency_key = $1`,
	} {
		rows, err := c.pool.Query(c.t.Context(), query, key)
		if err != nil {
			return text + err.Error()
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return text + err.Error()
			}
			text += line + "\n"
		}
		if err := rows.Err(); err != nil {
			text += err.Error() + "\n"
		}
	}
	return text
}
