package outbox

import (
	"context"
	"net"
	"time"
)

// A peer that vanished without a word is noticed after 10 + 3 * 5 s of silence, or 20 s after what was sent stayed unanswered by its kernel.
const (
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	unansweredLimit   = 20 * time.Second
)

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		Timeout:         connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount},
		Control:         limitUnanswered,
	}
	return dialer.DialContext(ctx, network, address)
}
