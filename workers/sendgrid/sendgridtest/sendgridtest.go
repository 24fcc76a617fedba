// Package sendgridtest is a SendGrid to test against: it accepts mails and keeps them.
//
// It serves POST /v3/mail/send and GET /v3/scopes, and refuses what SendGrid refuses in a mail's body. As at
// SendGrid there is no idempotency: the same mail sent twice is two mails. What becomes of a mail is decided by its
// address (event.go) and told by signed webhook (courier.go), all events of one request in one batch. A mail's idempotency key, in the
// ledger and the request log, is its custom argument "oncepay_key"; SendGrid itself makes nothing of it.
package sendgridtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

const (
	mailKind = "sendgrid.mail"
	sendPath = "/v3/mail/send"
	keyArg   = "oncepay_key"
)

// SendGrid is the simulator; it is a frame.Provider and a frame.Keeper.
type SendGrid struct {
	clock    *frame.Clock
	journal  *frame.Journal
	webhooks *frame.Webhooks

	mu    sync.Mutex
	mails []Mail
}

// New makes a SendGrid without mails. Its events go to the webhooks, where Courier is registered as "sendgrid".
func New(clock *frame.Clock, journal *frame.Journal, webhooks *frame.Webhooks) *SendGrid {
	return &SendGrid{clock: clock, journal: journal, webhooks: webhooks}
}

// Mail is one personalization of an accepted request: what one set of recipients gets.
type Mail struct {
	ID             string            `json:"id"`         // X-Message-Id of the request
	To             string            `json:"to"`         // addresses, joined by ", "
	Recipients     []string          `json:"recipients"` // to, cc and bcc
	From           string            `json:"from"`
	Subject        string            `json:"subject"`
	IdempotencyKey string            `json:"idempotency_key"` // the custom argument oncepay_key, or ""
	CustomArgs     map[string]string `json:"custom_args"`
	AcceptedAt     time.Time         `json:"accepted_at"`
	Text           string            `json:"text"`
	HTML           string            `json:"html"`
}

// Ledger returns the accepted mails, oldest first.
func (s *SendGrid) Ledger() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail{}, s.mails...)
}

// Identify implements frame.Provider. The key is that of the first personalization.
func (s *SendGrid) Identify(r *frame.Request) frame.Traits {
	if r.Method != http.MethodPost || r.Path != sendPath {
		return frame.Traits{}
	}
	mails, refusals := read(r.Body)
	if len(refusals) > 0 {
		return frame.Traits{}
	}
	return frame.Traits{IdempotencyKey: mails[0].IdempotencyKey}
}

// Refuse implements frame.Provider. A retry_after becomes X-RateLimit-Reset, seconds since 1970 on the
// sandbox's clock: https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/rate-limits
func (s *SendGrid) Refuse(r *frame.Request) frame.Answer {
	message := r.Fault.Message
	if message == "" {
		message = fmt.Sprintf("a %d that the sandbox was told to answer", r.Fault.Status)
	}
	answer := refuse(r.Fault.Status, refusal{Message: message})
	if seconds := r.Fault.RetryAfter; seconds > 0 {
		reset := s.clock.Now().Add(time.Duration(seconds) * time.Second)
		answer.Header.Set("X-RateLimit-Remaining", "0")
		answer.Header.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	}
	return answer
}

// Answer implements frame.Provider.
func (s *SendGrid) Answer(r *frame.Request) (frame.Answer, error) {
	if err := r.Hold(); err != nil {
		return frame.Answer{}, err
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer SG.")
	switch {
	case !ok || key == "":
		return refuse(http.StatusUnauthorized, refusal{Message: "The provided authorization grant is invalid, expired, or revoked"}), nil
	case r.Method == http.MethodGet && r.Path == "/v3/scopes":
		return answer(http.StatusOK, map[string][]string{"scopes": {"mail.send"}}), nil
	case r.Method == http.MethodPost && r.Path == sendPath:
		return s.send(r)
	}
	return refuse(http.StatusNotFound, refusal{Message: "not found"}), nil
}

// send accepts every mail of the request or none.
func (s *SendGrid) send(r *frame.Request) (frame.Answer, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return refuse(http.StatusUnsupportedMediaType, refusal{Message: "Content-Type should be application/json."}), nil
	}
	mails, refusals := read(r.Body)
	if len(refusals) > 0 {
		return refuse(http.StatusBadRequest, refusals...), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, now := newID(), s.clock.Now()
	records := make([]frame.Record, len(mails))
	for i := range mails {
		mails[i].ID, mails[i].AcceptedAt = id, now
		records[i] = frame.NewRecord(mailKind, mails[i])
	}
	parcel := s.draft(id, mails, now)
	if err := s.journal.Append(append(records, parcel.Record())...); err != nil {
		return frame.Answer{}, fmt.Errorf("keep mail: %w", err)
	}
	s.mails = append(s.mails, mails...)
	s.webhooks.Post(parcel)
	return frame.Answer{Status: http.StatusAccepted, Header: http.Header{"X-Message-Id": {id}}}, nil
}

// refusal is one entry of SendGrid's error body; an empty field is null there.
type refusal struct {
	Message string  `json:"message"`
	Field   *string `json:"field"`
	Help    *string `json:"help"`
}

func refuse(status int, refusals ...refusal) frame.Answer {
	return answer(status, map[string][]refusal{"errors": refusals})
}

func answer(status int, body any) frame.Answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("sendgridtest: encode answer: %v", err)) // only this package's own values come here
	}
	return frame.Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: raw}
}

// Kinds, Restore and Snapshot implement frame.Keeper.
func (s *SendGrid) Kinds() []string { return []string{mailKind} }

func (s *SendGrid) Restore(r frame.Record) error {
	var m Mail
	if err := json.Unmarshal(r.Value, &m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
	return nil
}

func (s *SendGrid) Snapshot() []frame.Record {
	mails := s.Ledger()
	records := make([]frame.Record, len(mails))
	for i, m := range mails {
		records[i] = frame.NewRecord(mailKind, m)
	}
	return records
}
