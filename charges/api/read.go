package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
)

func (a *API) getCharge(w http.ResponseWriter, c *call) error {
	if err := c.chargeFromPath(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookupTimeout)
	defer cancel()
	charge, err := a.charges.Get(ctx, c.scope(), c.charge)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, charge)
}

func (a *API) listCharges(w http.ResponseWriter, c *call) (err error) {
	var f charges.ListFilter
	if f.Status, err = c.status(); err != nil {
		return err
	}
	if f.Reference, err = c.reference(); err != nil {
		return err
	}
	if f.After, err = c.chargeCursor(); err != nil {
		return err
	}
	if f.Limit, err = c.limit(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookupTimeout)
	defer cancel()
	list, more, err := a.charges.List(ctx, c.scope(), f)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, newPage(list, more, func(last charges.Charge) string { return encodeChargeCursor(last.ID) }))
}

func (a *API) listEvents(w http.ResponseWriter, c *call) error {
	if err := c.chargeFromPath(); err != nil {
		return err
	}
	after, err := c.eventCursor()
	if err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookupTimeout)
	defer cancel()
	list, more, err := a.charges.Events(ctx, c.scope(), c.charge, after, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, newPage(list, more, func(last charges.Event) string { return encodeEventCursor(last.ID) }))
}

func (a *API) getKey(w http.ResponseWriter, c *call) error {
	key, err := charges.ParseKey([]string{c.PathValue("key")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookupTimeout)
	defer cancel()
	use, err := a.charges.Key(ctx, c.scope(), key)
	if err != nil {
		return err
	}
	c.charge = use.ChargeID
	return writeJSON(w, http.StatusOK, use)
}

// chargeFromPath reads the charge's id. What is no id names no charge.
func (c *call) chargeFromPath() error {
	text := c.PathValue("id")
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) { // Parse takes other spellings as well
		return charges.ErrNotFound
	}
	c.charge = id
	return nil
}
