package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oncepay/oncepay/outbox"
)

// crashEnv names the point at which a process is to end as by kill -9, see [crashPoint.String].
const crashEnv = "ONCEPAY_TEST_CRASH"

// crashPoint is a side of a commit ("charge.accept before": everything is written, COMMIT not sent; "charge.accept after": COMMIT was
// answered) or of a call to a provider ("POST /v1/payment_intents before": nothing was sent; "... after": its answer came, and nobody has
// seen it), the nth time that a process comes by.
type crashPoint struct {
	at  string
	nth int // 0 means 1
}

func (p crashPoint) String() string { return fmt.Sprintf("%d %s", max(p.nth, 1), p.at) }

// armCrash makes this process end at the point.
func armCrash(point string) {
	nth, at, _ := strings.Cut(point, " ")
	left := new(atomic.Int64)
	n, err := strconv.ParseInt(nth, 10, 64)
	if err != nil {
		panic(err)
	}
	left.Store(n)
	reach := func(name string) {
		if name == at && left.Add(-1) == 0 {
			die(at)
		}
	}
	outbox.OnCommit = func(name string, when outbox.Moment) { reach(name + " " + string(when)) }
	aroundCalls = func(rt http.RoundTripper) http.RoundTripper { return crashingTransport{rt, reach} }
}

// crashMark is on stderr of a process that ended at its point.
const crashMark = "test crash: "

// die is kill -9 by one's own hand: nothing is flushed, closed or rolled back.
func die(at string) {
	fmt.Fprintln(os.Stderr, crashMark+at)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

type crashingTransport struct {
	http.RoundTripper
	reach func(at string)
}

func (t crashingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := callName(req.Method, req.URL.Path)
	t.reach(call + " before")
	resp, err := t.RoundTripper.RoundTrip(req)
	t.reach(call + " after")
	return resp, err
}

// CloseIdleConnections is found by http.Client's method of that name.
func (t crashingTransport) CloseIdleConnections() {
	if rt, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		rt.CloseIdleConnections()
	}
}

var idInPath = regexp.MustCompile(`/(pi|re|ch|dp)_\w+`)

// callName is a call's method and path, without the id in it.
func callName(method, path string) string {
	return method + " " + idInPath.ReplaceAllString(path, "/{id}")
}
