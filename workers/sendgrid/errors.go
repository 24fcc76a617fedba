package sendgrid

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncepay/oncepay/workers/transport"
)

// Error is the refusal of a mail: SendGrid's own answer or, if Foreign, a 4xx of whoever stands between us and SendGrid. A 500 of
// SendGrid's own is one too, although it does not tell what became of the mail.
type Error struct {
	HTTPStatus int           // 400 or above, and never 408
	Foreign    bool          // the body is not SendGrid's: a proxy's page, or the API's address is wrong
	Message    string        // SendGrid's words, cleaned and without mail addresses; empty if Foreign
	RetryAfter time.Duration // what SendGrid asks for, at most an hour; 0: nothing
}

func (e *Error) Error() string {
	if e.Foreign {
		return fmt.Sprintf("sendgrid: HTTP %d, which is not SendGrid's own answer", e.HTTPStatus)
	}
	return fmt.Sprintf("sendgrid: HTTP %d: %s", e.HTTPStatus, e.Message)
}

// refusal sorts an answer other than 202. Whoever answered below 400 may have passed the mail on; so may a proxy that answers 5xx
// in its own words, 503 included, when it lost SendGrid's answer. Whoever answers 408 stopped waiting for a request that may be read yet.
func refusal(answer *transport.Answer, body string) error {
	message, own := errorMessage(body)
	status := answer.Status
	if status < 400 || status == http.StatusRequestTimeout || status >= 500 && !own {
		return fmt.Errorf("sendgrid: %w: HTTP %d does not tell whether SendGrid has the mail", transport.ErrUnknown, status)
	}
	return &Error{HTTPStatus: status, Foreign: !own, Message: message, RetryAfter: answer.RetryAfter()}
}

// errorMessage reads SendGrid's error body, in which each error has a message:
// https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/responses
func errorMessage(body string) (message string, own bool) {
	var b struct {
		Errors []struct {
			Message string `json:"message"`
			Field   string `json:"field"`
		} `json:"errors"`
	}
	if json.Unmarshal([]byte(body), &b) != nil || len(b.Errors) == 0 {
		return "", false
	}
	parts := make([]string, len(b.Errors))
	for i, e := range b.Errors {
		if e.Message == "" {
			return "", false
		}
		parts[i] = e.Message
		if e.Field != "" {
			parts[i] += " [" + e.Field + "]"
		}
	}
	return transport.Clean(withoutAddresses(strings.Join(parts, "; "))), true
}
