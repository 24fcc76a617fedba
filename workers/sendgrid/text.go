package sendgrid

import (
	"regexp"
	"strings"
	"unicode"
)

// oneLine makes a caller's text safe to show on one line: no line breaks or control characters, no marks that
// reorder what is around them, runs of space as one, cut to at most limit characters.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > limit {
		s = strings.TrimSpace(string(runes[:limit-1])) + "…"
	}
	return s
}

// mailAddress is wide rather than exact: all that hangs together around an @, also one in a link.
var mailAddress = regexp.MustCompile(`[^\s"<>(),;]*(?:@|%40)[^\s"<>(),;]*`)

// withoutAddresses takes mail addresses out of a text that is to be logged or stored. It must see the whole text: the rest of an
// address that was cut off is not known as one.
func withoutAddresses(s string) string { return mailAddress.ReplaceAllString(s, "[removed]") }
