package client

import (
	"context"
	"time"
)

// SetClock replaces the clock and the waits between attempts.
func (c *Client) SetClock(now func() time.Time, sleep func(context.Context, time.Duration) error) {
	c.now, c.sleep = now, sleep
}

// BackoffCeiling is the longest wait of its own that a call makes after an attempt.
var BackoffCeiling = backoffCeiling

// MaxBody is how much of an answer is read.
const MaxBody = maxBody
