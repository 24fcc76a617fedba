package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

func Example() {
	server := newServer()
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New(server.URL, "my-token")
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := c.Create(ctx, client.CreateParams{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(charge.ID, charge.Status)
	charge, err = c.Wait(ctx, charge.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(charge.ID, charge.Status)
	// Output:
	// ch_1 pending
	// ch_1 succeeded
}

// The key is stored before the first call. Whatever happens to this process, the row says how to go on.
func ExampleClient_Create() {
	server := newServer()
	defer server.Close()
	c, err := client.New(server.URL, "my-token", client.WithMaxAttempts(1))
	if err != nil {
		fmt.Println(err)
		return
	}

	type order struct {
		id, chargeKey string
		total         int64
	}
	table := map[string]order{"order-7": {id: "order-7", total: 1099}} // your database
	pay := func(id string) (*client.Charge, error) {
		row := table[id]
		if row.chargeKey == "" {
			row.chargeKey = client.NewKey()
			table[id] = row // committed before anything is sent
		}
		return c.Create(context.Background(), client.CreateParams{
			IdempotencyKey: row.chargeKey,
			Amount:         row.total,
			Currency:       "usd",
			PaymentMethod:  "pm_card_visa",
			Reference:      row.id,
		})
	}

	server.plan(dropAfter) // the charge is accepted, and the answer lost
	_, err = pay("order-7")
	if open, ok := errors.AsType[*client.UnsettledError](err); ok {
		fmt.Println("unknown, key as stored:", open.Key == table["order-7"].chargeKey)
	}
	charge, err := pay("order-7") // later, or after a restart
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(charge.ID, "replayed:", charge.Answer.Replayed, "charges:", server.made())
	// Output:
	// unknown, key as stored: true
	// ch_1 replayed: true charges: 1
}

func ExampleError() {
	server := newServer()
	defer server.Close()
	c, err := client.New(server.URL, "my-token")
	if err != nil {
		fmt.Println(err)
		return
	}
	params := client.CreateParams{IdempotencyKey: client.NewKey(), Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa"}
	if _, err := c.Create(context.Background(), params); err != nil {
		fmt.Println(err)
		return
	}
	params.Amount = 2099
	_, err = c.Create(context.Background(), params)
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Status, refused.Code)
		for _, f := range refused.Fields {
			fmt.Println(f.Field, f.Reason)
		}
	}
	// Output:
	// 422 idempotency_key_reused
	// amount differs
}

// What is sold out is the shop's to tell its buyer: it is not retried, and the key may be used again.
func ExampleError_short() {
	server := newServer()
	defer server.Close()
	server.plan(fault{kind: "status", status: 409, body: `{"status":409,"code":"insufficient_inventory","items":[{"sku":"tee-blue-m","requested":2,"available":1,"stocked":true}]}`})
	c, err := client.New(server.URL, "my-token")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Create(context.Background(), client.CreateParams{
		Amount: 4998, Currency: "usd", PaymentMethod: "pm_card_visa",
		Items: []client.Item{{SKU: "tee-blue-m", Quantity: 2}, {SKU: "cap", Quantity: 1}},
	})
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == "insufficient_inventory" {
		for _, s := range refused.Short {
			fmt.Printf("%s: only %d left\n", s.SKU, s.Available)
		}
	}
	// Output:
	// tee-blue-m: only 1 left
}

func ExampleClient_All() {
	server := newServer()
	defer server.Close()
	c, err := client.New(server.URL, "my-token")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, reference := range []string{"order-1", "order-2", "order-3"} {
		_, err := c.Create(ctx, client.CreateParams{Amount: 500, Currency: "jpy", PaymentMethod: "pm_card_visa", Reference: reference})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	for charge, err := range c.All(ctx, client.ListParams{Status: client.StatusPending}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(charge.Reference, charge.Amount, charge.Currency)
	}
	// Output:
	// order-1 500 jpy
	// order-2 500 jpy
	// order-3 500 jpy
}
