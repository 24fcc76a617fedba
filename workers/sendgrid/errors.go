package sendgrid

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncepay/oncepay/workers/transport"
)

// Error is SendGrid's refusal of a mail. It is SendGrid's own answer where the status is 500 or above, but for 503: a
// gateway's page of that kind is an unknown outcome instead.
type Error struct {
	HTTPStatus int           // 400 or above
	Message    string        // SendGrid's words, cleaned; may be empty
	RetryAfter time.Duration // what SendGrid asks for, at most an hour; 0: nothing
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("sendgrid: HTTP %d", e.HTTPStatus)
	}
	return fmt.Sprintf("sendgrid: HTTP %d: %s", e.HTTPStatus, e.Message)
}

// refusal sorts an answer other than 202. Nothing below 400 is a refusal: whoever answered 200 may have passed the mail on.
func refusal(answer *transport.Answer, body string) error {
	message, own := errorMessage(body)
	status := answer.Status
	if status < 400 || status >= 500 && status != http.StatusServiceUnavailable && !own {
		return fmt.Errorf("sendgrid: %w: HTTP %d is not an answer that SendGrid gives", transport.ErrUnknown, status)
	}
	return &Error{HTTPStatus: status, Message: message, RetryAfter: answer.RetryAfter()}
}

// errorMessage reads SendGrid's error body:
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
		parts[i] = e.Message
		if e.Field != "" {
			parts[i] += " [" + e.Field + "]"
		}
	}
	return transport.Clean(strings.Join(parts, "; ")), true
}
