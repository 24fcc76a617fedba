package sandbox

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
	"github.com/oncepay/oncepay/workers/stripe/stripetest"
)

// maxControl bounds the body of a control request: an event can be set to hold 300 kB and more.
const maxControl = 1 << 20

func (s *Sandbox) routeControls() {
	s.mux.HandleFunc("GET /_sandbox/ledger", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.Ledger()) })
	s.mux.HandleFunc("GET /_sandbox/faults", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string][]Fault{"faults": s.Faults()})
	})
	s.mux.HandleFunc("POST /_sandbox/faults", s.postFault)
	s.mux.HandleFunc("DELETE /_sandbox/faults", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]int{"cleared": s.ClearFaults()})
	})
	s.mux.HandleFunc("POST /_sandbox/clock", s.postClock)
	s.mux.HandleFunc("POST /_sandbox/payment_intents/{id}/authenticate", s.postAuthenticate)
	s.mux.HandleFunc("POST /_sandbox/payment_intents/{id}/dispute", s.postDispute)
	s.mux.HandleFunc("POST /_sandbox/refunds/{id}/fail", s.postFailRefund)
	s.mux.HandleFunc("GET /_sandbox/webhooks", func(w http.ResponseWriter, _ *http.Request) { s.showWebhooks(w) })
	s.mux.HandleFunc("PUT /_sandbox/webhooks", s.putWebhooks)
	s.mux.HandleFunc("POST /_sandbox/webhooks/deliver", s.postDeliver)
	s.mux.HandleFunc("GET /_sandbox/events", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string][]Event{"events": s.Events()})
	})
	s.mux.HandleFunc("/_sandbox/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("the sandbox has no control %s %s", r.Method, r.URL.Path))
	})
}

// postFault arms a fault and answers with it, defaults filled in.
func (s *Sandbox) postFault(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Fault
		// Shadowing the numbers whose zero means a default in Go: in a request that is a mistake.
		Times       *int     `json:"times"`
		Probability *float64 `json:"probability"`
	}
	if err := decode(r, &body); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	f := body.Fault
	if body.Times != nil {
		f.Times = *body.Times
	}
	if body.Probability != nil {
		f.Probability = *body.Probability
	}
	if body.Times != nil && f.Times == 0 {
		refuse(w, http.StatusBadRequest, errors.New("times must be 1 or more, or -1 for until cleared"))
		return
	}
	if body.Probability != nil && f.Probability == 0 {
		refuse(w, http.StatusBadRequest, errors.New("probability must be more than 0 and at most 1"))
		return
	}
	armed, err := s.frame.Faults.Arm(f)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	reply(w, http.StatusOK, armed)
}

func (s *Sandbox) postClock(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Advance string `json:"advance"`
	}
	if err := decode(r, &body); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	d, err := time.ParseDuration(body.Advance)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("advance must be a duration such as 25h or 90s: %w", err))
		return
	}
	switch err := s.Advance(d); {
	case errors.Is(err, frame.ErrNotForward):
		refuse(w, http.StatusBadRequest, err)
	case err != nil:
		refuse(w, http.StatusInternalServerError, err)
	default:
		reply(w, http.StatusOK, map[string]time.Time{"now": s.Now()})
	}
}

// postAuthenticate is where the next_action of a payment points.
func (s *Sandbox) postAuthenticate(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Outcome string `json:"outcome"`
	}
	err := decode(r, &body)
	if err == nil && body.Outcome != "succeeded" && body.Outcome != "failed" {
		err = errors.New("outcome must be succeeded or failed")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	finish(w, s.Authenticate(r.PathValue("id"), body.Outcome == "succeeded"))
}

func (s *Sandbox) postDispute(w http.ResponseWriter, r *http.Request) {
	var body Challenge
	if err := decode(r, &body); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	finish(w, s.Dispute(r.PathValue("id"), body))
}

func (s *Sandbox) postFailRefund(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := decode(r, &body); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	finish(w, s.FailRefund(r.PathValue("id"), body.Reason))
}

// finish answers a control that plays a part at Stripe.
func finish(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, stripetest.ErrNoSuchPayment) || errors.Is(err, stripetest.ErrNotFound):
		refuse(w, http.StatusNotFound, err)
	case errors.Is(err, stripetest.ErrNotWaiting) || errors.Is(err, stripetest.ErrWrongState):
		refuse(w, http.StatusConflict, err)
	case errors.Is(err, stripetest.ErrBadControl):
		refuse(w, http.StatusBadRequest, err)
	default:
		refuse(w, http.StatusInternalServerError, err)
	}
}

// errBadBody refuses the body of a control request.
var errBadBody = errors.New("the body cannot be read")

// decode takes exactly one JSON value with known members only, or returns errBadBody.
func decode(r *http.Request, into any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxControl+1))
	if err != nil {
		return fmt.Errorf("%w: %w", errBadBody, err)
	}
	if len(raw) > maxControl {
		return fmt.Errorf("%w: it is too large", errBadBody)
	}
	if err := json.Unmarshal(raw, into, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %w", errBadBody, err)
	}
	return nil
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := stdjson.NewEncoder(w)
	out.SetIndent("", "  ")
	// A client that has gone away needs no answer.
	_ = out.Encode(body)
}

func refuse(w http.ResponseWriter, status int, err error) {
	reply(w, status, map[string]string{"error": err.Error()})
}
