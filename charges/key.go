package charges

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Refusals of an Idempotency-Key header. ErrKeyInvalid comes wrapped with its reason, never with the value.
var (
	ErrKeyMissing = errors.New("the Idempotency-Key header is missing or empty")
	ErrKeyInvalid = errors.New("the Idempotency-Key header is not usable")
)

// uuidTextLength is the length of a UUID in its one accepted spelling, 8-4-4-4-12 hexadecimal digits.
const uuidTextLength = 36

// ParseKey reads the values of a request's Idempotency-Key headers: exactly one, a version 4 or 7 UUID, bare or as a quoted
// string (RFC 8941). Letter case and quotes do not matter: both spellings are one key. Other versions are refused because two
// callers, or one caller twice, can make the same one by accident. The error is [ErrKeyMissing] or wraps [ErrKeyInvalid].
func ParseKey(headerValues []string) (uuid.UUID, error) {
	if len(headerValues) == 0 {
		return uuid.Nil, ErrKeyMissing
	}
	if len(headerValues) > 1 {
		return uuid.Nil, fmt.Errorf("%w: send the header once", ErrKeyInvalid)
	}
	text := strings.Trim(headerValues[0], " \t")
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if strings.TrimSpace(text) == "" {
		return uuid.Nil, ErrKeyMissing
	}
	if len(text) != uuidTextLength { // uuid.Parse takes four spellings; only one has this length
		return uuid.Nil, fmt.Errorf("%w: it must be a UUID of 36 characters, such as 9b2f6c1e-4c5a-4f0e-9a57-1f6b0c0d7e21", ErrKeyInvalid)
	}
	key, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, fmt.Errorf("%w: it must be a UUID of hexadecimal digits and hyphens", ErrKeyInvalid)
	}
	if v := key.Version(); key.Variant() != uuid.RFC4122 || v != 4 && v != 7 {
		return uuid.Nil, fmt.Errorf("%w: it must be a version 4 or version 7 UUID", ErrKeyInvalid)
	}
	return key, nil
}
