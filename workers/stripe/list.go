package stripe

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/oncepay/oncepay/charges"
)

// pageSize is Stripe's largest: https://docs.stripe.com/api/pagination
const pageSize = "100"

// Query selects payments by when they were created, at Stripe's clock and to the second, both ends included.
type Query struct {
	From, To time.Time
	Customer string // "cus_..."; empty: of all customers
	After    string // go on behind this payment, of an earlier list of the same query; empty: from the newest
	// Before, if not nil, is called before each page; its error ends the list.
	Before func(context.Context) error
}

// page is one page of a list of Stripe's. Pointers tell a member that is missing from one that is empty: a list that was not
// received whole must never read as one that ended.
type page[T any] struct {
	stripego.APIResource
	Object  string `json:"object"`
	Data    *[]T   `json:"data"`
	HasMore *bool  `json:"has_more"`
}

// List yields every payment that the query selects, newest first, those of others included. An error ends it, and
// then what was yielded before proves nothing about what is not there. Stripe's search is not used: it can lag by an hour.
func (g *Gateway) List(ctx context.Context, q Query) iter.Seq2[charges.News, error] {
	return func(yield func(charges.News, error) bool) {
		if q.From.IsZero() || q.To.Before(q.From) {
			yield(charges.News{}, errors.New("stripe: a list needs a time from and one to"))
			return
		}
		for after, more := q.After, true; more; {
			if q.Before != nil {
				if err := q.Before(ctx); err != nil {
					yield(charges.News{}, err)
					return
				}
			}
			p, date, err := g.page(ctx, q, after)
			if err != nil {
				yield(charges.News{}, err)
				return
			}
			for _, i := range *p.Data {
				payment, err := g.payment(&i, date)
				if err != nil {
					yield(charges.News{}, unknown(err.Error()))
					return
				}
				if !yield(payment, nil) {
					return
				}
				after = payment.ID
			}
			more = *p.HasMore
		}
	}
}

// page reads the page that follows the payment after; empty: the first.
func (g *Gateway) page(ctx context.Context, q Query, after string) (*page[intent], time.Time, error) {
	query := &form.Values{}
	query.Add("created[gte]", strconv.FormatInt(q.From.Unix(), 10))
	query.Add("created[lte]", strconv.FormatInt(q.To.Unix(), 10))
	if q.Customer != "" {
		query.Add("customer", q.Customer)
	}
	return readPage(ctx, g, intentsPath, query, after, func(i *intent) string { return i.ID })
}

// readPage reads the page of a list that follows the object after; empty: the first.
func readPage[T any](ctx context.Context, g *Gateway, path string, query *form.Values, after string, id func(*T) string) (*page[T], time.Time, error) {
	query.Add("limit", pageSize)
	if after != "" {
		query.Add("starting_after", after)
	}
	p := &page[T]{}
	_, answer, err := g.get(ctx, path, query, p)
	if err != nil {
		return nil, time.Time{}, err
	}
	switch {
	case p.Object != "list" || p.Data == nil || p.HasMore == nil:
		return nil, time.Time{}, unknown("the answer is not a list")
	case len(*p.Data) == 0 && *p.HasMore:
		return nil, time.Time{}, unknown("the list says that it goes on, and does not")
	case len(*p.Data) > 0 && id(&(*p.Data)[len(*p.Data)-1]) == after:
		return nil, time.Time{}, unknown("the list does not move on")
	}
	return p, answer.Date(), nil
}

// Retrieve reads one payment by its id. One that is not there is an [*Error] with HTTPStatus 404.
func (g *Gateway) Retrieve(ctx context.Context, id string) (charges.News, error) {
	if !intentID.MatchString(id) {
		return charges.News{}, notSent(errors.New("that is not the id of a PaymentIntent"))
	}
	got := &intent{}
	_, answer, err := g.get(ctx, intentsPath+"/"+id, nil, got)
	if err != nil {
		return charges.News{}, err
	}
	payment, err := g.payment(got, answer.Date())
	if err == nil && payment.ID != id {
		err = errors.New("the answer is another PaymentIntent")
	}
	if err != nil {
		return charges.News{}, unknown(err.Error())
	}
	return payment, nil
}
