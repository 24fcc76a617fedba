package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
)

// createCharge counts what becomes of creates: accepted, replayed (stored answer), expired (the charge as it is now), or
// the code of the refusal.
func (a *API) createCharge(w http.ResponseWriter, c *call) error {
	outcome, err := a.create(w, c)
	if err != nil {
		outcome = string(problemOf(err).Code)
	}
	a.metrics.creates.WithLabelValues(outcome).Inc()
	return err
}

func (a *API) create(w http.ResponseWriter, c *call) (outcome string, err error) {
	key, err := charges.ParseKey(c.Header.Values("Idempotency-Key"))
	if err != nil {
		return "", err
	}
	body, err := readBody(w, c)
	if err != nil {
		return "", err
	}
	request, err := charges.DecodeRequest(body)
	if err != nil {
		return "", err
	}
	answer := a.charges.Create(c.Context(), charges.CreateCharge{Caller: c.token.Name, Key: key, Request: request})
	if answer.Err != nil {
		return "", answer.Err
	}
	c.charge, c.replayed = answer.ChargeID, answer.Replayed

	header := w.Header()
	header.Set("Location", "/charges/"+answer.ChargeID.String())
	outcome = "accepted"
	if answer.Replayed {
		header.Set("Idempotent-Replayed", "true")
		outcome = "replayed"
	}
	if answer.Expires.IsZero() {
		outcome = "expired"
	} else {
		header.Set("Idempotency-Expires", answer.Expires.UTC().Format(time.RFC3339))
	}
	status, body := answer.Status, answer.Body
	if wait := preferredWait(c.Header.Values("Prefer"), a.maxWait); wait > 0 {
		if live, settled, ok := a.await(c, answer.ChargeID, wait); ok {
			header.Set("Preference-Applied", fmt.Sprintf("wait=%d", wait/time.Second))
			body = live
			if settled {
				status = http.StatusOK
			}
		}
	}
	writeBody(w, status, "application/json", body)
	return outcome, nil
}

// await reads the charge once it is settled, or after wait, or when the server is told to stop. It is not ok where too many
// wait already, or where the charge cannot be read: the charge was accepted all the same, and the stored answer says so.
func (a *API) await(c *call, id uuid.UUID, wait time.Duration) (live []byte, settled, ok bool) {
	leave, ok := a.waiters.tryAcquire()
	if !ok {
		return nil, false, false
	}
	defer leave()
	c.yield() // an outage of Stripe must not fill the API with those who wait for its end

	ctx, cancel := context.WithTimeout(c.Context(), wait)
	defer cancel()
	defer context.AfterFunc(a.stopping, cancel)()
	charge, err := a.charges.Wait(ctx, c.token.Name, id)
	if err == nil {
		live, err = json.Marshal(charge)
	}
	if err != nil {
		c.err = fmt.Errorf("read accepted charge: %w", err)
		return nil, false, false
	}
	return live, !charge.Status.Waiting(), true
}
