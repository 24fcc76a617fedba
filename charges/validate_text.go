package charges

import (
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"unicode"
)

const (
	maxDescriptorSuffixLength = 22   // of prefix and suffix together; the account's prefix is not known here
	maxReturnURLLength        = 2048 // what browsers and proxies carry safely
	maxEmailLength            = 254  // RFC 5321, as corrected by erratum 1690 of RFC 3696
	maxEmailLocalLength       = 64
	maxDomainLabelLength      = 63
)

// descriptorSuffixFault has Stripe's rules for statement descriptors, https://docs.stripe.com/get-started/account/statement-descriptors.
func descriptorSuffixFault(suffix string) string {
	switch {
	case !printableASCII(suffix):
		return "must have only printable ASCII characters"
	case len(suffix) > maxDescriptorSuffixLength:
		return fmt.Sprintf("must have at most %d characters", maxDescriptorSuffixLength)
	case strings.ContainsAny(suffix, `<>\'"*`):
		return `must not contain any of < > \ ' " *`
	case !strings.ContainsFunc(suffix, asciiLetter):
		return "must contain at least one letter"
	default:
		return ""
	}
}

// referenceFault wants a name that a person can read, search and type.
func referenceFault(reference string) string {
	switch {
	case strings.ContainsFunc(reference, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "must have only characters that print"
	case strings.TrimSpace(reference) != reference:
		return "must not begin or end with a space"
	default:
		return maxLengthFault(reference, maxReferenceLength)
	}
}

// emailFault wants exactly one bare address that SendGrid can deliver to. A display name, a second address or a line break could make
// another header of the mail. SendGrid does not take addresses outside ASCII; domains have a punycode form.
func emailFault(address string) string {
	if len(address) > maxEmailLength {
		return fmt.Sprintf("must have at most %d characters", maxEmailLength)
	}
	if !printableASCII(address) {
		return "must have only printable ASCII characters (write the domain in punycode)"
	}
	const want = "must be one bare address, such as buyer@example.com"
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Name != "" || parsed.Address != address {
		return want
	}
	at := strings.LastIndexByte(address, '@')
	if at > maxEmailLocalLength {
		return fmt.Sprintf("must have at most %d characters before the @", maxEmailLocalLength)
	}
	if !publicDomain(address[at+1:]) {
		return "must have a full domain name after the @"
	}
	return ""
}

// publicDomain reports whether name is a host name of at least two labels that is not an IP address.
func publicDomain(name string) bool {
	labels := strings.Split(name, ".")
	if len(labels) < 2 {
		return false
	}
	for _, label := range labels {
		if label == "" || len(label) > maxDomainLabelLength || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.ContainsFunc(label, func(r rune) bool { return !asciiLetter(r) && !asciiDigit(r) && r != '-' }) {
			return false
		}
	}
	return strings.ContainsFunc(labels[len(labels)-1], asciiLetter)
}

// Schemes that run or show something in the buyer's browser instead of going somewhere.
var refusedReturnSchemes = []string{"javascript", "data", "vbscript", "blob", "file", "about"}

// returnURLFault takes web addresses and the schemes of mobile apps, as Stripe does.
func returnURLFault(address string) string {
	const want = "must be an absolute URL, such as https://shop.example/paid"
	if len(address) > maxReturnURLLength {
		return fmt.Sprintf("must have at most %d characters", maxReturnURLLength)
	}
	if !printableASCII(address) || strings.ContainsAny(address, ` <>"\`) {
		return "must have its special characters percent-encoded"
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || len(address) == len(u.Scheme)+1 {
		return want
	}
	for _, scheme := range refusedReturnSchemes {
		if u.Scheme == scheme {
			return "must not use this scheme"
		}
	}
	if u.User != nil {
		return "must not contain a user name or password"
	}
	if (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() == "" {
		return want
	}
	return ""
}
