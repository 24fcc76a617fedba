package sendgridtest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"
)

// Limits of one request: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/limitations
const (
	maxPersonalizations = 1000
	maxRecipients       = 1000
	maxCustomArgs       = 10_000 // bytes
)

// message is the part of a mail's body that matters here; other members are let through.
type message struct {
	Personalizations []struct {
		To         []address         `json:"to"`
		CC         []address         `json:"cc"`
		BCC        []address         `json:"bcc"`
		Subject    string            `json:"subject"`
		CustomArgs map[string]string `json:"custom_args"`
	} `json:"personalizations"`
	From       *address          `json:"from"`
	Subject    string            `json:"subject"`
	CustomArgs map[string]string `json:"custom_args"`
	Content    []struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	} `json:"content"`
}

type address struct {
	Email string `json:"email"`
	Name  string `json:"name"`
}

// valid takes a bare address only, as SendGrid does.
func (a address) valid() bool {
	parsed, err := mail.ParseAddress(a.Email)
	return err == nil && parsed.Name == "" && parsed.Address == a.Email
}

// read turns a request's body into mails, or says all that is wrong with it. Exactly one result is empty.
func read(body []byte) ([]Mail, []refusal) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, []refusal{{Message: "Bad Request: the body is not the JSON of a mail"}}
	}
	if refusals := m.check(); len(refusals) > 0 {
		return nil, refusals
	}
	mails := make([]Mail, len(m.Personalizations))
	for i, p := range m.Personalizations {
		args := map[string]string{}
		maps.Copy(args, m.CustomArgs)
		maps.Copy(args, p.CustomArgs)
		mails[i] = Mail{To: joined(p.To), From: m.From.Email, Subject: m.Subject, CustomArgs: args, IdempotencyKey: args[keyArg]}
		for _, a := range slices.Concat(p.To, p.CC, p.BCC) {
			mails[i].Recipients = append(mails[i].Recipients, a.Email)
		}
		if p.Subject != "" {
			mails[i].Subject = p.Subject
		}
		for _, c := range m.Content {
			switch c.Type {
			case "text/plain":
				mails[i].Text = c.Value
			case "text/html":
				mails[i].HTML = c.Value
			}
		}
	}
	return mails, nil
}

func (m *message) check() []refusal {
	var refusals []refusal
	wrong := func(field, format string, args ...any) {
		refusals = append(refusals, refusal{Message: fmt.Sprintf(format, args...), Field: &field})
	}
	if n := len(m.Personalizations); n < 1 || n > maxPersonalizations {
		wrong("personalizations", "between 1 and %d personalizations are needed", maxPersonalizations)
	}
	if m.From == nil || !m.From.valid() {
		wrong("from.email", "the from address is missing or not valid")
	}
	for i, p := range m.Personalizations {
		at := fmt.Sprintf("personalizations.%d", i)
		if len(p.To) < 1 || len(p.To)+len(p.CC)+len(p.BCC) > maxRecipients {
			wrong(at+".to", "at least one recipient is needed, and at most %d in all", maxRecipients)
		}
		seen := map[string]bool{}
		for _, a := range append(append(append([]address{}, p.To...), p.CC...), p.BCC...) {
			if !a.valid() {
				wrong(at+".to", "an address is not valid")
			} else if lower := strings.ToLower(a.Email); seen[lower] {
				wrong(at+".to", "an address appears more than once in to, cc and bcc")
			} else {
				seen[lower] = true
			}
		}
		if m.Subject == "" && p.Subject == "" {
			wrong("subject", "a subject of at least one character is needed")
		}
		if size := argsSize(m.CustomArgs) + argsSize(p.CustomArgs); size > maxCustomArgs {
			wrong("custom_args", "custom arguments have at most %d bytes", maxCustomArgs)
		}
	}
	if len(m.Content) == 0 {
		wrong("content", "at least one content is needed")
	}
	for i, c := range m.Content {
		if c.Type == "" || c.Value == "" {
			wrong(fmt.Sprintf("content.%d", i), "type and value of at least one character are needed")
		}
		if c.Type == "text/plain" && i != 0 {
			wrong(fmt.Sprintf("content.%d.type", i), "text/plain must come first")
		}
	}
	return refusals
}

func argsSize(args map[string]string) int {
	n := 0
	for k, v := range args {
		n += len(k) + len(v)
	}
	return n
}

func joined(to []address) string {
	emails := make([]string, len(to))
	for i, a := range to {
		emails[i] = a.Email
	}
	return strings.Join(emails, ", ")
}

func newID() string { return rand.Text() }
