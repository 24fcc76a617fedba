package stripetest

import (
	"fmt"
	"slices"
	"time"
)

// Sizes of a page: https://docs.stripe.com/api/pagination
const (
	defaultPage = 10
	maxPage     = 100
)

type listView[T any] struct {
	Object  string `json:"object"`
	Data    []T    `json:"data"`
	HasMore bool   `json:"has_more"`
	URL     string `json:"url"`
}

// list is GET /v1/payment_intents, without what was created after visibleUntil.
func (b *book) list(p *params, visibleUntil time.Time) (any, *apiError) {
	customer := p.text("customer", 255)
	created := p.createdFilter()
	return page(p, intentsPath, "payment_intent", b.order, func(id string) (*intentView, bool) {
		pi := b.intents[id]
		return pi.view(), !pi.CreatedAt.After(visibleUntil) && (customer == "" || customer == pi.Customer) && created(pi.CreatedAt.Unix())
	})
}

// page cuts one page, newest first, out of objects whose ids are given oldest first; look says whether one is on the list.
func page[T any](p *params, path, kind string, ids []string, look func(id string) (T, bool)) (any, *apiError) {
	limit, given := p.integer("limit")
	if !given {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		p.fail("parameter_invalid_integer", "limit", fmt.Sprintf("limit must be from 1 to %d.", maxPage))
	}
	after, before := p.text("starting_after", 255), p.text("ending_before", 255)
	if after != "" && before != "" {
		p.fail("", "starting_after", "Give starting_after or ending_before, not both.")
	}
	if err := p.finish(); err != nil {
		return nil, err
	}

	cursor := after + before
	if cursor != "" && !slices.Contains(ids, cursor) {
		param := "starting_after"
		if before != "" {
			param = "ending_before"
		}
		return nil, missing(400, kind, cursor, param)
	}
	// Walking away from the cursor: to older ones, or, for ending_before, to newer ones.
	walk := slices.Clone(ids)
	if before == "" {
		slices.Reverse(walk)
	}
	if cursor != "" {
		walk = walk[slices.Index(walk, cursor)+1:]
	}
	view := &listView[T]{Object: "list", Data: []T{}, URL: path}
	for _, id := range walk {
		object, listed := look(id)
		if !listed {
			continue
		}
		if int64(len(view.Data)) == limit {
			view.HasMore = true
			break
		}
		view.Data = append(view.Data, object)
	}
	if before != "" {
		slices.Reverse(view.Data)
	}
	return view, nil
}

// createdFilter reads created, an exact second, or created[gte|gt|lte|lt], which may be combined.
func (p *params) createdFilter() func(int64) bool {
	compare := map[string]func(created, bound int64) bool{
		"created":      func(c, b int64) bool { return c == b },
		"created[gte]": func(c, b int64) bool { return c >= b },
		"created[gt]":  func(c, b int64) bool { return c > b },
		"created[lte]": func(c, b int64) bool { return c <= b },
		"created[lt]":  func(c, b int64) bool { return c < b },
	}
	bounds := map[string]int64{}
	for name := range compare {
		if bound, given := p.integer(name); given {
			bounds[name] = bound
		}
	}
	return func(created int64) bool {
		for name, bound := range bounds {
			if !compare[name](created, bound) {
				return false
			}
		}
		return true
	}
}
