package workers

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/workers/transport"
)

// moment is where a run of a job stops by itself, to be suspended or to die.
type moment struct {
	before, after string // a request, before it leaves or after its answer has come: "POST", "GET" (a list) or "mail"; empty: none
	commit        int    // or the COMMIT of this number, from 1 on
	committed     bool   // after it, else before
	dies          bool   // as by kill -9, else it sleeps until the world wakes it
}

// run is one run of a job, in a goroutine of its own. A run that sleeps or dies does so inside a call or a commit of the real code.
type run struct {
	name    string
	process int
	job     int64 // in river_job; 0: a job that has no row
	charge  uuid.UUID
	stop    moment
	commits int
	naps    []nap

	asleep chan struct{} // it has gone to sleep
	wake   chan bool     // false: it dies instead
	done   chan struct{}
	died   bool
	err    error
}

// nap is a suspension that is over.
type nap struct {
	until time.Time // by the machine's clock, which did not notice
	slept time.Duration
}

type runKey struct{}

// runOf finds the run that a call or a commit belongs to; nil: the world's own.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// halt is where the run stops: it comes back when it is woken up, and never if it dies. What dies runs no statement of its own any
// more; only what was deferred runs, which rolls back, as PostgreSQL does for a client that is gone.
func (r *run) halt() {
	dies := r.stop.dies
	r.stop = moment{}
	if !dies {
		r.asleep <- struct{}{}
		dies = !<-r.wake
	}
	if dies {
		r.died = true
		runtime.Goexit()
	}
}

// awake is a deadline as it would be had the machine's clock gone on while the run was suspended. The transport compares the two, so it is
// the same whether the clock shows more, or the deadline is earlier by as much.
func (r *run) awake(deadline time.Time) time.Time {
	began := deadline.Add(-notAfter)
	for _, n := range r.naps {
		if n.until.After(began) {
			deadline = deadline.Add(-n.slept)
		}
	}
	return deadline
}

// wire stands around the real transport of both providers.
type wire struct{ base http.RoundTripper }

func wrapWire(base http.RoundTripper) http.RoundTripper { return wire{base} }

func (w wire) CloseIdleConnections() {
	if c, ok := w.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (w wire) RoundTrip(req *http.Request) (*http.Response, error) {
	r := runOf(req.Context())
	if r == nil {
		return w.base.RoundTrip(req)
	}
	kind := requestKind(req)
	if kind != "" && r.stop.before == kind {
		r.halt()
	}
	if deadline := transport.NotAfter(req.Context()); !deadline.IsZero() {
		req = req.WithContext(transport.WithNotAfter(req.Context(), r.awake(deadline)))
	}
	resp, err := w.base.RoundTrip(req)
	if kind == "" || r.stop.after != kind {
		return resp, err
	}
	if err == nil { // the answer is here, whatever becomes of the run
		var body []byte
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(strings.NewReader(string(body)))
		if err != nil {
			resp = nil
		}
	}
	r.halt()
	return resp, err
}

// requestKind is empty for requests that no moment is about, such as the probe's.
func requestKind(req *http.Request) string {
	switch {
	case req.URL.Path == "/v1/payment_intents" || strings.HasSuffix(req.URL.Path, "/cancel"):
		return req.Method
	case req.URL.Path == "/v3/mail/send":
		return "mail"
	}
	return ""
}

// commits stands around every COMMIT.
type commits struct{}

type commitKey struct{}

func (commits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r := runOf(ctx)
	if r == nil || !strings.EqualFold(q.SQL, "commit") {
		return ctx
	}
	r.commits++
	if r.stop.commit != r.commits {
		return ctx
	}
	if !r.stop.committed {
		r.stop.dies = true // a run that slept in a transaction would hold its lock
		r.halt()
	}
	return context.WithValue(ctx, commitKey{}, true)
}

func (commits) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(commitKey{}) != nil {
		runOf(ctx).halt()
	}
}
