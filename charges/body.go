package charges

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// wholeBody is the field of a fault that no single member has.
const wholeBody = "body"

// maxBodyFaults ends the reading of a body that is wrong all over.
const maxBodyFaults = 20

// errEnoughFaults ends the reading of a body after a fault that is already recorded.
var errEnoughFaults = errors.New("enough faults")

// bodyMember is one member that a request body may have. read consumes its value, which is not null, and records a fault
// when the value is of no use; it returns an error only when the body cannot be read on.
type bodyMember struct {
	name     string
	required bool
	read     func(b *bodyReader, field string) error
}

// bodyReader walks over one JSON object. The decoder below refuses duplicate names, bad UTF-8 and lone surrogates by itself.
type bodyReader struct {
	dec    *jsontext.Decoder
	faults []FieldError
}

// readMembers reads a body that must be one object of the given members. complete says that it was read to its end, so
// that whatever is not among the faults was understood.
func readMembers(body []byte, members []bodyMember) (faults []FieldError, complete bool) {
	switch {
	case len(body) > MaxRequestBytes:
		return []FieldError{{wholeBody, fmt.Sprintf("must have at most %d bytes", MaxRequestBytes)}}, false
	case len(bytes.TrimLeft(body, " \t\r\n")) == 0:
		return []FieldError{{wholeBody, "must not be empty"}}, false
	case bytes.HasPrefix(body, []byte("\ufeff")):
		return []FieldError{{wholeBody, "must not begin with a byte order mark"}}, false
	}
	b := &bodyReader{dec: jsontext.NewDecoder(bytes.NewReader(body))}
	last, err := b.object(members)
	switch {
	case err == nil:
		return b.faults, true
	case errors.Is(err, errEnoughFaults):
		return b.faults, false
	default:
		return append(b.faults, syntaxFault(err, body, last)), false
	}
}

// lastMember is the member read last and the offset at which its value ended.
type lastMember struct {
	name string
	end  int64
}

func (b *bodyReader) object(members []bodyMember) (last lastMember, err error) {
	opening, err := b.dec.ReadToken()
	if err != nil {
		return last, err
	}
	if opening.Kind() != jsontext.KindBeginObject {
		b.fault(wholeBody, "must be a JSON object")
		return last, errEnoughFaults
	}
	if last, err = b.rest("", members); err != nil {
		return last, err
	}
	if _, err := b.dec.ReadToken(); !errors.Is(err, io.EOF) {
		b.fault(wholeBody, "must end after the JSON object")
		return last, errEnoughFaults
	}
	return last, nil
}

// rest reads an object whose brace was read, to its end. The fields of one inside the body have a prefix.
func (b *bodyReader) rest(prefix string, members []bodyMember) (last lastMember, err error) {
	seen := make(map[string]bool, len(members))
	for b.dec.PeekKind() != jsontext.KindEndObject {
		token, err := b.dec.ReadToken()
		if err != nil {
			return last, err
		}
		name := token.String()
		seen[name] = true
		if err := b.member(prefix, members, name); err != nil {
			return last, err
		}
		last = lastMember{name, b.dec.InputOffset()}
		if len(b.faults) >= maxBodyFaults {
			return last, errEnoughFaults
		}
	}
	if _, err := b.dec.ReadToken(); err != nil {
		return last, err
	}
	for _, m := range members {
		if m.required && !seen[m.name] {
			b.fault(prefix+m.name, "is required")
		}
	}
	return last, nil
}

func (b *bodyReader) member(prefix string, members []bodyMember, name string) error {
	for _, m := range members {
		switch {
		case m.name == name && b.dec.PeekKind() == jsontext.KindNull:
			if m.required {
				return b.refuse(prefix+name, "must not be null")
			}
			return b.dec.SkipValue()
		case m.name == name:
			return m.read(b, prefix+name)
		case strings.EqualFold(m.name, name):
			return b.refuse(prefix+memberLabel(name), "is not a member; did you mean "+m.name+"?")
		}
	}
	return b.refuse(prefix+memberLabel(name), "is not a member of this request")
}

func (b *bodyReader) fault(field, reason string) {
	b.faults = append(b.faults, FieldError{field, reason})
}

// refuse steps over the value of field and records why it is of no use. Where the value is broken JSON, that alone is told.
func (b *bodyReader) refuse(field, reason string) error {
	if err := b.dec.SkipValue(); err != nil {
		return err
	}
	b.fault(field, reason)
	return nil
}

// syntaxFault names the member in which the JSON is broken. It words its own reasons, because the decoder's quote the body.
func syntaxFault(err error, body []byte, last lastMember) FieldError {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
		return FieldError{wholeBody, "ends before the JSON object is complete"}
	}
	field := faultyField(syntax.JSONPointer)
	if field == wholeBody && last.name != "" && syntax.ByteOffset == last.end {
		field = memberLabel(last.name) // as in 01099: the number ends after its 0
	}
	rest := body[min(int(syntax.ByteOffset), len(body)):]
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return FieldError{field, "must not appear twice"}
	case bytes.HasPrefix(rest, []byte(`\`)):
		return FieldError{field, "must not contain a lone surrogate or a malformed escape"}
	case !utf8.Valid(body):
		return FieldError{field, "must be valid UTF-8"}
	default:
		return FieldError{field, "must be valid JSON"}
	}
}

// faultyField turns a JSON Pointer into a field name.
func faultyField(pointer jsontext.Pointer) string {
	names := slices.Collect(pointer.Tokens())
	switch {
	case len(names) == 0:
		return wholeBody
	case len(names) > 1 && names[0] == "metadata":
		return metadataField(names[1])
	case len(names) > 1 && names[0] == "items":
		return itemField(names[1:])
	default:
		return memberLabel(names[0])
	}
}

// itemField names an element of items, or a member of one. What the caller has made of items may be no list, and nest deeper than any request.
func itemField(names []string) string {
	n, err := strconv.ParseUint(names[0], 10, 32)
	switch {
	case err != nil:
		return "items"
	case len(names) == 1:
		return fmt.Sprintf("items[%d]", n)
	default:
		return fmt.Sprintf("items[%d].%s", n, memberLabel(names[1]))
	}
}
