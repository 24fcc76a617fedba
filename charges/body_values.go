package charges

import (
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The readers below are for a [bodyMember]: each takes one type of value, and records why another one is of no use.

func readAmount(to *int64) func(*bodyReader, string) error {
	return readInteger(to, "must be a whole number in minor units, such as 1099: no quotes, fraction, exponent or negative zero")
}

func readCount(to *int64) func(*bodyReader, string) error {
	return readInteger(to, "must be a whole number, such as 3: no quotes, fraction, exponent or negative zero")
}

func readInteger(to *int64, want string) func(*bodyReader, string) error {
	return func(b *bodyReader, field string) error {
		if b.dec.PeekKind() != jsontext.KindNumber {
			return b.refuse(field, want)
		}
		value, err := b.dec.ReadValue()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(value), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			b.fault(field, "is out of range")
		case err != nil || strconv.FormatInt(n, 10) != string(value): // ParseInt reads -0 as 0
			b.fault(field, want)
		default:
			*to = n
		}
		return nil
	}
}

func readBool(to *bool) func(*bodyReader, string) error {
	return func(b *bodyReader, field string) error {
		switch b.dec.PeekKind() {
		case jsontext.KindTrue, jsontext.KindFalse:
			token, err := b.dec.ReadToken()
			if err != nil {
				return err
			}
			*to = token.Bool()
			return nil
		default:
			return b.refuse(field, "must be true or false")
		}
	}
}

func readText(to *string) func(*bodyReader, string) error {
	return func(b *bodyReader, field string) error {
		if b.dec.PeekKind() != jsontext.KindString {
			return b.refuse(field, "must be a string")
		}
		token, err := b.dec.ReadToken()
		if err != nil {
			return err
		}
		s := token.String()
		if s == "" {
			b.fault(field, "must not be empty")
		} else if reason := storableTextFault(s); reason != "" {
			b.fault(field, reason)
		}
		*to = s
		return nil
	}
}

// readMetadata stops at one key too many, so that a huge map costs no memory.
func readMetadata(to *map[string]string) func(*bodyReader, string) error {
	return func(b *bodyReader, field string) error {
		if b.dec.PeekKind() != jsontext.KindBeginObject {
			return b.refuse(field, "must be an object of strings")
		}
		if _, err := b.dec.ReadToken(); err != nil {
			return err
		}
		pairs := make(map[string]string)
		for b.dec.PeekKind() != jsontext.KindEndObject {
			name, err := b.dec.ReadToken()
			if err != nil {
				return err
			}
			key, value := name.String(), ""
			if len(pairs) == maxMetadataKeys {
				b.fault(field, tooManyMetadataKeys)
				return errEnoughFaults
			}
			keyField := metadataField(key)
			if reason := storableTextFault(key); reason != "" {
				b.fault(keyField, "must not have the character U+0000 in its key")
			}
			if err := readText(&value)(b, keyField); err != nil {
				return err
			}
			if len(b.faults) >= maxBodyFaults {
				return errEnoughFaults
			}
			pairs[key] = value
		}
		*to = pairs
		_, err := b.dec.ReadToken()
		return err
	}
}

// strictRFC3339 refuses what time.Parse lets pass: a one-digit hour and a comma before the fraction.
var strictRFC3339 = regexp.MustCompile(`^[0-9-]{10}T[0-9:]{8}(\.[0-9]{1,9})?(Z|[+-][0-9:]{5})$`)

func readTime(to **time.Time) func(*bodyReader, string) error {
	return func(b *bodyReader, field string) error {
		before, text := len(b.faults), ""
		if err := readText(&text)(b, field); err != nil || len(b.faults) > before {
			return err
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || !strictRFC3339.MatchString(text) {
			b.fault(field, "must be an RFC 3339 time with a zone, such as 2030-01-31T12:00:00Z")
			return nil
		}
		if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 { // the zone can carry it over the edge
			b.fault(field, "is out of range")
			return nil
		}
		*to = &t
		return nil
	}
}
