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
	"strings"
	"time"
)

// Page is one page of a list of charges.
type Page struct {
	Data       []*Charge `json:"data"`
	NextCursor string    `json:"next_cursor"` // for ListParams.Cursor; empty on the last page
}

// ListParams selects charges; its zero value selects all that the token may see.
type ListParams struct {
	Status    Status
	Reference string
	Cursor    string // from Page.NextCursor; empty for the first page
	Limit     int    // charges per page; 0 leaves it to the server
}

// Event is one line of a charge's audit trail.
type Event struct {
	ID    int64           `json:"id"`   // grows with time
	Type  string          `json:"type"` // e.g. "charge.succeeded"
	From  Status          `json:"from"` // empty where the status did not change
	To    Status          `json:"to"`
	Actor string          `json:"actor"`
	At    time.Time       `json:"at"`
	Data  json.RawMessage `json:"data"`
}

// KeyUse is what an idempotency key was used for.
type KeyUse struct {
	Key       string    `json:"key"`
	Operation string    `json:"operation"`
	ChargeID  string    `json:"charge_id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"` // of the stored answer, zero once it has; the key itself stays taken
	Charge    *Charge   `json:"charge"`     // as it is now
}

var errNoID = errors.New("oncepay: the charge id is empty")

// Get reads one charge. A charge that does not exist, or is another caller's, is an [*Error] with Code "not_found".
func (c *Client) Get(ctx context.Context, id string) (*Charge, error) {
	if id == "" {
		return nil, errNoID
	}
	check := func(got *Charge) error { return got.checkID(id) }
	charge, answer, err := send(ctx, c, request{method: http.MethodGet, path: "/charges/" + url.PathEscape(id)}, check)
	if err != nil {
		return nil, err
	}
	charge.Answer = answer
	return charge, nil
}

// List reads one page of charges.
func (c *Client) List(ctx context.Context, params ListParams) (*Page, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"status": string(params.Status), "reference": params.Reference, "cursor": params.Cursor,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if params.Limit != 0 {
		query.Set("limit", strconv.Itoa(params.Limit))
	}
	page, _, err := send(ctx, c, request{method: http.MethodGet, path: "/charges", query: query}, func(got *Page) error {
		if got.Data == nil {
			return errors.New("not a list")
		}
		for _, charge := range got.Data {
			if err := charge.check(); err != nil {
				return err
			}
		}
		return nil
	})
	return page, err
}

// All reads the charges of all pages from params.Cursor on, one page at a time as they are consumed. An error is the last thing it yields.
func (c *Client) All(ctx context.Context, params ListParams) iter.Seq2[*Charge, error] {
	return eachPage(params.Cursor, func(cursor string) ([]*Charge, string, error) {
		params := params
		params.Cursor = cursor
		page, err := c.List(ctx, params)
		if err != nil {
			return nil, "", err
		}
		return page.Data, page.NextCursor, nil
	})
}

// Events reads a charge's audit trail, all pages of it, as it is consumed. An error is the last thing it yields.
func (c *Client) Events(ctx context.Context, id string) iter.Seq2[*Event, error] {
	type eventPage struct {
		Data       []*Event `json:"data"`
		NextCursor string   `json:"next_cursor"`
	}
	check := func(got *eventPage) error {
		if got.Data == nil {
			return errors.New("not a list")
		}
		for _, event := range got.Data {
			if event == nil || event.Type == "" {
				return errors.New("not an event")
			}
		}
		return nil
	}
	return eachPage("", func(cursor string) ([]*Event, string, error) {
		if id == "" {
			return nil, "", errNoID
		}
		r := request{method: http.MethodGet, path: "/charges/" + url.PathEscape(id) + "/events"}
		if cursor != "" {
			r.query = url.Values{"cursor": {cursor}}
		}
		page, _, err := send(ctx, c, r, check)
		if err != nil {
			return nil, "", err
		}
		return page.Data, page.NextCursor, nil
	})
}

// Key reads what an idempotency key was used for. A key that was never used, or is another caller's, is an [*Error] with
// Code "not_found"; while a request with that key may still be on its way, that proves nothing.
func (c *Client) Key(ctx context.Context, key string) (*KeyUse, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	use, _, err := send(ctx, c, request{method: http.MethodGet, path: "/idempotency-keys/" + key}, func(got *KeyUse) error {
		if !strings.EqualFold(got.Key, key) || got.ChargeID == "" {
			return errors.New("not the use of this key")
		}
		return nil
	})
	return use, err
}

// eachPage yields the elements of every page, starting at a cursor.
func eachPage[T any](cursor string, fetch func(cursor string) ([]*T, string, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for cursor := cursor; ; {
			elements, next, err := fetch(cursor)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, element := range elements {
				if !yield(element, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if next == cursor {
				yield(nil, fmt.Errorf("oncepay: the list does not go on after cursor %.64q", cursor))
				return
			}
			cursor = next
		}
	}
}
