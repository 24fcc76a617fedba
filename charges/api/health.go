package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/oncepay/oncepay/outbox"
)

// Readiness is asked for by anybody, so what it costs is bounded, in time and in number.
const (
	readyTimeout = 5 * time.Second
	readyFor     = time.Second // how long an answer holds
)

// health is the answer to a probe.
type health struct {
	Status  string   `json:"status" enum:"ok,unavailable"`
	Reasons []string `json:"reasons,omitempty" nullable:"false" doc:"Why no requests should be sent here."`
}

// healthz only shows that the process answers: restarting it would not bring a database back.
func (a *API) healthz(w http.ResponseWriter, _ *call) error {
	return writeJSON(w, http.StatusOK, health{Status: "ok"})
}

func (a *API) readyz(w http.ResponseWriter, c *call) error {
	err := a.ready.now(c.Context())
	if err == nil {
		return writeJSON(w, http.StatusOK, health{Status: "ok"})
	}
	c.err = err
	return writeJSON(w, http.StatusServiceUnavailable, health{Status: "unavailable", Reasons: reasons(err)})
}

// readiness asks once for all who ask at the same time.
type readiness struct {
	ask func(context.Context) error

	mu  sync.Mutex
	at  time.Time
	err error
}

func (r *readiness) now(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < readyFor {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // the answer is not for this client alone
	defer cancel()
	r.err = r.ask(ctx)
	r.at = time.Now()
	return r.err
}

// reasons takes joined errors apart. A connection error names hosts and users, which are nobody's business.
func reasons(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, reasons(e)...)
		}
		return all
	}
	if outbox.Unavailable(err) && !errors.Is(err, outbox.ErrPooler) {
		return []string{"the database cannot be asked"}
	}
	return []string{err.Error()}
}
