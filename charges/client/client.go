package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"
)

const (
	defaultAttemptTimeout = 20 * time.Second // the server itself gives up on a busy key after 5 s
	defaultMaxAttempts    = 8
	defaultMaxElapsed     = time.Minute
)

// Client calls one Oncepay deployment with one token. It is safe for concurrent use; make one and keep it.
type Client struct {
	base           string // without a trailing slash
	authorize      func(http.Header)
	userAgent      string
	http           *http.Client
	attemptTimeout time.Duration
	maxAttempts    int
	maxElapsed     time.Duration

	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// Option changes a default of [New].
type Option func(*Client) error

// New returns a client for the API at baseURL (such as https://pay.example.com, with or without a path prefix), using
// an API token as made by `oncepay keys create`. It makes no request.
func New(baseURL, token string, opts ...Option) (*Client, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("oncepay: the token is empty or has characters that no token has")
	}
	c := &Client{
		base: base,
		// A closure, since a string field would show in every %+v of the client.
		authorize:      func(h http.Header) { h.Set("Authorization", "Bearer "+token) },
		userAgent:      "oncepay-go (" + runtime.Version() + ")",
		http:           &http.Client{Transport: newTransport()},
		attemptTimeout: defaultAttemptTimeout,
		maxAttempts:    defaultMaxAttempts,
		maxElapsed:     defaultMaxElapsed,
		now:            time.Now,
		sleep:          sleep,
	}
	for _, opt := range opts {
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	// net/http follows 301, 302 and 303 with a GET: its 200 would look like an accepted charge.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// WithHTTPClient uses the transport, cookie jar and timeout of h. h itself is not changed, and its CheckRedirect is
// not used. A timeout of h applies to each attempt, and should be longer than any [CreateParams.Wait].
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h == nil {
			return errors.New("oncepay: WithHTTPClient(nil)")
		}
		own := *h
		c.http = &own
		return nil
	}
}

// WithAttemptTimeout bounds one attempt, connecting and reading included; 20 s by default. [CreateParams.Wait] is
// added to it.
func WithAttemptTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d <= 0 {
			return fmt.Errorf("oncepay: attempt timeout %s is not positive", d)
		}
		c.attemptTimeout = d
		return nil
	}
}

// WithMaxAttempts bounds the attempts of one call, the first included; 8 by default.
func WithMaxAttempts(n int) Option {
	return func(c *Client) error {
		if n < 1 {
			return fmt.Errorf("oncepay: %d attempts cannot make a call", n)
		}
		c.maxAttempts = n
		return nil
	}
}

// WithMaxElapsed sets how long after the start of a call its last attempt may start; 60 s by default. So a call takes
// at most this and one attempt's timeout.
func WithMaxElapsed(d time.Duration) Option {
	return func(c *Client) error {
		if d < 0 {
			return fmt.Errorf("oncepay: maximum elapsed time %s is negative", d)
		}
		c.maxElapsed = d
		return nil
	}
}

// WithUserAgent puts a product, such as "shop/1.4", in front of the client's own User-Agent.
func WithUserAgent(product string) Option {
	return func(c *Client) error {
		if product == "" || strings.ContainsFunc(product, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
			return errors.New("oncepay: the user agent must be printable ASCII")
		}
		c.userAgent = product + " " + c.userAgent
		return nil
	}
}

// parseBase refuses what would end up in error texts (a password) or be lost in joining (a query).
func parseBase(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("oncepay: the base URL cannot be parsed") // the parser's error repeats the URL, with any password in it
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("oncepay: the base URL must be http:// or https:// and a host")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", errors.New("oncepay: the base URL must not have a user, a query or a fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// newTransport keeps more idle connections than net/http's two per host: all calls go to one.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   100,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}
