package charges

import (
	"cmp"
	"time"
)

// News is what Stripe said of one payment at one moment: in the answer to a call, in a list, or in an event. The same
// news may come many times, and old news after newer.
type News struct {
	Payment
	AsOf         time.Time // by Stripe's clock, to the second
	ClientSecret string    // where the buyer must act: lets the buyer's page go on
	RedirectURL  string    // where the buyer must act elsewhere
}

// paymentRank orders Stripe's statuses of one payment for news of one second: the further on, the later.
// https://docs.stripe.com/payments/paymentintents/lifecycle
var paymentRank = map[string]int{
	"requires_payment_method": 1,
	"requires_confirmation":   2,
	"requires_action":         3,
	"processing":              4,
	"requires_capture":        5,
	"canceled":                6,
	"succeeded":               7,
}

// over tells whether Stripe never changes a payment of this status any more.
func over(status string) bool { return status == "succeeded" || status == "canceled" }

// byHand is the date of what a person says of a payment: older than anything that Stripe can say of it.
var byHand = time.Unix(0, 0)

// byHand tells what a person has said from what Stripe has.
func (n News) byHand() bool { return n.AsOf.Equal(byHand) }

// newer compares two pieces of news by what is true later: 1 if a is, -1 if b is, 0 if they say the same. It is a total
// order, so that merging any number of news ends in the same state, whatever their order. Whatever Stripe says outranks a person's word.
func newer(a, b News) int {
	if a.byHand() != b.byHand() {
		if b.byHand() {
			return 1
		}
		return -1
	}
	if over(a.Status) != over(b.Status) {
		if over(a.Status) {
			return 1
		}
		return -1
	}
	return cmp.Or(
		a.AsOf.Compare(b.AsOf),
		cmp.Compare(paymentRank[a.Status], paymentRank[b.Status]),
		cmp.Compare(a.Status, b.Status), // two that we do not know
		cmp.Compare(a.Received, b.Received),
	)
}

// paymentState is all that is known of a payment: the merge of its news.
type paymentState struct {
	News       // the newest; its Failure is that of the latest failed try, which may be older
	FailedAsOf time.Time
}

// merge adds news to what is known.
func (s paymentState) merge(n News) paymentState {
	merged := s
	if s.ID == "" || newer(n, s.News) > 0 {
		merged.News = n
		merged.Failure = s.Failure
		if merged.ClientSecret == "" { // once handed out, it stays so
			merged.ClientSecret, merged.RedirectURL = s.ClientSecret, s.RedirectURL
		}
	} else if merged.ClientSecret == "" {
		merged.ClientSecret, merged.RedirectURL = n.ClientSecret, n.RedirectURL
	}
	if over(merged.Status) {
		merged.ClientSecret, merged.RedirectURL = "", "" // of no use to anybody any more
	}
	if n.Failure != nil && (s.Failure == nil || n.AsOf.After(s.FailedAsOf) || n.AsOf.Equal(s.FailedAsOf) && n.Failure.outranks(*s.Failure)) {
		merged.Failure, merged.FailedAsOf = n.Failure, n.AsOf
	}
	return merged
}

// outranks picks one of two failures of the same second, so that their order does not matter.
func (f Failure) outranks(g Failure) bool {
	return cmp.Or(cmp.Compare(f.Code, g.Code), cmp.Compare(text(f.DeclineCode), text(g.DeclineCode)), cmp.Compare(f.Advice, g.Advice)) > 0
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// followed tells whether a payment may still change. One that was declined may not, although Stripe would let it be, if its
// client secret was never handed out: nobody can pay it.
func (s paymentState) followed() bool {
	change, _ := s.outcome()
	return !over(s.Status) && change.To != Failed
}

// outcome says what a payment's state means for its charge (nothing, where no try of it has ended yet), and whether the
// payment must be canceled at Stripe before the charge may be called failed: whoever holds its client secret can still pay it.
func (s paymentState) outcome() (change Change, cancelFirst bool) {
	change = Change{Payment: s.ID}
	switch s.Status {
	case "succeeded":
		change.To = Succeeded
	case "processing":
		change.To = Processing
	case "requires_action":
		change.To = RequiresAction
	case "requires_capture":
		change.To = RequiresCapture
	case "canceled":
		if change.To = Canceled; s.Failure != nil {
			change.To, change.Failure = Failed, s.Failure
		}
	case "requires_payment_method":
		switch {
		case s.Failure == nil:
		case s.ClientSecret != "":
			return Change{To: Processing, Payment: s.ID}, true
		default:
			change.To, change.Failure = Failed, s.Failure
		}
	case "requires_confirmation":
	default:
		change.To, change.Reason = NeedsReview, "unknown_payment_status"
	}
	return change, false
}
