package transport

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const (
	maxText = 500      // how much of a provider's text is kept, in characters
	maxRead = 16 << 10 // how much of it is looked at, in bytes
)

// secrets are what must not be kept even where a provider repeats it: client secrets, API keys, webhook secrets.
var secrets = regexp.MustCompile(`\w*_secret_\w*|\b[sr]k_(test|live)_\w+|\bwhsec_\w+|\bSG\.[\w.-]+|(?i:\bbearer\s+\S+)`)

// Clean makes a provider's text fit to be stored, logged and shown: valid UTF-8 on one line without control characters
// or anything that looks like a secret, cut to 500 characters.
func Clean(s string) string {
	s = s[:min(len(s), maxRead)]
	s = strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return -1
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(secrets.ReplaceAllString(s, "[removed]"))
	if runes := []rune(s); len(runes) > maxText {
		s = string(runes[:maxText])
	}
	return s
}

// Reason words the error of a call, cleaned: without the request's address, which may name people, and without
// repeating [ErrNotSent].
func Reason(err error) string {
	if call := (*url.Error)(nil); errors.As(err, &call) {
		err = call.Err
	}
	return Clean(strings.TrimPrefix(err.Error(), ErrNotSent.Error()+": "))
}
