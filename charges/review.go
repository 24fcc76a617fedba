package charges

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Ruling is what a person decides about a charge in [NeedsReview].
type Ruling struct {
	As       Status // Succeeded, Failed or Canceled; Processing: send it again
	Payment  string // Succeeded: the payment that took the money; empty: the one on record
	Captured int64  // Succeeded, of a payment that is not on record: what the buyer was charged; 0: the charge's amount
	NewKey   bool   // Processing, of a failure that Stripe has stored: under a new key, after another look
	Because  string // for the audit trail; never empty
	Actor    string // "operator:NAME"
	Force    bool   // the person knows better than the record, where that is possible

	// Succeeded, of a charge whose items were given back, which takes them again by default and is refused while they are short.
	WithoutItems bool // it leaves them to others, whether there is enough of them or not
	Restock      bool // as many as are short are stocked first, in the same transaction
}

// RulingError says why a charge cannot be settled so.
type RulingError struct {
	Why       string
	Forceable bool // a person can know better
}

func (e *RulingError) Error() string { return e.Why }

func refuse(format string, args ...any) error { return &RulingError{Why: fmt.Sprintf(format, args...)} }

// unless refuses what a person may know better, if that is not insisted upon.
func (r Ruling) unless(format string, args ...any) error {
	if r.Force {
		return nil
	}
	return &RulingError{Why: fmt.Sprintf(format, args...), Forceable: true}
}

// dossier is all that is known of a charge when a person decides about it.
type dossier struct {
	charge   Charge
	payments []paymentState
	refunded map[string]int64 // by payment: what was given back, or is on its way
	attempts []Attempt
	looks    []Look
	restored []Restoration
	now      time.Time
	policy   Policy
}

// check says why a ruling contradicts what is known; nil: it does not. It is a pure function.
func (r Ruling) check(d dossier) error {
	switch {
	case d.charge.Status != NeedsReview:
		return refuse("the charge is %s: there is nothing to settle", d.charge.Status)
	case cleanText(r.Because) == "":
		return refuse("a reason is needed, for whoever reads the charge's trail")
	case r.As != Succeeded && (r.Payment != "" || r.Captured != 0):
		return refuse("a payment is named only where it has succeeded")
	case r.As != Processing && r.NewKey:
		return refuse("a new key is for what is sent again")
	case r.As != Succeeded && (r.WithoutItems || r.Restock):
		return refuse("its items matter only where it has succeeded: what is over has none, and what is sent again holds its own")
	case r.WithoutItems && r.Restock:
		return refuse("a charge that is settled without its items needs none stocked")
	case (r.WithoutItems || r.Restock) && (d.charge.Stock == nil || *d.charge.Stock != StockReturned):
		return refuse("the charge has no items that were given back: it is settled as it is")
	}
	switch r.As {
	case Succeeded:
		return r.checkSucceeded(d)
	case Failed, Canceled:
		return r.checkOver(d)
	case Processing:
		return r.checkResend(d)
	}
	return refuse("nobody can settle a charge as %s", r.As)
}

// payment is the one that took the money: the one named, else the charge's own.
func (r Ruling) payment(c Charge) string {
	if r.Payment == "" {
		return text(c.PaymentIntent)
	}
	return r.Payment
}

func (r Ruling) checkSucceeded(d dossier) error {
	id := r.payment(d.charge)
	at := slices.IndexFunc(d.payments, func(p paymentState) bool { return p.ID == id })
	switch {
	case id == "":
		return refuse("no payment is on record: name the one that took the money")
	case !intentShape.MatchString(id):
		return refuse("%q is not the id of a payment: those are pi_...", cleanText(id))
	case at < 0 && d.charge.PaymentIntent != nil && *d.charge.PaymentIntent != id:
		return refuse("Stripe has told us of the payment %s for this charge, and not of %s", *d.charge.PaymentIntent, id)
	case r.Captured < 0 || r.Captured > d.charge.Amount:
		return refuse("the buyer cannot have been charged %d for a charge of %d", r.Captured, d.charge.Amount)
	}
	if at >= 0 {
		switch p := d.payments[at]; {
		case p.Status == "canceled":
			return refuse("Stripe has told us that %s was canceled, which is for good", id)
		case p.Status == "succeeded" && r.Captured != 0 && r.Captured != p.Received:
			return refuse("Stripe has told us that %s took %d", id, p.Received)
		case p.Status != "succeeded":
			if err := r.unless("the last that Stripe has told us of %s is %s", id, cleanText(p.Status)); err != nil {
				return err
			}
		}
	}
	if found := foundBy(d.looks, d.payments); at < 0 && found != "" && found != id {
		if err := r.unless("a look has found the payment %s with the charge's key, and not %s", found, id); err != nil {
			return err
		}
	}
	for _, p := range d.payments {
		var err error
		switch {
		case p.ID == id:
		case p.Status == "succeeded" && d.refunded[p.ID] < p.Received:
			err = r.unless("the buyer has paid %d with %s as well, of which we know %d to be given back: refund it at Stripe first", p.Received, p.ID, d.refunded[p.ID])
		case p.followed():
			err = r.unless("%s can still take the buyer's money (it is %s): cancel it at Stripe first", p.ID, cleanText(p.Status))
		}
		if err != nil {
			return err
		}
	}
	if d.charge.Stock != nil && *d.charge.Stock == StockReturned && !r.WithoutItems && r.refunded(d) {
		return r.unless("the payment %s was refunded in full, and the charge would take items that nobody pays for: settle it --without-items", id)
	}
	return nil
}

// refunded tells whether all that a ruling's payment took was given back, or is on its way.
func (r Ruling) refunded(d dossier) bool {
	id, took := r.payment(d.charge), cmp.Or(r.Captured, d.charge.Amount)
	for _, p := range d.payments {
		if p.ID == id && p.Status == "succeeded" {
			took = p.Received
		}
	}
	return took > 0 && d.refunded[id] >= took
}

func (r Ruling) checkOver(d dossier) error {
	for _, p := range d.payments {
		if p.Status == "succeeded" {
			return refuse("the buyer has paid with %s: the charge is succeeded, whatever of it was refunded", p.ID)
		}
	}
	if until := inCallUntil(d.attempts); d.now.Before(until) {
		return refuse("a call to Stripe may still be going on: try again in %v", until.Sub(d.now).Round(time.Second))
	}
	for _, p := range d.payments {
		if p.followed() {
			if err := r.unless("%s can still take the buyer's money (it is %s): cancel it at Stripe first", p.ID, cleanText(p.Status)); err != nil {
				return err
			}
		}
	}
	if found := foundBy(d.looks, d.payments); found != "" {
		return r.unless("Stripe has a payment with the charge's key, %s: see there that it took no money, and cancel it", found)
	}
	if a, doubt := unlooked(d.attempts, d.looks); doubt {
		return r.unless("attempt %d may have moved money, and Stripe was not looked at %v after it or later: let that be found out (--as resend), or look there yourself",
			a.Number, inDoubt)
	}
	if d.lost() {
		return r.unless("the database was restored, and it is not known yet what it has lost of this charge: workers read that within a quarter of an hour; else let it be found out (--as resend), or look at Stripe yourself")
	}
	return nil
}

// unlooked is an attempt that may have moved money, and that no complete look was late enough to find for sure.
func unlooked(attempts []Attempt, looks []Look) (Attempt, bool) {
	for _, a := range attempts {
		proven := a.SentAt.Add(inDoubt)
		if a.Open() && !slices.ContainsFunc(looks, func(l Look) bool { return l.Complete && l.Restoration == 0 && !l.begun().Before(proven) }) {
			return a, true
		}
	}
	return Attempt{}, false
}

// lost tells whether a restore may have lost a payment of this charge: none is on record, and nobody has looked late enough to find it for sure, at this
// charge's own or at all that was lost. A worker that looks early may send under the key, which Stripe remembers; a person's word ends the charge.
func (d dossier) lost() bool {
	unread := slices.DeleteFunc(slices.Clone(d.restored), func(r Restoration) bool { return !r.ReadAt.IsZero() })
	h := History{Accepted: d.charge.CreatedAt, Attempts: d.attempts, Looks: d.looks, Restorations: unread}
	p := d.policy
	p.Window = inDoubt
	return len(d.payments) == 0 && unlessRestored(Permit{Action: Send}, h, Clocks{Database: d.now, Stripe: d.now, Fresh: true}, p).Action != Send
}

// checkResend is no second judge of what may be sent: it only refuses what [Allow] would not send either.
func (r Ruling) checkResend(d dossier) error {
	switch found := foundBy(d.looks, nil); {
	case len(d.payments) > 0:
		return refuse("Stripe has told us of a payment, %s: the charge is never sent again", d.payments[0].ID)
	case d.charge.PaymentIntent != nil:
		return refuse("the charge has a payment, %s: it is never sent again", *d.charge.PaymentIntent)
	case found != "":
		return refuse("Stripe has a payment with the charge's key, %s: the charge is never sent again", found)
	}
	var here Account
	for _, a := range d.attempts {
		if a.Open() {
			here = a.Account
		}
	}
	permit := Allow(History{Accepted: d.charge.CreatedAt, Attempts: d.attempts, Looks: d.looks}, Clocks{Database: d.now, Fresh: true}, here, d.policy)
	stored := permit.Action == Park && permit.Reason == "stored_failure"
	switch {
	case stored && !r.NewKey:
		return refuse("Stripe has failed and repeats that for the charge's key: see there that nothing was paid, and order a new key")
	case r.NewKey && !stored:
		return refuse("a new key is only for a failure that Stripe has stored under the old one")
	case permit.Action == Park && !stored:
		return refuse("sending it again is of no use, or not safe: %s", permit.Reason)
	case permit.Action == UseResult:
		return refuse("Stripe has given its answer: the charge is never sent again")
	case permit.Action == Misconfigured:
		return refuse("%s", permit.Reason)
	}
	return nil
}

// inCallUntil is until when somebody may be in a call that nobody has seen end; zero: there is none.
func inCallUntil(attempts []Attempt) (until time.Time) {
	for _, a := range attempts {
		if t := a.SentAt.Add(inCall); a.Outcome == Unseen && t.After(until) {
			until = t
		}
	}
	return until
}

// foundBy is a payment that a look has found and that is not among those on record; empty: there is none.
func foundBy(looks []Look, known []paymentState) string {
	for _, l := range looks {
		for _, id := range l.Found {
			if !slices.ContainsFunc(known, func(p paymentState) bool { return p.ID == id }) {
				return id
			}
		}
	}
	return ""
}
