package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// ErrNotSent is wrapped by the error of a call of which nothing was written to any connection, and nothing will be.
var ErrNotSent = errors.New("nothing was sent")

// ErrUnknown is wrapped by the errors of calls that were, or may have been, carried out, and whose answer is
// missing or cannot be believed.
var ErrUnknown = errors.New("outcome unknown")

const (
	// DefaultTimeout bounds a call, from the dial to the last byte of the answer.
	DefaultTimeout = 25 * time.Second

	connectTimeout  = 5 * time.Second  // to dial, and again for the TLS handshake
	headerTimeout   = 20 * time.Second // leaves some of the whole for the body
	idleTimeout     = 60 * time.Second
	idleConnections = 1024 // above any number of calls at once: one that is closed between two calls costs the next a handshake
	maxHeader       = 256 << 10
	maxRequest      = 1 << 20
	maxAnswer       = 32 << 20 // 100 payments that carry the most metadata that Stripe allows, every character as a \u escape
)

// Options make a RoundTripper for one provider.
type Options struct {
	// RequireKey refuses every POST without an Idempotency-Key header. Without it, every POST that has one is
	// refused: the header promises a replay that the provider does not know.
	RequireKey bool
	// Timeout bounds each call; 0 means DefaultTimeout.
	Timeout time.Duration
}

type roundTripper struct {
	base       *http.Transport
	requireKey bool
	timeout    time.Duration
}

// New makes a RoundTripper. Proxies are taken from the environment. Its CloseIdleConnections releases what it holds.
func New(o Options) http.RoundTripper { return newRoundTripper(o) }

func newRoundTripper(o Options) *roundTripper {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	// One request at a time on a connection, so that a write belongs to one call. HTTP/2 would mix them.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &roundTripper{requireKey: o.RequireKey, timeout: o.Timeout, base: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &conn{Conn: c}, nil
		},
		Protocols:              protocols,
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    idleConnections,
		MaxResponseHeaderBytes: maxHeader,
	}}
}

// Client makes an http.Client that follows no redirects: its answer to one is the redirect itself. It has no Timeout of its own,
// because http.Client would put that in place of the error that tells whether anything was sent. wrap, if not nil, is put around rt.
func Client(rt http.RoundTripper, wrap func(http.RoundTripper) http.RoundTripper) *http.Client {
	if wrap != nil {
		rt = wrap(rt)
	}
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CloseIdleConnections is found by http.Client's method of that name.
func (t *roundTripper) CloseIdleConnections() { t.base.CloseIdleConnections() }

func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now()
	body, err := t.admit(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	ctx, cancel := context.WithTimeout(req.Context(), t.timeout)
	call := &call{notAfter: notAfter(ctx)}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { call.take(info.Conn) },
	})
	out := req.Clone(ctx)
	if body != nil {
		// A body that cannot be had a second time is what keeps net/http from sending the request again when a
		// kept-alive connection dies. It holds for an empty body as well, as long as it is not nil.
		out.Body, out.GetBody, out.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	}
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		cancel()
		if call.end() {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	record(ctx, resp, began)
	resp.Request = req
	resp.Body = &answerBody{http.MaxBytesReader(nil, resp.Body, maxAnswer), cancel}
	return resp, nil
}

// admit reads the body of a POST (nil for a GET), unless the request must not leave.
func (t *roundTripper) admit(req *http.Request) (body []byte, err error) {
	if req.Body != nil {
		defer func() { err = errors.Join(err, req.Body.Close()) }()
	}
	deadline := notAfter(req.Context())
	_, hasKey := req.Header["Idempotency-Key"]
	switch {
	case tooLate(deadline):
		return nil, errTooLate
	case req.Method == http.MethodGet:
		return nil, nil
	case req.Method != http.MethodPost:
		return nil, fmt.Errorf("%s requests are not made", req.Method)
	case deadline.IsZero():
		return nil, errors.New("a POST needs a time after which it must not leave")
	case t.requireKey && req.Header.Get("Idempotency-Key") == "":
		return nil, errors.New("a POST needs an Idempotency-Key")
	case !t.requireKey && hasKey:
		return nil, errors.New("this provider knows no Idempotency-Key")
	case req.Body == nil:
		return []byte{}, nil
	}
	body, err = io.ReadAll(io.LimitReader(req.Body, maxRequest+1))
	if err == nil && len(body) > maxRequest {
		err = fmt.Errorf("the request is larger than %d bytes", maxRequest)
	}
	return body, err
}

// answerBody ends the call when it is closed.
type answerBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *answerBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
