package charges

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/outbox"
)

// Service is the domain's door: each method is one story and at most one transaction at a time. It is safe for
// concurrent use, in one process or many.
type Service struct {
	pool     *pgxpool.Pool // for transactions
	reads    outbox.Reads  // for single queries
	outbox   *outbox.Outbox
	keyTTL   time.Duration
	policy   Policy
	receipts ReceiptPolicy
	watch    *watch

	backlog        outbox.Figure[[]Backlog]
	receiptBacklog outbox.Figure[map[ReceiptStatus]int64]

	blind atomic.Bool // the server does not tell which one it is
}

// Options are the service's settings.
type Options struct {
	KeyTTL   time.Duration // how long the answer to a POST is stored under its key; 0: 24 h
	Policy   Policy        // zero: DefaultPolicy
	Receipts ReceiptPolicy // zero: what is unknown is held until evidence or a person settles it
}

// New returns a service that stores everything through pool.
func New(pool *pgxpool.Pool, box *outbox.Outbox, o Options) *Service {
	if o.KeyTTL == 0 {
		o.KeyTTL = 24 * time.Hour
	}
	if o.Policy.Window == 0 {
		o.Policy = DefaultPolicy
	}
	s := &Service{pool: pool, reads: outbox.NewReads(pool), outbox: box, keyTTL: o.KeyTTL, policy: o.Policy, receipts: o.Receipts.withDefaults()}
	s.watch = newWatch(s.settled)
	return s
}

// unhurried detaches a write from its caller's patience: a client that goes away, or a worker that is told to stop,
// does not undo a commit. The bound keeps it from waiting for ever.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
}
