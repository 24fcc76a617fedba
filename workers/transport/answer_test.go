package transport

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var discardLog = log.New(io.Discard, "", 0)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 31, 12, 0, 0, 0, time.UTC) // not this machine's time
	date := now.Format(http.TimeFormat)
	for _, tt := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "30"}, 30 * time.Second},
		{map[string]string{"Retry-After": "-1"}, 0},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After": "99999999"}, time.Hour},
		{map[string]string{"Retry-After": "99999999999999999999"}, 0},
		{map[string]string{"Retry-After": now.Add(90 * time.Second).Format(http.TimeFormat)}, 90 * time.Second},
		{map[string]string{"Retry-After": now.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		{map[string]string{"X-RateLimit-Reset": fmt.Sprint(now.Unix() + 60)}, time.Minute},
		{map[string]string{"X-RateLimit-Reset": fmt.Sprint(now.Unix() - 60)}, 0},
		{map[string]string{"X-RateLimit-Reset": "1099511627775"}, time.Hour},
		{map[string]string{"X-RateLimit-Reset": "9223372036854775807"}, 0},
		{map[string]string{"Retry-After": "5", "X-RateLimit-Reset": fmt.Sprint(now.Unix() + 60)}, 5 * time.Second},
	} {
		a := Answer{Header: http.Header{"Date": {date}}}
		for name, value := range tt.header {
			a.Header.Set(name, value)
		}
		if got := a.RetryAfter(); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.header, got, tt.want)
		}
	}
	if got := new(Answer).RetryAfter(); got != 0 {
		t.Errorf("no answer: got %s", got)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                      "",
		"plain – text":                          "plain – text",
		"a\x00b\r\nc\td\x1be\u2028f\u0085g":     "ab  c d e f g",
		"bad \xff\xfe utf-8":                    "bad  utf-8",
		"pi_1_secret_Abc9 tail":                 "[removed] tail",
		`"client_secret":"pi_1_se` + "cret_x\"": `"client_secret":"[removed]"`,
		"pi_1_sec\x00ret_x":                     "[removed]",
		"key sk_test_shop and rk_live_9a":       "key [removed] and [removed]",
		"risk_test_x is a word":                 "risk_test_x is a word",
		"whsec_abc SG.a-b.c_d":                  "[removed] [removed]",
		"Authorization: Bearer abc.def":         "Authorization: [removed]",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	long := Clean(strings.Repeat("é", 600))
	if utf8.RuneCountInString(long) != 500 || !utf8.ValidString(long) {
		t.Errorf("kept %d characters", utf8.RuneCountInString(long))
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	err := &url.Error{Op: "Get", URL: "https://x.example/?customer=cus_1", Err: fmt.Errorf("%w: %w", ErrNotSent, errors.New("dial failed"))}
	if got := Reason(err); got != "dial failed" {
		t.Errorf("got %q", got)
	}
}
