package charges

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Item is so many pieces of one SKU.
type Item struct {
	SKU      string `json:"sku" pattern:"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$" example:"tee-blue-m" doc:"The shop's own name of what is sold."`
	Quantity int64  `json:"quantity" minimum:"1" maximum:"1000000" example:"1" doc:"How many of it."`
}

// Bounds of what one charge sells. With each of its SKUs' rows locked while it is accepted, fewer are better.
const (
	maxItems        = 50
	maxItemQuantity = 1_000_000
)

var tooManyItems = fmt.Sprintf("must have at most %d elements", maxItems)

// skuShape is what can stand in a path as it is, in any letter case and for good.
var skuShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// SKUFault says what is wrong with the name of a SKU; empty: nothing. The reason follows the field's name in a sentence.
func SKUFault(sku string) string {
	if !skuShape.MatchString(sku) {
		return "must have 1 to 64 letters, digits or any of . _ : - and begin with a letter or digit"
	}
	return ""
}

// sortedItems puts items in the order of their SKUs: the order in which a request names them means nothing.
func sortedItems(items []Item) []Item {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.SKU, b.SKU) })
	return items
}

// itemFaults takes a SKU that stands twice for a mistake of the shop's cart, and not for a sum.
func itemFaults(items []Item) (faults []FieldError) {
	if len(items) > maxItems {
		return []FieldError{{"items", tooManyItems}}
	}
	seen := map[string]bool{}
	for i, item := range items {
		field := fmt.Sprintf("items[%d]", i)
		if reason := SKUFault(item.SKU); reason != "" {
			faults = append(faults, FieldError{field + ".sku", reason})
		} else if seen[item.SKU] {
			faults = append(faults, FieldError{field + ".sku", "must not be that of another item"})
		}
		seen[item.SKU] = true
		if item.Quantity < 1 || item.Quantity > maxItemQuantity {
			faults = append(faults, FieldError{field + ".quantity", fmt.Sprintf("must be from 1 to %d", maxItemQuantity)})
		}
	}
	return faults
}

// readItems stops at one element too many, so that a huge list costs no memory.
func readItems(to *[]Item) func(*bodyReader, string) error {
	return func(b *bodyReader, field string) error {
		if b.dec.PeekKind() != jsontext.KindBeginArray {
			return b.refuse(field, "must be an array of objects, such as [{\"sku\": \"tee-blue-m\", \"quantity\": 1}]")
		}
		if _, err := b.dec.ReadToken(); err != nil {
			return err
		}
		items, before := []Item{}, len(b.faults)
		for b.dec.PeekKind() != jsontext.KindEndArray {
			if len(items) == maxItems {
				b.fault(field, tooManyItems)
				return errEnoughFaults
			}
			var item Item
			if err := b.item(&item, fmt.Sprintf("%s[%d]", field, len(items))); err != nil {
				return err
			}
			if len(b.faults) >= maxBodyFaults {
				return errEnoughFaults
			}
			items = append(items, item)
		}
		if _, err := b.dec.ReadToken(); err != nil {
			return err
		}
		if len(items) == 0 {
			b.fault(field, "must not be empty")
		}
		if len(b.faults) == before { // else one story is enough
			*to = items
		}
		return nil
	}
}

func (b *bodyReader) item(to *Item, field string) error {
	if b.dec.PeekKind() != jsontext.KindBeginObject {
		return b.refuse(field, "must be an object with sku and quantity")
	}
	if _, err := b.dec.ReadToken(); err != nil {
		return err
	}
	_, err := b.rest(field+".", []bodyMember{
		{"sku", true, readText(&to.SKU)},
		{"quantity", true, readCount(&to.Quantity)},
	})
	return err
}
