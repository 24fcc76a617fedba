package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxBody bounds what is read of an answer: a full page of charges with full metadata fits several times.
const maxBody = 16 << 20

// request is one logical operation; every attempt at it sends the same.
type request struct {
	method string
	path   string
	query  url.Values
	key    string // idempotency key; empty for what is idempotent without one
	body   []byte
	wait   time.Duration // how long the server may hold the answer back
}

// Answer tells how a charge was answered, beside what it says.
type Answer struct {
	HTTPStatus int
	Replayed   bool      // the stored answer of an earlier request with this key
	KeyExpires time.Time // until when the answer is stored; zero where the server does not say
	RequestID  string
	Attempts   int // that this call made; at least 1
}

// send repeats r until there is an answer that check accepts, a refusal, or nothing left to spend.
func send[T any](ctx context.Context, c *Client, r request, check func(*T) error) (*T, Answer, error) {
	started := c.now()
	open := false // some attempt may have had an effect that we do not know of
	for attempt := 1; ; attempt++ {
		value, answer, err := once(ctx, c, r, check)
		if err == nil {
			answer.Attempts = attempt
			return value, answer, nil
		}
		refused, isRefusal := errors.AsType[*Error](err)
		if isRefusal && !refused.retryable() {
			if open && r.key != "" {
				return nil, Answer{}, r.unsettled(err, nil, attempt)
			}
			return nil, Answer{}, refused
		}
		// Without an answer, anything may have happened. That goes for a failure to connect as well: net/http may have
		// sent the request on an old connection, and failed only in sending it again.
		open = open || !isRefusal || refused.Status != http.StatusTooManyRequests
		if stop := c.pause(ctx, started, attempt, minimumPause(refused)); stop != nil {
			return nil, Answer{}, r.failure(err, stop, attempt)
		}
	}
}

func minimumPause(refused *Error) time.Duration {
	if refused == nil {
		return 0
	}
	return refused.RetryAfter
}

// once makes one attempt. Its error is *Error for a complete answer other than 2xx.
func once[T any](ctx context.Context, c *Client, r request, check func(*T) error) (*T, Answer, error) {
	limit := c.attemptTimeout + r.wait
	attemptCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	status, header, body, err := c.exchange(attemptCtx, r)
	if err == nil {
		value, err := decode(body, check)
		if err != nil {
			return nil, Answer{}, fmt.Errorf("answer %d cannot be read: %w", status, err)
		}
		return value, newAnswer(status, header), nil
	}
	if _, isRefusal := errors.AsType[*Error](err); !isRefusal && attemptCtx.Err() != nil && ctx.Err() == nil {
		// Not the context's own error: the caller's context is alive.
		return nil, Answer{}, fmt.Errorf("no complete answer within %s", limit)
	}
	return nil, Answer{}, err
}

// exchange sends r once and reads the answer. Its error is *Error for an answer other than 2xx.
func (c *Client) exchange(ctx context.Context, r request) (int, http.Header, []byte, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var content io.Reader
	if r.body != nil {
		content = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, content)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("build request: %w", err)
	}
	c.setHeader(req.Header, r)
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end or given up: nothing to learn from it
	body, err := readBounded(res.Body)
	success := res.StatusCode >= 200 && res.StatusCode <= 299
	// A refusal's status says enough without its text, but for 409: only the code tells a busy key from the rest.
	if !success && (err == nil || res.StatusCode != http.StatusConflict) {
		return 0, nil, nil, refusal(res, body, r.key, c.now())
	}
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read answer %d: %w", res.StatusCode, err)
	}
	return res.StatusCode, res.Header, body, nil
}

func (c *Client) setHeader(h http.Header, r request) {
	c.authorize(h)
	h.Set("User-Agent", c.userAgent)
	h.Set("Accept", "application/json, application/problem+json")
	if r.body != nil {
		h.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		h.Set("Idempotency-Key", r.key)
	}
	if r.wait > 0 {
		// RFC 7240 knows whole seconds only.
		h.Set("Prefer", fmt.Sprintf("wait=%d", (r.wait+time.Second-1)/time.Second))
	}
}

func newAnswer(status int, h http.Header) Answer {
	return Answer{
		HTTPStatus: status,
		Replayed:   h.Get("Idempotent-Replayed") == "true",
		KeyExpires: headerTime(h.Get("Idempotency-Expires")),
		RequestID:  h.Get("X-Request-Id"),
	}
}

func headerTime(text string) time.Time {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	if at, err := http.ParseTime(text); err == nil {
		return at
	}
	return time.Time{}
}

// decode takes nothing for an answer that only looks like one, such as a login page's {"ok":true}.
func decode[T any](body []byte, check func(*T) error) (*T, error) {
	value := new(T)
	if err := json.Unmarshal(body, value); err != nil {
		return nil, err
	}
	if err := check(value); err != nil {
		return nil, err
	}
	return value, nil
}

func readBounded(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("longer than %d bytes", maxBody)
	}
	return body, err
}
