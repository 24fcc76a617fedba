package frame

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// maxBody bounds a request: larger than any mail that is sent here, and small enough to hold in memory.
const maxBody = 4 << 20

// Frame serves providers, each under its own prefix of the path, as one http.Handler.
type Frame struct {
	Clock    *Clock
	Faults   *Faults
	Webhooks *Webhooks

	journal   *Journal
	logger    *slog.Logger
	providers map[string]Provider
	requests  requestLog
	closed    chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// New makes a frame; providers are registered by their path prefix, such as "/v1/".
func New(clock *Clock, faults *Faults, webhooks *Webhooks, journal *Journal, logger *slog.Logger, providers map[string]Provider) *Frame {
	return &Frame{
		Clock: clock, Faults: faults, Webhooks: webhooks, journal: journal, logger: logger, providers: providers,
		requests: requestLog{journal: journal},
		closed:   make(chan struct{}),
	}
}

// Keepers are the frame's own parts that the journal keeps.
func (f *Frame) Keepers() []Keeper { return []Keeper{f.Clock, &f.requests, f.Webhooks} }

// Requests returns the last 10,000 requests in order of arrival.
func (f *Frame) Requests() []LoggedRequest { return f.requests.all() }

// Close drops the requests that are being held, undone, stops sending webhooks, and releases the journal.
func (f *Frame) Close() error {
	f.closeOnce.Do(func() {
		close(f.closed)
		f.Webhooks.close()
		f.closeErr = f.journal.Close()
	})
	return f.closeErr
}

// ServeHTTP lets one request through its provider and its fault.
func (f *Frame) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	provider := f.provider(r.URL.Path)
	if provider == nil {
		http.Error(w, "the sandbox serves nothing at this path", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			http.Error(w, "the sandbox takes bodies up to 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		// The request never arrived whole, so nothing is done and nobody is there to answer.
		panic(http.ErrAbortHandler)
	}
	req := &Request{
		Method: r.Method, Host: r.Host, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Body: body,
		closed: f.closed,
	}
	req.Traits = provider.Identify(req)
	req.Fault = f.Faults.take(req.Method, req.Path, req.Traits)

	entry := LoggedRequest{
		Method: req.Method, Path: req.Path, Query: r.URL.RawQuery, At: f.Clock.Now(),
		Account: req.Traits.Account, IdempotencyKey: req.Traits.IdempotencyKey,
	}
	if req.Fault != nil {
		entry.Fault = req.Fault.Kind
	}
	entry, err = f.requests.arrive(entry)
	if err != nil {
		f.fail(w, entry, err)
		return
	}
	answer, err := perform(provider, req)
	if errors.Is(err, ErrClosed) {
		panic(http.ErrAbortHandler)
	}
	if err == nil {
		err = f.requests.answered(entry, answer.Status)
	}
	if err != nil {
		f.fail(w, entry, err)
		return
	}
	f.logger.Info("sandbox.request", "method", entry.Method, "path", entry.Path, "status", answer.Status,
		"fault", entry.Fault, "account", entry.Account, "idempotency_key", entry.IdempotencyKey)
	f.send(w, req, answer)
}

func (f *Frame) provider(path string) Provider {
	for prefix, p := range f.providers {
		if strings.HasPrefix(path, prefix) {
			return p
		}
	}
	return nil
}

// perform does what the request asks, unless its fault forbids that. A dropped request has a zero Answer.
func perform(provider Provider, req *Request) (Answer, error) {
	if req.Fault != nil && (req.Fault.Kind == DropBefore || req.Fault.Kind == Status) {
		if err := req.Hold(); err != nil {
			return Answer{}, err
		}
		if req.Fault.Kind == DropBefore {
			return Answer{}, nil
		}
		return provider.Refuse(req), nil
	}
	return provider.Answer(req)
}

// send delivers the answer, or what its fault leaves of it. http.ErrAbortHandler makes net/http close the
// connection without another byte.
func (f *Frame) send(w http.ResponseWriter, req *Request, answer Answer) {
	kind := Kind("")
	if req.Fault != nil {
		kind = req.Fault.Kind
	}
	if kind == DropBefore || kind == DropAfter {
		panic(http.ErrAbortHandler)
	}
	if kind == HTML {
		answer = htmlPage(answer)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Date", f.Clock.Now().Format(http.TimeFormat))
	if kind != Truncate {
		w.WriteHeader(answer.Status)
		// A client that has gone away is no fault of the sandbox: the request log has the answer.
		_, _ = w.Write(answer.Body)
		return
	}
	// At least one byte is announced, so that an answer without a body arrives cut short as well.
	w.Header().Set("Content-Length", strconv.Itoa(max(len(answer.Body), 1)))
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body[:len(answer.Body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// htmlPage is what a proxy in front of a provider might answer instead of it.
func htmlPage(answer Answer) Answer {
	return Answer{
		Status: http.StatusOK,
		Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		Body:   fmt.Appendf(nil, "<!DOCTYPE html><title>Checking your browser</title><p>The answer behind this page was %d.</p>\n", answer.Status),
	}
}

// fail tells of a fault of the sandbox itself, such as a full disk.
func (f *Frame) fail(w http.ResponseWriter, entry LoggedRequest, err error) {
	f.logger.Error("sandbox.request failed", "method", entry.Method, "path", entry.Path, "err", err)
	http.Error(w, "the sandbox itself failed: "+err.Error(), http.StatusInternalServerError)
}
