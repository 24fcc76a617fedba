package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// ServeHTTP answers one request, and leaves one line in the log and one observation in the metrics, whatever becomes of it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, id: requestID(r.Header), started: time.Now()}
	rec := &recorder{ResponseWriter: w}
	header := w.Header()
	header.Set("X-Request-Id", c.id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	defer func() {
		broken := recoverInto(rec, c, recover())
		a.observe(rec, c)
		if broken {
			panic(http.ErrAbortHandler) // net/http closes the connection: half an answer must not look whole
		}
	}()
	a.find(rec, c)
}

// recoverInto turns a panic into a 500, and tells whether the answer had already begun.
func recoverInto(rec *recorder, c *call, panicked any) (broken bool) {
	if panicked == nil {
		return false
	}
	err := fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	if rec.status == 0 {
		c.refuse(rec, err)
		return false
	}
	c.code, c.err = codeInternal, err
	return true
}

func (a *API) observe(rec *recorder, c *call) {
	took := time.Since(c.started)
	status := rec.status
	if status == 0 {
		status = http.StatusOK // what net/http sends for a handler that wrote nothing
	}
	route, method := "unmatched", "other"
	if c.operation != nil {
		route, method = c.operation.path, c.operation.method
	}
	a.metrics.requests.WithLabelValues(route, method, statusClass(status)).Observe(took.Seconds())
	a.log.LogAttrs(c.Context(), level(c, status), "http.request", attributes(c, route, status, rec.bytes, took)...)
}

// statusClass is a status without what tells it from its like.
func statusClass(status int) string {
	if classes := [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}; status >= 100 && status < 600 {
		return classes[status/100-1]
	}
	return strconv.Itoa(status)
}

// level keeps the probes, which come every second, out of an ordinary log.
func level(c *call, status int) slog.Level {
	switch {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status > http.StatusInternalServerError || c.err != nil && c.code == "":
		return slog.LevelWarn
	case c.operation != nil && len(c.operation.roles) == 0 && !c.operation.signed:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

// attributes tells who asked for what and what came of it: ids, names and codes, never what was sent.
func attributes(c *call, route string, status int, bytes int64, took time.Duration) []slog.Attr {
	attrs := make([]slog.Attr, 0, 12) // all that there can be
	attrs = append(attrs,
		slog.String("request_id", c.id),
		slog.String("method", c.Method[:min(len(c.Method), 16)]), // a token, which has one byte a character
		slog.String("route", route),
		slog.Int("status", status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", bytes))
	if c.token.Name != "" {
		attrs = append(attrs, slog.String("caller", c.token.Name), slog.String("role", string(c.token.Role)))
	}
	if c.charge != uuid.Nil {
		attrs = append(attrs, slog.String("charge_id", c.charge.String()))
	}
	if c.replayed {
		attrs = append(attrs, slog.Bool("replayed", true))
	}
	if c.code != "" {
		attrs = append(attrs, slog.String("code", string(c.code)))
	}
	// A refusal's own text says no more than its code, but for why we are unavailable.
	if c.err != nil && (c.code == codeUnavailable || (c.code == "" || c.code == codeInternal) && !errors.As(c.err, new(problem))) {
		attrs = append(attrs, slog.String("error", c.err.Error()))
	}
	return attrs
}

// saneRequestID is what a client may call its request; anything else could forge lines of a log.
var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

func requestID(h http.Header) string {
	if ids := h.Values("X-Request-Id"); len(ids) == 1 && saneRequestID.MatchString(ids[0]) {
		return ids[0]
	}
	return rand.Text()
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing yet
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets [http.ResponseController] reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
