package frame

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const (
	maxSending  = 16               // requests under way at once
	sendTimeout = 10 * time.Second // of one request, answer included

	// Repeats are in real time and close together, because people and tests wait for them.
	firstRepeat = 200 * time.Millisecond
	lastRepeat  = 10 * time.Second
	// scatter spreads first attempts, so that events of one moment arrive in no order, as they do in truth.
	scatter = 20 * time.Millisecond

	maxAnswer = 64 << 10 // how much of an answer is read, to keep the connection
	maxReason = 300      // bytes of an error that are kept
)

// newSender is a client that, as the providers, follows no redirects.
func newSender() *http.Client {
	return &http.Client{
		Timeout:       sendTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: maxSending, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// launch begins to send a pending parcel. w.mu is held.
func (w *Webhooks) launch(p *Parcel) {
	if w.started && p.State == Pending {
		w.sending.Go(func() { w.deliver(p) })
	}
}

// deliver sends the parcel until it is settled or the sandbox closes.
func (w *Webhooks) deliver(p *Parcel) {
	repeat := firstRepeat
	for wait := rand.N(scatter); w.sleep(wait); {
		tried, over := w.attempt(p)
		if over {
			return
		}
		wait = repeat
		if tried {
			repeat = min(2*repeat, lastRepeat)
		}
	}
}

// sleep reports whether the sandbox is still open after d.
func (w *Webhooks) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// attempt sends the parcel once, unless a fault or the want of a URL forbids it; over: there is nothing more to do.
func (w *Webhooks) attempt(p *Parcel) (tried, over bool) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-w.ctx.Done():
		return false, true
	}
	w.mu.Lock()
	state, endpoint, payloads := p.State, w.endpoints[p.Provider], p.payloads()
	w.mu.Unlock()
	if state != Pending {
		return false, true
	}
	if endpoint.URL == "" || w.faults.silence(p.Path) {
		return false, false
	}
	courier := w.couriers[p.Provider]
	body := courier.Body(payloads)
	status := 0
	header, err := courier.Sign(body, time.Now(), endpoint.Secret)
	if err == nil {
		status, err = w.send(w.ctx, courier, endpoint.URL, header, body)
	}
	if w.ctx.Err() != nil {
		return true, true // whatever came of it, the next start sends it again
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	p.Attempts++
	p.LastStatus, p.LastError = status, reason(err)
	w.logger.Info("sandbox.webhook", "provider", p.Provider, "id", p.ID, "type", p.Events[0].Type, "about", p.Events[0].About,
		"attempt", p.Attempts, "status", status, "err", err)
	switch {
	case p.State != Pending:
		return true, true // a Dispatch was quicker
	case ok(status):
		err = w.settle(p, Delivered)
	case w.lifeOver(p):
		err = w.settle(p, Abandoned)
	default:
		return true, false
	}
	if err != nil {
		w.logger.Error("sandbox.webhook failed", "id", p.ID, "err", err)
	}
	return true, true
}

func (p *Parcel) payloads() []json.RawMessage {
	payloads := make([]json.RawMessage, len(p.Events))
	for i, e := range p.Events {
		payloads[i] = e.Payload
	}
	return payloads
}

// send makes one request and returns the status that answered it.
func (w *Webhooks) send(ctx context.Context, courier Courier, url string, signature http.Header, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("send webhook: %w", err)
	}
	for _, header := range []http.Header{courier.Header(), signature} {
		for name, values := range header {
			req.Header[name] = slices.Clone(values)
		}
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("send webhook: %w", err)
	}
	defer resp.Body.Close()
	// The status has answered already; what is left of the body is read for the connection's sake alone.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, nil
}

func ok(status int) bool { return status >= 200 && status < 300 }

func reason(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), maxReason)]
}
