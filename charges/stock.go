package charges

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Stock is where the items of a charge are. It follows the charge's status and nothing else, no timer above all: what a payment may still be
// made for is nobody else's.
type Stock string

// The places. Held and taken items are allocated to their charge.
const (
	StockHeld     Stock = "held"     // the charge is open
	StockTaken    Stock = "taken"    // it has succeeded
	StockReturned Stock = "returned" // it has failed or was canceled, or it was settled without them, and others may have them
)

// InsufficientInventory is why a person is asked about a payment that has come after its charge was over, when nothing was left of what it is for.
const InsufficientInventory = "insufficient_inventory"

// Shortage is a SKU of which less is available than a charge asks for.
type Shortage struct {
	SKU       string `json:"sku" doc:"The SKU that is short."`
	Requested int64  `json:"requested" minimum:"1" doc:"How many were asked for."`
	Available int64  `json:"available" minimum:"0" doc:"How many there were."`
	Stocked   bool   `json:"stocked" doc:"Whether the SKU was ever stocked; false: more likely it has another name than it is sold out."`
}

// InsufficientInventoryError says that there is not enough of what a charge is for.
type InsufficientInventoryError struct {
	Short []Shortage // at least one, in the order of their SKUs

	// Restored is when the database was found to be restored, where what was lost is not known yet: then a charge that was made under the key may be
	// among it, with the items that it held, and its buyer may have paid. Zero: there is no such doubt.
	Restored time.Time
}

func (e *InsufficientInventoryError) Error() string {
	return "insufficient inventory: " + tellShort(e.Short)
}

// stockAt is where the items of a charge belong that comes to a status. While a person decides, they stay where they are.
func stockAt(to Status, now Stock) Stock {
	switch to {
	case Succeeded:
		return StockTaken
	case Failed, Canceled:
		return StockReturned
	case NeedsReview:
		return now
	default:
		return StockHeld
	}
}

// withStock adds to a change of a locked charge what becomes of its items. What was returned is allocated again where the charge goes on after
// all, as with a payment that succeeds late; what is not to be had any more stays with others, and a success without it is for a person.
func withStock(ctx context.Context, tx pgx.Tx, c Charge, change Change) (Change, []Shortage, error) {
	if c.Stock == nil {
		return change, nil, nil
	}
	change.stock = stockAt(change.To, *c.Stock)
	switch {
	case *c.Stock == StockReturned && change.stock != StockReturned:
		short, err := allocate(ctx, tx, [][]Item{c.Items})
		if err != nil || len(short[0]) == 0 {
			return change, nil, err
		}
		change.stock = StockReturned
		if change.To == Succeeded {
			change.To, change.Reason = NeedsReview, InsufficientInventory
		}
		return change, short[0], nil
	case *c.Stock != StockReturned && change.stock == StockReturned:
		return change, nil, giveBack(ctx, tx, c.ID)
	}
	return change, nil, nil
}

// tell adds to an event what becomes of the items.
func (change Change) tell(data map[string]any, short []Shortage) {
	if change.stock != "" {
		data["stock"] = change.stock
	}
	if len(short) > 0 {
		data["short"] = short
	}
}

// shortOf tells which of the items ask for more than is available, in the order of their SKUs.
func shortOf(items []Item, available map[string]int64) (short []Shortage) {
	for _, i := range items {
		if n, stocked := available[i.SKU]; n < i.Quantity {
			short = append(short, Shortage{SKU: i.SKU, Requested: i.Quantity, Available: n, Stocked: stocked})
		}
	}
	slices.SortFunc(short, func(a, b Shortage) int { return strings.Compare(a.SKU, b.SKU) }) // a request may name them in any order
	return short
}

// tellShort says what is short, for people.
func tellShort(short []Shortage) string {
	told := make([]string, len(short))
	for i, s := range short {
		if told[i] = fmt.Sprintf("%d of %s are asked for and %d available", s.Requested, s.SKU, s.Available); !s.Stocked {
			told[i] = s.SKU + " was never stocked"
		}
	}
	return strings.Join(told, ", ")
}

// skusOf are the SKUs of all members' items, in their order, each once.
func skusOf(members [][]Item) (skus []string) {
	for _, items := range members {
		for _, i := range items {
			skus = append(skus, i.SKU)
		}
	}
	slices.Sort(skus)
	return slices.Compact(skus)
}
