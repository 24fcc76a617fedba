package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/oncepay/oncepay/charges"
)

// quantityBody describes what charges.DecodeStocking reads.
type quantityBody struct {
	Quantity int64  `json:"quantity" minimum:"0" maximum:"1000000000000" example:"10" doc:"How many were ever stocked, sold ones included."`
	Previous *int64 `json:"previous,omitempty" minimum:"0" maximum:"1000000000000" example:"5" doc:"What quantity must have been until now, 0 where it was never stocked; not looked at where quantity is so already. Default: whatever it was."`
}

func (a *API) setInventory(w http.ResponseWriter, c *call) error {
	body, err := readBody(w, c)
	if err != nil {
		return err
	}
	st, err := charges.DecodeStocking(body)
	if err != nil {
		return err
	}
	st.SKU, st.Actor = c.PathValue("sku"), string(c.token.Role)+":"+c.token.Name
	set, err := a.charges.Stock(c.Context(), st)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, set.Inventory)
}

// getInventory reads one SKU. What is no SKU was never stocked.
func (a *API) getInventory(w http.ResponseWriter, c *call) error {
	sku := c.PathValue("sku")
	if charges.SKUFault(sku) != "" {
		return errNeverStocked
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookupTimeout)
	defer cancel()
	found, err := a.charges.Inventory(ctx, sku)
	if errors.Is(err, charges.ErrNotFound) {
		return errNeverStocked
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, found)
}

func (a *API) listInventory(w http.ResponseWriter, c *call) error {
	after, err := c.inventoryCursor()
	if err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookupTimeout)
	defer cancel()
	list, more, err := a.charges.ListInventory(ctx, after, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, newPage(list, more, func(last charges.Inventory) string { return encodeInventoryCursor(last.SKU) }))
}
