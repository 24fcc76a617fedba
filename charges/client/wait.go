package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	pollFirst = 100 * time.Millisecond
	pollMax   = 2 * time.Second
)

// Wait reads a charge until it is settled, at intervals that grow from 100 ms to 2 s. It is bounded by ctx alone: a charge may stay
// in processing for days, so give ctx a deadline. With an error comes the charge as last seen, or nil.
func (c *Client) Wait(ctx context.Context, id string) (*Charge, error) {
	var last *Charge
	for interval := pollFirst; ; interval = min(interval*3/2, pollMax) {
		charge, err := c.Get(ctx, id)
		if err != nil {
			return last, err
		}
		if charge.Settled() {
			return charge, nil
		}
		last = charge
		// Up to half of the interval less, so that many waiters do not ask in step.
		if err := c.sleep(ctx, interval-rand.N(interval/2)); err != nil {
			return last, fmt.Errorf("oncepay: charge %s is still %s: %w", id, charge.Status, err)
		}
	}
}
