package charges

import (
	"encoding/json"
	"regexp"
	"time"
)

// stripePayment is the part of a PaymentIntent's snapshot that is read.
type stripePayment struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Amount           *int64            `json:"amount"`
	AmountReceived   int64             `json:"amount_received"`
	Currency         string            `json:"currency"`
	Livemode         *bool             `json:"livemode"`
	Status           string            `json:"status"`
	Metadata         map[string]string `json:"metadata"`
	ClientSecret     string            `json:"client_secret"`
	LastPaymentError *Decline          `json:"last_payment_error"`
	NextAction       *struct {
		RedirectToURL *struct {
			URL string `json:"url"`
		} `json:"redirect_to_url"`
	} `json:"next_action"`
}

var (
	intentShape   = regexp.MustCompile(`^pi_[A-Za-z0-9_]{1,250}$`)
	objectShape   = regexp.MustCompile(`^[a-z]{1,10}_[A-Za-z0-9_]{1,200}$`)
	currencyShape = regexp.MustCompile(`^[a-z]{3}$`)
	wordShape     = regexp.MustCompile(`^[a-z0-9_]{1,60}$`)
)

// maxAmount is far above what Stripe moves at once, and so low that sums of amounts do not overflow.
const maxAmount = 1e15

// paymentNews reads the snapshot; it is false if that is no PaymentIntent.
func (s stripeEvent) paymentNews() (News, bool) {
	var p stripePayment
	if err := json.Unmarshal(s.Data.Object, &p); err != nil {
		return News{}, false
	}
	if p.Object != "payment_intent" || !intentShape.MatchString(p.ID) || p.Amount == nil || p.Livemode == nil || *p.Livemode != s.Livemode ||
		!wordShape.MatchString(p.Currency) || !wordShape.MatchString(p.Status) {
		return News{}, false
	}
	n := News{AsOf: s.createdAt(), Payment: Payment{ID: p.ID, Status: p.Status, Amount: *p.Amount, Currency: p.Currency,
		Livemode: *p.Livemode, Key: p.Metadata["oncepay_key"], Received: max(0, p.AmountReceived)}}
	if p.LastPaymentError != nil {
		n.Failure = p.LastPaymentError.Failure()
	}
	// Whoever has the client secret can pay, so it is taken along only where the buyer needs it.
	if p.Status == "requires_action" && printableASCII(p.ClientSecret) {
		n.ClientSecret = p.ClientSecret
		if a := p.NextAction; a != nil && a.RedirectToURL != nil && printableASCII(a.RedirectToURL.URL) {
			n.RedirectURL = a.RedirectToURL.URL
		}
	}
	return n, true
}

// stripeRefund is the part of a Refund's snapshot that is read. It has no mode of its own: the event's is its.
type stripeRefund struct {
	ID            string   `json:"id"`
	Object        string   `json:"object"`
	Amount        int64    `json:"amount"`
	Currency      string   `json:"currency"`
	Payment       objectID `json:"payment_intent"`
	Status        string   `json:"status"`
	Reason        string   `json:"reason"`
	FailureReason string   `json:"failure_reason"`
}

// refundNews reads the snapshot; it is false if that is no Refund.
func (s stripeEvent) refundNews() (RefundNews, bool) {
	var r stripeRefund
	if err := json.Unmarshal(s.Data.Object, &r); err != nil || r.Object != "refund" {
		return RefundNews{}, false
	}
	n := RefundNews{ID: r.ID, Payment: string(r.Payment), Amount: r.Amount, Currency: r.Currency, Status: r.Status,
		Reason: cleanText(r.Reason), FailureReason: cleanText(r.FailureReason), AsOf: s.createdAt()}
	return n, n.Sound()
}

// Sound tells whether the news is of a form that can be taken.
func (n RefundNews) Sound() bool {
	return objectShape.MatchString(n.ID) && intentShape.MatchString(n.Payment) && n.Amount > 0 && n.Amount <= maxAmount &&
		currencyShape.MatchString(n.Currency) && wordShape.MatchString(n.Status)
}

// stripeDispute is the part of a Dispute's snapshot that is read.
type stripeDispute struct {
	ID       string   `json:"id"`
	Object   string   `json:"object"`
	Amount   int64    `json:"amount"`
	Currency string   `json:"currency"`
	Payment  objectID `json:"payment_intent"`
	Status   string   `json:"status"`
	Reason   string   `json:"reason"`
	Created  int64    `json:"created"`
	Evidence struct {
		DueBy int64 `json:"due_by"`
	} `json:"evidence_details"`
}

// disputeNews reads the snapshot; it is false if that is no Dispute.
func (s stripeEvent) disputeNews() (DisputeNews, bool) {
	var d stripeDispute
	if err := json.Unmarshal(s.Data.Object, &d); err != nil || d.Object != "dispute" || d.Created <= 0 || d.Evidence.DueBy < 0 {
		return DisputeNews{}, false
	}
	n := DisputeNews{ID: d.ID, Payment: string(d.Payment), Amount: d.Amount, Currency: d.Currency, Status: d.Status, Reason: d.Reason,
		OpenedAt: time.Unix(d.Created, 0).UTC(), AsOf: s.createdAt()}
	if d.Evidence.DueBy > 0 {
		n.DueBy = time.Unix(d.Evidence.DueBy, 0).UTC()
	}
	return n, n.Sound()
}

// Sound tells whether the news is of a form that can be taken.
func (n DisputeNews) Sound() bool {
	return objectShape.MatchString(n.ID) && intentShape.MatchString(n.Payment) && n.Amount >= 0 && n.Amount <= maxAmount &&
		currencyShape.MatchString(n.Currency) && wordShape.MatchString(n.Status) && wordShape.MatchString(n.Reason) &&
		n.OpenedAt.Unix() < maxSeconds && n.DueBy.Unix() < maxSeconds
}

// maxSeconds is a time that PostgreSQL can store, some thousand years ahead.
const maxSeconds = 1 << 36

// objectID is the id of another object, or empty for null; where it was expanded, the object's own.
type objectID string

func (id *objectID) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if *id = ""; text != nil {
			*id = objectID(*text)
		}
		return nil
	}
	var object struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(raw, &object)
	*id = objectID(object.ID)
	return err
}
