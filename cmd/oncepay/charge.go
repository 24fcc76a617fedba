package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/client"
)

// server is how the API's clients reach it.
type server struct {
	URL   string `name:"url" env:"ONCEPAY_URL" default:"http://127.0.0.1:8080" help:"The API."`
	Token string `env:"ONCEPAY_TOKEN" required:"" help:"A caller's token."`
}

// Validate refuses what cannot work, without connecting.
func (s server) Validate() error {
	if _, err := client.New(s.URL, "token"); err != nil {
		return fmt.Errorf("--url: %s", strings.TrimPrefix(err.Error(), "oncepay: "))
	}
	if _, err := client.New(s.URL, s.Token); err != nil {
		return fmt.Errorf("--token: %s", strings.TrimPrefix(err.Error(), "oncepay: "))
	}
	return nil
}

func (s server) client() (*client.Client, error) {
	c, err := client.New(s.URL, s.Token)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

type chargeCommand struct {
	Create chargeCreate `cmd:"" help:"Create a charge, and print it. Exit status 0: it was accepted, whatever became of it, a decline included; that is in the JSON's status."`
	Get    chargeGet    `cmd:"" help:"Print a charge. Exit status 0: there is one, whatever its status."`
}

type chargeCreate struct {
	server        `embed:""`
	Key           string            `help:"Idempotency key, a version 4 or 7 UUID. Give the same one again to retry; without it one is made and shown."`
	Amount        int64             `required:"" help:"In the currency's minor unit."`
	Currency      string            `required:"" help:"Three letters, such as usd."`
	PaymentMethod string            `required:"" help:"Stripe's id, such as pm_card_visa."`
	Customer      string            `help:"Stripe's id of the customer."`
	ReceiptEmail  string            `help:"Who gets the receipt."`
	Description   string            `help:"Shown at Stripe and on the receipt."`
	Reference     string            `help:"Your own name for what is paid, such as an order number."`
	Metadata      map[string]string `help:"KEY=VALUE pairs."`
	Items         []itemFlag        `name:"item" sep:"none" placeholder:"SKU[=QUANTITY]" help:"What is sold, and how many of it (default 1): held for this charge, and given back if it fails. Once for each SKU."`
	SendBefore    time.Time         `placeholder:"TIME" help:"Cancel the charge if it was not sent to Stripe by then, such as 2030-01-31T12:00:00Z."`
	Manual        bool              `help:"Only authorise the payment."`
	Wait          time.Duration     `default:"10s" help:"How long to wait for the charge to settle; 0 does not wait."`
}

// Validate refuses what cannot work, without connecting.
func (c *chargeCreate) Validate() error {
	if c.Key != "" {
		if _, err := charges.ParseKey([]string{c.Key}); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	}
	return c.server.Validate()
}

// Run creates the charge and prints it. The key is on stderr before anything is sent, so that it can be retried.
func (c *chargeCreate) Run(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if c.Key == "" {
		c.Key = client.NewKey()
	}
	fmt.Fprintln(os.Stderr, "idempotency key:", c.Key)
	params := client.CreateParams{
		IdempotencyKey: c.Key, Wait: c.Wait, Amount: c.Amount, Currency: c.Currency, PaymentMethod: c.PaymentMethod, Customer: c.Customer,
		ReceiptEmail: c.ReceiptEmail, Description: c.Description, Reference: c.Reference, Metadata: c.Metadata, SendBefore: c.SendBefore,
	}
	for _, i := range c.Items {
		params.Items = append(params.Items, client.Item(i))
	}
	if c.Manual {
		params.CaptureMethod = "manual"
	}
	charge, err := api.Create(ctx, params)
	if err != nil {
		return err
	}
	return printCharge(charge)
}

// itemFlag is an item as an argument has it: tee-blue-m=2, or tee-blue-m for one.
type itemFlag client.Item

// UnmarshalText refuses what no item could be.
func (i *itemFlag) UnmarshalText(text []byte) error {
	sku, quantity, given := strings.Cut(string(text), "=")
	if !given {
		quantity = "1"
	}
	n, err := strconv.ParseInt(quantity, 10, 64)
	if err != nil || n < 1 {
		return errors.New("must be SKU or SKU=QUANTITY, with a whole QUANTITY from 1 on, such as tee-blue-m=2")
	}
	if reason := charges.SKUFault(sku); reason != "" {
		return fmt.Errorf("must be SKU or SKU=QUANTITY; the SKU %s", reason)
	}
	*i = itemFlag{SKU: sku, Quantity: n}
	return nil
}

type chargeGet struct {
	server `embed:""`
	ID     string `arg:"" help:"The charge's id."`
}

// Run prints the charge.
func (c *chargeGet) Run(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	charge, err := api.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	return printCharge(charge)
}

// printCharge prints what the API sent, indented and otherwise as it came.
func printCharge(c *client.Charge) error {
	var out bytes.Buffer
	if err := json.Indent(&out, c.Raw, "", "  "); err != nil {
		return fmt.Errorf("print the charge: %w", err)
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(os.Stdout)
	return err
}
