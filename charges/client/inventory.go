package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Inventory is what there is of one SKU. Quantity = Available + Held + Taken.
type Inventory struct {
	SKU       string    `json:"sku"`
	Quantity  int64     `json:"quantity"`  // ever stocked, sold ones included
	Available int64     `json:"available"` // can still be bought
	Held      int64     `json:"held"`      // by open charges
	Taken     int64     `json:"taken"`     // by charges that have succeeded
	UpdatedAt time.Time `json:"updated_at"`
}

// InventoryPage is one page of the stock.
type InventoryPage struct {
	Data       []*Inventory `json:"data"`        // in the order of the SKUs' bytes
	NextCursor string       `json:"next_cursor"` // for InventoryParams.Cursor; empty on the last page
}

// InventoryParams selects a part of the stock; its zero value selects the first page.
type InventoryParams struct {
	Cursor string // from InventoryPage.NextCursor; empty for the first page
	Limit  int    // SKUs per page; 0 leaves it to the server
}

var errNoSKU = errors.New("oncepay: the SKU is empty")

// Inventory reads what there is of a SKU. One that was never stocked is an [*Error] with Code "not_found".
func (c *Client) Inventory(ctx context.Context, sku string) (*Inventory, error) {
	if sku == "" {
		return nil, errNoSKU
	}
	found, _, err := send(ctx, c, request{method: http.MethodGet, path: "/inventory/" + url.PathEscape(sku)}, func(got *Inventory) error {
		return got.checkSKU(sku)
	})
	return found, err
}

// ListInventory reads one page of the stock.
func (c *Client) ListInventory(ctx context.Context, params InventoryParams) (*InventoryPage, error) {
	query := url.Values{}
	if params.Cursor != "" {
		query.Set("cursor", params.Cursor)
	}
	if params.Limit != 0 {
		query.Set("limit", strconv.Itoa(params.Limit))
	}
	page, _, err := send(ctx, c, request{method: http.MethodGet, path: "/inventory", query: query}, func(got *InventoryPage) error {
		if got.Data == nil {
			return errors.New("not a list")
		}
		for _, i := range got.Data {
			if i == nil || i.SKU == "" {
				return errors.New("not what there is of a SKU")
			}
		}
		return nil
	})
	return page, err
}

// AllInventory reads the stock from params.Cursor on, one page at a time as it is consumed. An error is the last thing it yields.
func (c *Client) AllInventory(ctx context.Context, params InventoryParams) iter.Seq2[*Inventory, error] {
	return eachPage(params.Cursor, func(cursor string) ([]*Inventory, string, error) {
		page, err := c.ListInventory(ctx, InventoryParams{Cursor: cursor, Limit: params.Limit})
		if err != nil {
			return nil, "", err
		}
		return page.Data, page.NextCursor, nil
	})
}

// SetInventory sets how many of a SKU were ever stocked, sold ones included: after a delivery of 5 it is 5 more than before. It takes an
// operator's token. Less than what charges hold and have taken is an [*Error] with Code "invalid_state", which carries what there is.
//
// previous, at most one, is what the quantity must have been until now: 0 also for a SKU that was never stocked. Where somebody else has set another
// one, that is an [*Error] with Code "invalid_state" and what there is (nil: it was never stocked), so that of two who add different numbers to what
// both have read, neither is lost. Without it the quantity holds whatever it was. It is not looked at where the quantity is so already.
//
// Setting it twice changes nothing, so it is sent again as reads are, and needs no key. Whatever its error, the call can be made again. Of two
// who set different quantities without previous, the last one to be heard prevails: an attempt whose answer was lost may be sent again after the
// other's.
func (c *Client) SetInventory(ctx context.Context, sku string, quantity int64, previous ...int64) (*Inventory, error) {
	if sku == "" {
		return nil, errNoSKU
	}
	set := map[string]int64{"quantity": quantity}
	switch len(previous) {
	case 0:
	case 1:
		set["previous"] = previous[0]
	default:
		return nil, errors.New("oncepay: a SKU has one previous quantity")
	}
	body, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("oncepay: encode quantity: %w", err)
	}
	now, _, err := send(ctx, c, request{method: http.MethodPut, path: "/inventory/" + url.PathEscape(sku), body: body}, func(got *Inventory) error {
		if err := got.checkSKU(sku); err != nil {
			return err
		}
		if got.Quantity != quantity {
			return fmt.Errorf("quantity %d instead of %d", got.Quantity, quantity)
		}
		return nil
	})
	return now, err
}

// checkSKU is for what was asked for by name.
func (i *Inventory) checkSKU(sku string) error {
	if i.SKU != sku {
		return fmt.Errorf("not what there is of %s", sku)
	}
	return nil
}
