package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/client"
)

// The same quantity is sent again whatever came of it, as a read is: done twice it changes nothing.
func TestSetInventoryIsRetried(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"dropped before": dropBefore, "answer lost": dropAfter, "hanging": hang, "truncated": truncate,
		"html": {kind: "body", body: "<html>"}, "another SKU": {kind: "body", body: `{"sku":"tee","quantity":5}`},
		"another quantity": {kind: "body", body: `{"sku":"tee:m","quantity":4}`},
		"500 after":        answers(500, "internal").afterDoing(), "503": answers(503, "unavailable").with("Retry-After", "2"), "429": answers(429, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, f)
			c, clk := connect(t, s, client.WithAttemptTimeout(300*time.Millisecond))
			set, err := c.SetInventory(t.Context(), "tee:m", 5)
			if err != nil {
				t.Fatal(err)
			}
			if set.SKU != "tee:m" || set.Quantity != 5 || set.Available != 5 || set.UpdatedAt.IsZero() || len(clk.waits()) != 1 {
				t.Errorf("set to %+v, waits %v", set, clk.waits())
			}
			requests := s.requests()
			if len(requests) != 2 {
				t.Fatalf("%d requests", len(requests))
			}
			for _, r := range requests {
				if r.method != "PUT" || r.path != "/inventory/tee:m" || r.body != `{"quantity":5}` || r.key != "" {
					t.Errorf("request %+v", r)
				}
			}
		})
	}
}

func TestSetInventoryFromPrevious(t *testing.T) {
	t.Parallel()
	s := startServer(t, dropAfter)
	c, _ := connect(t, s)
	if _, err := c.SetInventory(t.Context(), "tee", 5, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetInventory(t.Context(), "tee", 5, 0, 1); err == nil {
		t.Error("two previous quantities were sent")
	}
	requests := s.requests()
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if r.body != `{"previous":0,"quantity":5}` {
			t.Errorf("sent %s", r.body)
		}
	}
}

func TestSetInventoryRefused(t *testing.T) {
	t.Parallel()
	below := answers(409, "invalid_state")
	below.body = `{"status":409,"code":"invalid_state","detail":"No.","inventory":{"sku":"tee","quantity":5,"available":1,"held":3,"taken":1}}`
	for name, f := range map[string]fault{"below": below, "forbidden": answers(403, "forbidden"), "bad": answers(400, "invalid_request")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, f)
			c, clk := connect(t, s)
			_, err := c.SetInventory(t.Context(), "tee", 1)
			refused, ok := errors.AsType[*client.Error](err)
			if !ok || refused.Status != f.status || len(s.requests()) != 1 || len(clk.waits()) != 0 {
				t.Fatalf("got %v after %d requests", err, len(s.requests()))
			}
			if i := refused.Inventory; name == "below" && (i == nil || *i != client.Inventory{SKU: "tee", Quantity: 5, Available: 1, Held: 3, Taken: 1}) {
				t.Errorf("what there is: %+v", i)
			}
		})
	}
}

// Where nothing is heard, it is told so; there is no key to go on with, and none is needed.
func TestSetInventoryUnheard(t *testing.T) {
	t.Parallel()
	s := startServer(t, dropAfter, dropAfter)
	c, _ := connect(t, s, client.WithMaxAttempts(2))
	_, err := c.SetInventory(t.Context(), "tee", 1)
	if _, unsettled := errors.AsType[*client.UnsettledError](err); err == nil || unsettled {
		t.Fatalf("got %v", err)
	}
	if _, err := c.SetInventory(t.Context(), "tee", 1); err != nil {
		t.Error(err)
	}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	for i := range 5 {
		if _, err := c.SetInventory(t.Context(), fmt.Sprintf("sku-%d", i), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	s.reads = []fault{dropBefore, {kind: "body", body: `{"sku":"sku-4","quantity":1}`}}
	s.mu.Unlock()
	found, err := c.Inventory(t.Context(), "sku-3")
	if err != nil || found.SKU != "sku-3" || found.Quantity != 3 {
		t.Errorf("got %+v, %v", found, err)
	}
	_, err = c.Inventory(t.Context(), "cap")
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "not_found" {
		t.Errorf("never stocked: %v", err)
	}
	before := len(s.requests())
	if _, err := c.Inventory(t.Context(), ""); err == nil {
		t.Error("an empty SKU was read")
	}
	if _, err := c.SetInventory(t.Context(), "", 1); err == nil || len(s.requests()) != before {
		t.Errorf("an empty SKU was set: %v", err)
	}

	page, err := c.ListInventory(t.Context(), client.InventoryParams{Limit: 3})
	if err != nil || len(page.Data) != 3 || page.NextCursor == "" {
		t.Fatalf("got %+v, %v", page, err)
	}
	var skus []string
	for i, err := range c.AllInventory(t.Context(), client.InventoryParams{Cursor: page.NextCursor, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		skus = append(skus, i.SKU)
	}
	if got := strings.Join(skus, " "); got != "sku-3 sku-4" {
		t.Errorf("got %s", got)
	}
}

func TestItemsOfACharge(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := connect(t, s)
	p := params()
	p.Items = []client.Item{{SKU: "tee:m", Quantity: 2}, {SKU: "cap", Quantity: 1}}
	if _, err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if body := s.requests()[0].body; !strings.Contains(body, `"items":[{"sku":"tee:m","quantity":2},{"sku":"cap","quantity":1}]`) {
		t.Errorf("sent %s", body)
	}
	s.reads = []fault{{kind: "body", body: `{"id":"ch_1","status":"succeeded","stock":"taken","items":[{"sku":"cap","quantity":1,"later":1},{"sku":"tee:m","quantity":2}]}`}}
	charge, err := c.Get(t.Context(), "ch_1")
	if err != nil || charge.Stock != client.StockTaken || fmt.Sprint(charge.Items) != "[{cap 1} {tee:m 2}]" {
		t.Errorf("got %+v, %v", charge, err)
	}
	// A cart that came out empty is no charge without items: the server refuses it.
	p.Items, p.IdempotencyKey = []client.Item{}, client.NewKey()
	if _, err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if all := s.requests(); !strings.Contains(all[len(all)-1].body, `"items":[]`) {
		t.Errorf("sent %s", all[len(all)-1].body)
	}
	plain := create(t, c, 1)[0]
	if plain.Stock != "" || plain.Items != nil || strings.Contains(s.requests()[len(s.requests())-1].body, "items") {
		t.Errorf("without items: %+v", plain)
	}
}
