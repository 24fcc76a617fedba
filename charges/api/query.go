package api

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/oncepay/oncepay/charges"
)

// maxReference is the longest reference that a charge can have.
const maxReference = 200

// maxFaults bounds how much is said about a query that is wrong all over.
const maxFaults = 20

// presentable is a parameter's name that may be repeated in an answer.
var presentable = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)

// parseQuery refuses what the operation does not know: a filter that was mistyped must not list everything.
func (c *call) parseQuery() error {
	params, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return invalid("query", "must be made of name=value pairs, percent-encoded")
	}
	var faults []charges.FieldError
	for name, values := range params {
		known := slices.ContainsFunc(c.operation.query, func(p *huma.Param) bool { return p.Name == name })
		switch {
		case !known && !presentable.MatchString(name):
			faults = append(faults, charges.FieldError{Field: "query", Reason: "has a parameter that is not known here"})
		case !known:
			faults = append(faults, charges.FieldError{Field: name, Reason: "is not a parameter of this operation"})
		case len(values) > 1:
			faults = append(faults, charges.FieldError{Field: name, Reason: "must be given once"})
		}
	}
	if len(faults) == 0 {
		c.params = params
		return nil
	}
	slices.SortFunc(faults, func(a, b charges.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return &charges.InvalidError{Fields: faults[:min(len(faults), maxFaults)]}
}

// limit is the page size asked for.
func (c *call) limit() (int, error) {
	if !c.params.Has("limit") {
		return defaultLimit, nil
	}
	text := c.params.Get("limit")
	n, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(n) != text || n < 1 || n > maxLimit {
		return 0, invalid("limit", "must be a whole number from 1 to "+strconv.Itoa(maxLimit))
	}
	return n, nil
}

func (c *call) status() (charges.Status, error) {
	status := charges.Status(c.params.Get("status"))
	if c.params.Has("status") && !slices.Contains(charges.Statuses, status) {
		return "", invalid("status", "must be a status of a charge")
	}
	return status, nil
}

// reference refuses what no charge can have; a part of it PostgreSQL would refuse as text.
func (c *call) reference() (string, error) {
	text := c.params.Get("reference")
	length := utf8.RuneCountInString(text)
	if c.params.Has("reference") && (length < 1 || length > maxReference || !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable)) {
		return "", invalid("reference", "must have 1 to 200 characters that print")
	}
	return text, nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func invalid(field, reason string) error {
	return &charges.InvalidError{Fields: []charges.FieldError{{Field: field, Reason: reason}}}
}
