package sendgrid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	netmail "net/mail"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sendgrid/rest"
	sendgridgo "github.com/sendgrid/sendgrid-go"
	"github.com/sendgrid/sendgrid-go/helpers/mail"

	"github.com/oncepay/oncepay/workers/transport"
)

const (
	publicAPI = "https://api.sendgrid.com"
	sendPath  = "/v3/mail/send"
)

// Config says how to reach SendGrid and who writes.
type Config struct {
	APIKey  string        // SG....
	BaseURL string        // empty: https://api.sendgrid.com
	From    string        // "Shop <receipts@example.com>", or the bare address
	Timeout time.Duration // of each call; 0: transport.DefaultTimeout
	// Wrap, if not nil, is put around the one RoundTripper that makes every call: tests crash there.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Mailer sends mails from one address. It is safe for concurrent use.
type Mailer struct {
	apiKey, baseURL string
	from            *mail.Email
	client          rest.Client
}

// Mail is one mail to one recipient; [Render] fills in all but To.
type Mail struct {
	To      string // a bare address
	Subject string
	Text    string
	HTML    string
	Key     string // the charge's idempotency key
	Charge  string // the charge's id
}

var apiKeyShape = regexp.MustCompile(`^SG\.[A-Za-z0-9_.-]+$`)

// New makes a mailer; it calls nobody yet. Its errors never hold the key.
func New(c Config) (*Mailer, error) {
	if !apiKeyShape.MatchString(c.APIKey) {
		return nil, errors.New("the SendGrid API key must begin with SG. and have letters, digits, dots, dashes and underscores only")
	}
	if c.BaseURL == "" {
		c.BaseURL = publicAPI
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil || base.RawQuery != "" {
		return nil, errors.New("the address of SendGrid's API must be a plain http or https URL")
	}
	from, err := netmail.ParseAddress(c.From)
	if err != nil {
		return nil, errors.New(`the sender must be an address such as "Shop <receipts@example.com>"`)
	}
	return &Mailer{
		apiKey: c.APIKey, baseURL: strings.TrimSuffix(c.BaseURL, "/"), from: mail.NewEmail(oneLine(from.Name, maxName), from.Address),
		client: rest.Client{HTTPClient: transport.Client(transport.New(transport.Options{Timeout: c.Timeout}), c.Wrap)},
	}, nil
}

// Close closes the connections that wait for a next call.
func (m *Mailer) Close() { m.client.HTTPClient.CloseIdleConnections() }

// Send makes the one call that mails it, and returns SendGrid's id of the message. ctx must carry the time after which the request may not
// leave any more (transport.WithNotAfter).
//
// The error is an [*Error], or wraps transport.ErrNotSent (nothing left this process) or transport.ErrUnknown. It names no mail address.
func (m *Mailer) Send(ctx context.Context, msg Mail) (messageID string, err error) {
	body, err := json.Marshal(m.message(msg))
	if err != nil {
		return "", notSent(err)
	}
	// A request of its own for each mail: the library's client keeps the body in a field that all calls share.
	request := sendgridgo.GetRequest(m.apiKey, sendPath, m.baseURL)
	request.Method, request.Body = rest.Post, body

	ctx, answer := transport.Record(ctx)
	resp, err := m.client.SendWithContext(ctx, request)
	switch {
	case answer.Status == http.StatusAccepted: // also when the body, which says nothing, was cut short
		return transport.Clean(answer.Header.Get("X-Message-Id")), nil
	case errors.Is(err, transport.ErrNotSent):
		return "", notSent(err)
	case err != nil && answer.Status == 0:
		return "", fmt.Errorf("sendgrid: %w: %s", transport.ErrUnknown, reason(err))
	}
	text := ""
	if resp != nil {
		text = resp.Body
	}
	return "", refusal(answer, text)
}

func (m *Mailer) message(msg Mail) *mail.SGMailV3 {
	out := mail.NewV3Mail()
	out.SetFrom(m.from)
	out.Subject = msg.Subject
	// Plain text first: SendGrid refuses another order.
	out.AddContent(mail.NewContent("text/plain", msg.Text), mail.NewContent("text/html", msg.HTML))
	p := mail.NewPersonalization()
	p.AddTos(mail.NewEmail("", msg.To))
	p.SetCustomArg("oncepay_key", msg.Key)
	p.SetCustomArg("oncepay_charge", msg.Charge)
	out.AddPersonalizations(p)
	return out
}

func notSent(why error) error {
	return fmt.Errorf("sendgrid: %w: %s", transport.ErrNotSent, reason(why))
}

// reason words the error of a call, which quotes the answer where that is not HTTP.
func reason(err error) string { return transport.Clean(withoutAddresses(transport.Reason(err))) }
