package api

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
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
	chargeCursor    byte = 1 // 16 bytes of UUID
	eventCursor     byte = 2 // 8 bytes, big-endian
	inventoryCursor byte = 3 // the SKU
)

var cursorText = base64.RawURLEncoding.Strict()

func encodeCursor(form byte, id []byte) string {
	return cursorText.EncodeToString(append([]byte{form}, id...))
}

// decodeCursor returns the id of a cursor of this form, where it can be one; nil for one that was left out.
func (c *call) decodeCursor(form byte, isID func(id []byte) bool) ([]byte, error) {
	if !c.params.Has("cursor") {
		return nil, nil
	}
	raw, err := cursorText.DecodeString(c.params.Get("cursor"))
	if err != nil || len(raw) < 1 || raw[0] != form || !isID(raw[1:]) {
		return nil, invalid("cursor", "must be the next_cursor of an earlier page of this list")
	}
	return raw[1:], nil
}

func ofLength(length int) func(id []byte) bool {
	return func(id []byte) bool { return len(id) == length }
}

func encodeChargeCursor(id uuid.UUID) string { return encodeCursor(chargeCursor, id[:]) }

func (c *call) chargeCursor() (after uuid.UUID, err error) {
	id, err := c.decodeCursor(chargeCursor, ofLength(len(after)))
	copy(after[:], id)
	return after, err
}

func encodeEventCursor(id int64) string {
	return encodeCursor(eventCursor, binary.BigEndian.AppendUint64(nil, uint64(id)))
}

func (c *call) eventCursor() (after int64, err error) {
	id, err := c.decodeCursor(eventCursor, ofLength(8))
	if id == nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(id)), nil
}

func encodeInventoryCursor(sku string) string { return encodeCursor(inventoryCursor, []byte(sku)) }

func (c *call) inventoryCursor() (after string, err error) {
	id, err := c.decodeCursor(inventoryCursor, func(id []byte) bool { return charges.SKUFault(string(id)) == "" })
	return string(id), err
}
