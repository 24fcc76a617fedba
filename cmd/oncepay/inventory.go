package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

type inventoryCommand struct {
	Set  inventorySet  `cmd:"" help:"Set how many of a SKU were ever stocked, sold ones included: after a delivery of 5 it is 5 more than before. Doing it twice changes nothing."`
	List inventoryList `cmd:"" help:"List what there is of each SKU, or of one."`
}

// sku is a SKU as an argument.
type sku string

// UnmarshalText refuses what no SKU could be.
func (s *sku) UnmarshalText(text []byte) error {
	if reason := charges.SKUFault(string(text)); reason != "" {
		return errors.New(reason)
	}
	*s = sku(text)
	return nil
}

type inventorySet struct {
	database `embed:""`
	operator `embed:""`
	SKU      sku    `arg:"" name:"sku" help:"The shop's own name of what is sold."`
	Quantity int64  `arg:"" help:"How many were ever stocked. Not less than what is held and taken."`
	Previous *int64 `placeholder:"N" help:"What the quantity must have been until now, 0 where it was never stocked: refused where somebody else has set another. Default: whatever it was."`
}

// Validate refuses what cannot work.
func (c *inventorySet) Validate() error {
	if c.Quantity < 0 || c.Quantity > charges.MaxStock {
		return fmt.Errorf("<quantity> must be from 0 to %d", charges.MaxStock)
	}
	if c.Previous != nil && (*c.Previous < 0 || *c.Previous > charges.MaxStock) {
		return fmt.Errorf("--previous must be from 0 to %d", charges.MaxStock)
	}
	return c.database.Validate()
}

// Run sets the quantity.
func (c *inventorySet) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "inventory", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	set, err := b.charges.Stock(ctx, charges.Stocking{SKU: string(c.SKU), Quantity: c.Quantity, Previous: c.Previous, Actor: c.who()})
	if errors.Is(err, outbox.ErrInDoubt) {
		return fmt.Errorf("it may have been done or not, do it again: %w", err)
	}
	if err != nil {
		return err
	}
	now, change := set.Inventory, fmt.Sprintf("quantity %d -> %d", set.Was, c.Quantity)
	switch {
	case set.New:
		change = fmt.Sprintf("new, quantity %d", c.Quantity)
	case set.Was == c.Quantity:
		change = fmt.Sprintf("quantity %d as before", c.Quantity)
	}
	fmt.Printf("%s: %s, of which %d are available, %d held and %d taken.\n", now.SKU, change, now.Available, now.Held, now.Taken)
	return nil
}

type inventoryList struct {
	database `embed:""`
	SKU      sku  `arg:"" optional:"" name:"sku" help:"Only this one."`
	Limit    int  `default:"50" help:"At most so many SKUs."`
	JSON     bool `name:"json" help:"As JSON, for programs."`
}

// Validate refuses what cannot work.
func (c *inventoryList) Validate() error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return errors.New("--limit must be from 1 to 10000")
	}
	return c.database.Validate()
}

// Run prints a line for each SKU, in their order.
func (c *inventoryList) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "inventory", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	list, more, err := c.read(ctx, b)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(struct {
			Inventory []charges.Inventory `json:"inventory"`
			More      bool                `json:"more"`
		}{append([]charges.Inventory{}, list...), more})
	}
	if len(list) == 0 {
		fmt.Println("Nothing was ever stocked.")
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SKU\tQUANTITY\tAVAILABLE\tHELD\tTAKEN\tSET AT")
	for _, v := range list {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", v.SKU, v.Quantity, v.Available, v.Held, v.Taken, stamp(v.UpdatedAt))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintln(os.Stderr, "there is more: raise --limit")
	}
	return nil
}

func (c *inventoryList) read(ctx context.Context, b *backend) (list []charges.Inventory, more bool, err error) {
	if c.SKU == "" {
		return b.charges.ListInventory(ctx, "", c.Limit)
	}
	found, err := b.charges.Inventory(ctx, string(c.SKU))
	if errors.Is(err, charges.ErrNotFound) {
		return nil, false, fmt.Errorf("%s was never stocked", c.SKU)
	}
	return []charges.Inventory{found}, false, err
}
