package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
)

// Config is what the API is made of. Only Charges is required.
type Config struct {
	Charges *charges.Service

	// Ready says why the process should get no requests now: nil for "it should". Each of the errors in an [errors.Join] is shown as a
	// reason at /readyz, to everybody; a database that is away is shown without its address. Asked at most once a second. nil: always ready.
	Ready func(context.Context) error

	// What the providers sign their events with: Stripe's endpoint secrets (whsec_...), and SendGrid's verification keys (base64 of
	// a DER public key). Any of them is good. None: the provider's events are refused.
	StripeWebhookSecrets  []string
	SendGridWebhookKeys   []string
	SendGridWebhookWindow time.Duration // how old SendGrid's signature may be, or how far ahead; 0: DefaultSendGridWindow

	Log     *slog.Logger         // nil: slog.Default()
	Metrics *prometheus.Registry // shown at /metrics, and given the API's own metrics; nil: a new one
	Version string               // of this program, for the OpenAPI document; empty: "dev"

	MaxRequests int           // handled at once; more are answered 503. 0: 512
	MaxWaiters  int           // requests that wait as they prefer; more do not wait. Not counted in MaxRequests. 0: 4096
	MaxWait     time.Duration // longest wait that is granted, at most 60 s. 0: 60 s
}

// API is the HTTP API: an [http.Handler], and a server of itself.
type API struct {
	charges  *charges.Service
	log      *slog.Logger
	metrics  *metrics
	ready    *readiness
	document []byte // the OpenAPI document
	mux      *http.ServeMux
	slots    semaphore // requests
	shares   shares    // of them, by caller
	waiters  semaphore
	intake   semaphore // providers' events

	stripeSigned, sendGridSigned verifier // nil: not configured

	maxWait time.Duration

	stopping context.Context // ends when the server is told to stop: then nobody waits any longer
	stop     context.CancelFunc
}

// New makes the API. It fails where Charges is missing, a bound or a webhook key makes no sense, or the registry already has the API's metrics.
func New(config Config) (*API, error) {
	switch {
	case config.Charges == nil:
		return nil, errors.New("api: no charges")
	case config.MaxRequests < 0 || config.MaxWaiters < 0 || config.MaxWait < 0 || config.MaxWait > maxWait:
		return nil, fmt.Errorf("api: a bound is negative, or MaxWait is above %s", maxWait)
	}
	if config.Ready == nil {
		config.Ready = func(context.Context) error { return nil }
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Metrics == nil {
		config.Metrics = prometheus.NewRegistry()
	}
	a := &API{
		charges: config.Charges,
		log:     config.Log,
		ready:   &readiness{ask: config.Ready},
		slots:   make(semaphore, orDefault(config.MaxRequests, 512)),
		shares:  shares{most: leaveSome(orDefault(config.MaxRequests, 512)), held: map[string]int{}},
		waiters: make(semaphore, orDefault(config.MaxWaiters, 4096)),
		intake:  make(semaphore, maxIntake),
		maxWait: orDefault(config.MaxWait, maxWait),
	}
	a.stopping, a.stop = context.WithCancel(context.Background())
	var err error
	if a.stripeSigned, a.sendGridSigned, err = verifiers(config); err != nil {
		return nil, fmt.Errorf("api: webhooks: %w", err)
	}
	if a.metrics, err = newMetrics(config.Metrics); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	operations := a.operations()
	if a.document, err = document(operations, orDefault(config.Version, "dev")); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	a.mux = a.route(operations)
	return a, nil
}

func orDefault[T comparable](value, fallback T) T {
	if value == *new(T) {
		return fallback
	}
	return value
}

// leaveSome is how many of the places one caller may have: an eighth is left to others, whatever it does.
func leaveSome(places int) int { return places - places/8 }

// shares bounds how many requests of each caller are handled at once.
type shares struct {
	most int

	mu   sync.Mutex
	held map[string]int
}

// tryAcquire takes a place for the caller, unless it has all that it may have. release gives it back, once, however often it is called.
func (s *shares) tryAcquire(caller string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[caller] >= s.most {
		return nil, false
	}
	s.held[caller]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[caller]--; s.held[caller] == 0 {
			delete(s.held, caller)
		}
	}), true
}

// semaphore bounds how many do something at once.
type semaphore chan struct{}

// tryAcquire takes a place, unless all are taken. release gives it back, once, however often it is called.
func (s semaphore) tryAcquire() (release func(), ok bool) {
	select {
	case s <- struct{}{}:
		return sync.OnceFunc(func() { <-s }), true
	default:
		return nil, false
	}
}
