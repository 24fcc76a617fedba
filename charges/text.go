package charges

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLabelLength bounds how much of a name that the caller made up comes back in an error.
const maxLabelLength = 60

// memberLabel makes a caller's member name safe to show: cut, never empty, and without anything that does not print.
func memberLabel(name string) string {
	if name == "" {
		return `""`
	}
	cut := false
	if utf8.RuneCountInString(name) > maxLabelLength {
		name, cut = string([]rune(name)[:maxLabelLength]), true
	}
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name)
	if cut {
		name += "…"
	}
	return name
}

// metadataField names one metadata key in an error.
func metadataField(key string) string {
	return "metadata." + memberLabel(key)
}

// storableTextFault says why PostgreSQL would refuse s although it is legal JSON.
func storableTextFault(s string) string {
	if strings.ContainsRune(s, 0) {
		return "must not contain the character U+0000"
	}
	return ""
}

// lowerASCII lowers A to Z only. Unicode's mapping would turn the Kelvin sign into k and so accept it in a currency code.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// printableASCII reports whether s holds only the characters from space to tilde.
func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func asciiLetter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

func asciiDigit(r rune) bool {
	return '0' <= r && r <= '9'
}
