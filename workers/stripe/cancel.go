package stripe

import (
	"context"
	"errors"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/charges"
)

// Cancel makes the one call of an attempt to cancel a payment, with its stored request under its provider key. ctx must carry the
// time after which the request may not leave any more.
//
// A payment that cannot be canceled any more is an [*Error] that names the payment as it is. Other errors are as for [Gateway.Send].
func (g *Gateway) Cancel(ctx context.Context, a charges.Attempt) (charges.News, Reply, error) {
	if !intentID.MatchString(a.Payment) || a.Account.Livemode != g.livemode {
		return charges.News{}, Reply{}, notSent(errors.New("the attempt cancels no payment of this mode"))
	}
	values, err := decodeForm(a.Request)
	if err != nil {
		return charges.News{}, Reply{}, notSent(err)
	}
	got := &intent{}
	reply, date, err := g.post(ctx, intentsPath+"/"+a.Payment+"/cancel", values, &stripego.Params{IdempotencyKey: &a.ProviderKey}, got)
	if err != nil {
		return charges.News{}, reply, err
	}
	news, err := g.payment(got, got.toldAt(date, reply))
	if err == nil && news.ID != a.Payment {
		err = errors.New("the answer is another PaymentIntent")
	}
	if err != nil {
		return charges.News{}, reply, unknown(err.Error())
	}
	return news, reply, nil
}
