package stripetest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// params reads form parameters by name and type. The first thing wrong sticks, and finish reports it, or
// else the first parameter that nothing has read.
type params struct {
	values url.Values
	read   map[string]bool
	err    *apiError
}

func newParams(values url.Values) *params { return &params{values: values, read: map[string]bool{}} }

// formParams decodes the body of a write.
func formParams(r *frame.Request) *params {
	if len(r.Body) > 0 && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		p := newParams(nil)
		p.fail("", "", "The body must be application/x-www-form-urlencoded.")
		return p
	}
	values, err := url.ParseQuery(string(r.Body))
	p := newParams(values)
	if err != nil {
		p.fail("", "", "The body is not a valid form: "+err.Error()+".")
	}
	return p
}

func (p *params) fail(code, param, message string) {
	if p.err == nil {
		p.err = invalid(400, code, param, message)
	}
}

// raw returns the last value of name, as Stripe takes it.
func (p *params) raw(name string) (string, bool) {
	p.read[name] = true
	values := p.values[name]
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

// text is a string of at most limit characters; absent and empty are the same.
func (p *params) text(name string, limit int) string {
	v, _ := p.raw(name)
	if utf8.RuneCountInString(v) > limit {
		p.fail("", name, fmt.Sprintf("Invalid %s: at most %d characters.", name, limit))
	}
	return v
}

func (p *params) oneOf(name string, allowed ...string) string {
	v, ok := p.raw(name)
	if ok && !slices.Contains(allowed, v) {
		p.fail("", name, fmt.Sprintf("Invalid %s: must be one of %s.", name, strings.Join(allowed, ", ")))
	}
	return v
}

// boolean is false when absent.
func (p *params) boolean(name string) bool { return p.oneOf(name, "true", "false") == "true" }

// integer reports whether the parameter was given.
func (p *params) integer(name string) (int64, bool) {
	v, ok := p.raw(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		p.fail("parameter_invalid_integer", name, fmt.Sprintf("Invalid integer for %s.", name))
	}
	return n, true
}

// list reads name[0], name[1], ... and name[], in order of their names.
func (p *params) list(name string) []string {
	var items []string
	for _, full := range p.under(name) {
		p.read[full] = true
		items = append(items, p.values[full]...)
	}
	return items
}

// Limits of metadata: https://docs.stripe.com/api/metadata
const (
	maxMetadata      = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// metadata never returns nil. An empty value removes its key at Stripe, so it is left out.
func (p *params) metadata() map[string]string {
	m := map[string]string{}
	for _, full := range p.under("metadata") {
		key := strings.TrimSuffix(strings.TrimPrefix(full, "metadata["), "]")
		value, _ := p.raw(full)
		switch {
		case key == "" || strings.ContainsAny(key, "[]"):
			p.fail("", full, "Metadata keys may not be empty or hold square brackets.")
		case utf8.RuneCountInString(key) > maxMetadataKey:
			p.fail("", "metadata", fmt.Sprintf("Metadata keys have at most %d characters.", maxMetadataKey))
		case utf8.RuneCountInString(value) > maxMetadataValue:
			p.fail("", full, fmt.Sprintf("Metadata values have at most %d characters.", maxMetadataValue))
		case value != "":
			m[key] = value
		}
	}
	if len(m) > maxMetadata {
		p.fail("", "metadata", fmt.Sprintf("Metadata has at most %d keys.", maxMetadata))
	}
	return m
}

// under lists the parameters of the form name[...], sorted.
func (p *params) under(name string) []string {
	var names []string
	for full := range p.values {
		if strings.HasPrefix(full, name+"[") && strings.HasSuffix(full, "]") {
			names = append(names, full)
		}
	}
	slices.Sort(names)
	return names
}

// finish must be asked after the last parameter was read and before anything is done.
func (p *params) finish() *apiError {
	if p.err != nil {
		return p.err
	}
	var unknown []string
	for name := range p.values {
		if !p.read[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return invalid(400, "parameter_unknown", unknown[0], "Unknown to Stripe or to the sandbox: "+strings.Join(unknown, ", ")+".")
}
