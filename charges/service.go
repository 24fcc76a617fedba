package charges

import (
	"context"
	"math"
	"runtime"
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
	blind    atomic.Bool // the server does not tell which one it is
	noticed  atomic.Pointer[time.Time]
	restored func(Restoration)
	inFlight inFlight
	removal  removal
	stuck    stuck

	backlog        outbox.Figure[[]Backlog]
	receiptBacklog outbox.Figure[map[ReceiptStatus]int64]
	lost           outbox.Figure[int64]

	// What shares its transactions.
	tokens  *outbox.Together[*asked]
	creates *outbox.Together[*claim]
	sales   *outbox.Together[*claim] // creates that hold items
	uses    *outbox.Together[*claim]
	begins  *outbox.Together[*beginning]
	settles *outbox.Together[*ending] // successes
	claims  *outbox.Together[*claiming]
	mails   *outbox.Together[*mailed]

	giveBacks *outbox.Together[*ending] // all other results: they may give items back
}

// Options are the service's settings.
type Options struct {
	KeyTTL   time.Duration // how long the answer to a POST is stored under its key; 0: 24 h
	Policy   Policy        // zero: DefaultPolicy
	Receipts ReceiptPolicy // zero: what is unknown is held until evidence or a person settles it

	// Runs is how many shared transactions of one kind run at a time; 0: half as many as there are cores.
	Runs int

	// Apart gives each write a transaction of its own, as a measure of what sharing them saves.
	Apart bool

	// Waiting is how many may wait for a place in a shared transaction of one kind; more are refused with [outbox.ErrBusy]. 0: 4096.
	Waiting int

	// Restored is told of each restoration that [Service.Create] is the first to notice.
	Restored func(Restoration)

	// Observe is told of each transaction that may have been shared, by its name, with how many members it had.
	Observe func(transaction string, members int, took time.Duration)
}

// together returns the bounds of what shares a transaction of that name. On two cores one at a time is fastest: while PostgreSQL is busy
// with it, the other core prepares the next.
func (o Options) together(transaction string) outbox.TogetherBounds {
	b := outbox.TogetherBounds{Runs: o.Runs, Waiting: o.Waiting}
	if b.Runs == 0 {
		b.Runs = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if o.Apart {
		b.Runs, b.Members = math.MaxInt, 1
	}
	if o.Observe != nil {
		b.Observe = func(members int, took time.Duration) { o.Observe(transaction, members, took) }
	}
	return b
}

// sales returns the bounds of creates that hold items. Each locks its key, of which PostgreSQL has room for some thousand at a time by default
// (https://www.postgresql.org/docs/current/runtime-config-locks.html).
func (o Options) sales() outbox.TogetherBounds {
	b := o.together("charge.accept")
	if !o.Apart {
		b.Members = 128
	}
	return b
}

// New returns a service that stores everything through pool.
func New(pool *pgxpool.Pool, box *outbox.Outbox, o Options) *Service {
	if o.KeyTTL == 0 {
		o.KeyTTL = 24 * time.Hour
	}
	if o.Policy.Window == 0 {
		o.Policy = DefaultPolicy
	}
	s := &Service{pool: pool, reads: outbox.NewReads(pool), outbox: box, keyTTL: o.KeyTTL, policy: o.Policy, receipts: o.Receipts.withDefaults(), restored: o.Restored}
	s.watch = newWatch(s.settled)
	s.tokens = outbox.NewTogether(o.together("token.find"), s.findTokens)
	s.creates = outbox.NewTogether(o.together("charge.accept"), s.accept)
	s.sales = outbox.NewTogether(o.sales(), s.accept)
	s.uses = outbox.NewTogether(o.together("key.find"), s.findUses)
	s.begins = outbox.NewTogether(o.together("attempt.begin"), s.beginTogether)
	s.settles = outbox.NewTogether(o.together("attempt.settle"), s.settleTogether)
	s.giveBacks = outbox.NewTogether(o.together("attempt.settle"), s.settleTogether)
	s.claims = outbox.NewTogether(o.together("receipt.claim"), s.claimTogether)
	s.mails = outbox.NewTogether(o.together("receipt.settle"), s.mailedTogether)
	return s
}

// unhurried detaches a write from its caller's patience: a client that goes away, or a worker that is told to stop,
// does not undo a commit. The bound keeps it from waiting for ever.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
}
