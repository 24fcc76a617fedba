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

// page is one page of Stripe's list. Pointers tell a member that is missing from one that is empty: a list that was not
// received whole must never read as one that ended.
type page struct {
	stripego.APIResource
	Object  string    `json:"object"`
	Data    *[]intent `json:"data"`
	HasMore *bool     `json:"has_more"`
}

// List yields every payment that the query selects, newest first, those of others included. An error ends it, and
// then what was yielded before proves nothing about what is not there. Stripe's search is not used: it can lag by an hour.
func (g *Gateway) List(ctx context.Context, q Query) iter.Seq2[charges.Payment, error] {
	return func(yield func(charges.Payment, error) bool) {
		if q.From.IsZero() || q.To.Before(q.From) {
			yield(charges.Payment{}, errors.New("stripe: a list needs a time from and one to"))
			return
		}
		for after, more := q.After, true; more; {
			if q.Before != nil {
				if err := q.Before(ctx); err != nil {
					yield(charges.Payment{}, err)
					return
				}
			}
			p, err := g.page(ctx, q, after)
			if err != nil {
				yield(charges.Payment{}, err)
				return
			}
			for _, i := range *p.Data {
				payment, err := g.payment(&i)
				if err != nil {
					yield(charges.Payment{}, unknown(err.Error()))
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
func (g *Gateway) page(ctx context.Context, q Query, after string) (*page, error) {
	query := &form.Values{}
	query.Add("created[gte]", strconv.FormatInt(q.From.Unix(), 10))
	query.Add("created[lte]", strconv.FormatInt(q.To.Unix(), 10))
	if q.Customer != "" {
		query.Add("customer", q.Customer)
	}
	query.Add("limit", pageSize)
	if after != "" {
		query.Add("starting_after", after)
	}
	p := &page{}
	if _, _, err := g.get(ctx, intentsPath, query, p); err != nil {
		return nil, err
	}
	switch {
	case p.Object != "list" || p.Data == nil || p.HasMore == nil:
		return nil, unknown("the answer is not a list")
	case len(*p.Data) == 0 && *p.HasMore:
		return nil, unknown("the list says that it goes on, and does not")
	case len(*p.Data) > 0 && (*p.Data)[len(*p.Data)-1].ID == after:
		return nil, unknown("the list does not move on")
	}
	return p, nil
}

// Retrieve reads one payment by its id. One that is not there is an [*Error] with HTTPStatus 404.
func (g *Gateway) Retrieve(ctx context.Context, id string) (charges.Payment, error) {
	if !intentID.MatchString(id) {
		return charges.Payment{}, notSent(errors.New("that is not the id of a PaymentIntent"))
	}
	got := &intent{}
	if _, _, err := g.get(ctx, intentsPath+"/"+id, nil, got); err != nil {
		return charges.Payment{}, err
	}
	payment, err := g.payment(got)
	if err == nil && payment.ID != id {
		err = errors.New("the answer is another PaymentIntent")
	}
	if err != nil {
		return charges.Payment{}, unknown(err.Error())
	}
	return payment, nil
}
