package stripe

import (
	"context"
	"errors"
	"strings"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
)

// Stripe's limit: https://docs.stripe.com/api/idempotent_requests
const maxKeyLength = 255

// Send makes the attempt's one call: its stored request under its provider key, both unchanged. ctx must carry the time after
// which the request may not leave any more (transport.WithNotAfter).
//
// A nil error means that Stripe answered with a PaymentIntent that agrees with the request; its Status says what came of it. Else the error is
// an [*Error], or wraps transport.ErrNotSent (nothing left this process) or transport.ErrUnknown. The reply tells what is known of the
// answer in every case.
func (g *Gateway) Send(ctx context.Context, a charges.Attempt) (charges.News, Reply, error) {
	if a.ProviderKey == "" || len(a.ProviderKey) > maxKeyLength || strings.TrimSpace(a.ProviderKey) != a.ProviderKey {
		return charges.News{}, Reply{}, notSent(errors.New("the attempt's provider key cannot be sent unchanged"))
	}
	if a.Account.Livemode != g.livemode {
		return charges.News{}, Reply{}, notSent(errors.New("the attempt was made for the other mode"))
	}
	values, err := decodeForm(a.Request)
	if err != nil {
		return charges.News{}, Reply{}, notSent(err)
	}
	want, err := askedFor(values)
	if err != nil {
		return charges.News{}, Reply{}, notSent(err)
	}
	got := &intent{}
	params := &stripego.Params{IdempotencyKey: &a.ProviderKey}
	reply, date, err := g.post(ctx, intentsPath, values, params, got)
	if e := (*Error)(nil); errors.As(err, &e) && e.Payment != nil {
		if why := want.disagrees(*e.Payment); why != "" {
			err = unknown(why)
		}
	}
	if err != nil {
		return charges.News{}, reply, err
	}
	payment, err := g.payment(got, got.toldAt(date, reply))
	if err != nil {
		return charges.News{}, reply, unknown(err.Error())
	}
	if why := want.disagrees(payment); why != "" {
		return charges.News{}, reply, unknown(why)
	}
	return payment, reply, nil
}
