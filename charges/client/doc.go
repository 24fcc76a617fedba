// Package client talks to Oncepay's HTTP API.
//
// A charge is one logical operation with one idempotency key, however many requests it takes. [Client.Create] encodes
// the body once, sends the same bytes under the same key until it has an answer, and never makes up another key: what
// the server accepted before an answer was lost is answered again, not done again. Reads are repeated in the same way.
//
// # Outcomes
//
// Create ends in one of four ways:
//
//   - a [Charge]: the server has accepted it. [Charge.Settled] tells whether its outcome is known; [Client.Wait] waits for that.
//   - [*UnsettledError]: nobody knows whether the charge exists. It carries the key. Keep it, and call Create again
//     with that key and the same parameters, now or next week. A new key could charge the buyer twice.
//   - [*Error]: the server refused, and no request of this call had any effect. The key may be used again for a mended
//     request, unless Code is "idempotency_key_reused".
//   - any other error: the parameters could not be sent at all, e.g. [ErrInvalidKey].
//
// There being not enough of the items that a charge is for is such a refusal, with the SKUs in [Error.Short]. It is not retried.
//
// A refusal says nothing about an earlier call that ended in an [*UnsettledError]: that may still be on its way, and be accepted. After one,
// ask [Client.Key], or make the same call again, before the buyer is told of a 409 such as "insufficient_inventory" or "reference_in_use".
//
// A declined card is not an error of Create: it is the charge's final state, in [Charge.Failure]. Trying another card
// is another operation and takes a new key.
//
// # Surviving your own crash
//
// A key that lives only in memory protects against the network, not against the death of the process that made it.
// Write it down, with everything else that goes into the request, before the first call:
//
//	order.ChargeKey = client.NewKey()
//	if err := save(order); err != nil {
//		return err // nothing was sent
//	}
//	charge, err := c.Create(ctx, client.CreateParams{
//		IdempotencyKey: order.ChargeKey,
//		Amount:         order.Total,
//		Currency:       order.Currency,
//		PaymentMethod:  order.PaymentMethod,
//		Reference:      order.ID,
//	})
//
// After a restart, make the same call from the same row. Nothing in the parameters may be computed anew: a SendBefore of
// "in ten minutes from now" differs each time, and the server refuses a key that comes with another request. Reference is a
// second net: the server refuses a second open charge for one reference, under whatever key it comes.
//
// # Limits
//
// Without options an attempt may take 20 seconds, a call makes at most 8 attempts, and none starts later than 60
// seconds after the first. Between attempts it waits up to 200 ms, doubled each time up to 5 s, with full jitter, on top of
// what Retry-After asks for; where that does not fit into what is left of the call, it ends at once. Give every call a
// context with a deadline of its own where that is too long. Redirects are not followed: they could turn a POST into a GET.
package client
