// Package stripe is the gateway to Stripe: every call that this program makes there, and how its answers are read.
//
// A charge is encoded once ([Gateway.Encode]), stored with its attempt, and sent byte for byte as stored ([Gateway.Send]) under the
// attempt's key. Three kinds of answer come back, told apart with care because money hangs on it:
//
//	a Payment          a PaymentIntent that agrees with the request in amount, currency, mode and key
//	*Error             an error that Stripe itself worded
//	anything else      transport.ErrNotSent: proof that nothing left; transport.ErrUnknown: no one can say
//
// [Gateway.List] and [Gateway.Retrieve] look at what is there, [Gateway.Probe] asks who we are and what time it is. The SDK neither retries nor logs
// here: its errors and logs quote whole answers, client secrets included. Texts that leave this package are cleaned of both.
package stripe
