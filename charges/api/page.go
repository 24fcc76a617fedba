package api

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/google/uuid"
)

// page is one page of a list.
type page[T any] struct {
	Data       []T     `json:"data" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"Asks for the page after this one; null: there is none."`
}

// newPage makes a page of what was read; cursor names its last element.
func newPage[T any](data []T, more bool, cursor func(last T) string) page[T] {
	p := page[T]{Data: data}
	if data == nil {
		p.Data = []T{}
	}
	if more {
		next := cursor(data[len(data)-1])
		p.NextCursor = &next
	}
	return p
}

// A cursor is the id of the last element seen, behind a byte that tells its form. It grants nothing: whoever makes one up
// sees the charges that it may see anyway.
const (
	chargeCursor byte = 1 // 16 bytes of UUID
	eventCursor  byte = 2 // 8 bytes, big-endian
)

var cursorText = base64.RawURLEncoding.Strict()

func encodeCursor(form byte, id []byte) string {
	return cursorText.EncodeToString(append([]byte{form}, id...))
}

// decodeCursor returns the id of a cursor of this form and length; nil for one that was left out.
func (c *call) decodeCursor(form byte, length int) ([]byte, error) {
	if !c.params.Has("cursor") {
		return nil, nil
	}
	raw, err := cursorText.DecodeString(c.params.Get("cursor"))
	if err != nil || len(raw) != 1+length || raw[0] != form {
		return nil, invalid("cursor", "must be the next_cursor of an earlier page of this list")
	}
	return raw[1:], nil
}

func encodeChargeCursor(id uuid.UUID) string { return encodeCursor(chargeCursor, id[:]) }

func (c *call) chargeCursor() (after uuid.UUID, err error) {
	id, err := c.decodeCursor(chargeCursor, len(after))
	copy(after[:], id)
	return after, err
}

func encodeEventCursor(id int64) string {
	return encodeCursor(eventCursor, binary.BigEndian.AppendUint64(nil, uint64(id)))
}

func (c *call) eventCursor() (after int64, err error) {
	id, err := c.decodeCursor(eventCursor, 8)
	if id == nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(id)), nil
}
