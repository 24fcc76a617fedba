package stripetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// Stripe's rules for keys: https://docs.stripe.com/api/idempotent_requests
const (
	// keyMemory is how long a key is remembered. Stripe promises at least this; the sandbox forgets at once
	// after it, because that is what must be survived.
	keyMemory    = 24 * time.Hour
	maxKeyLength = 255
)

// storedAnswer is what a key remembers.
type storedAnswer struct {
	Owner       partition
	Key         string
	Fingerprint string // of path and parameters
	FirstUse    time.Time
	Status      int
	Body        []byte
	RequestID   string // of the request that was carried out
}

func (a *storedAnswer) forgotten(now time.Time) bool { return now.Sub(a.FirstUse) >= keyMemory }

// claim is a key in use by a request that has not been answered.
type claim struct {
	who partition
	key string
}

// write carries out a POST once per key.
func (s *Stripe) write(r *frame.Request, who partition, do operation) (frame.Answer, error) {
	requestID := newID("req_")
	key := r.Traits.IdempotencyKey
	if len(key) > maxKeyLength {
		return respond(r, requestID, nil, invalid(400, "", "", fmt.Sprintf("An idempotency key has at most %d characters.", maxKeyLength))), nil
	}
	// Whether Stripe remembers the key is decided when the request comes in. A clock that is moved while a fault holds the request
	// must not make it one that pays again: nobody else can use the key meanwhile.
	var stored *storedAnswer
	if key != "" {
		var free bool
		if stored, free = s.claim(claim{who, key}); !free {
			return respond(r, requestID, nil, invalid(409, "idempotency_key_in_use", "", "Another request with this idempotency key is in progress.")), nil
		}
		defer s.release(claim{who, key})
	}
	if err := r.Hold(); err != nil {
		return frame.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	env := environment{now: s.clock.Now(), who: who, key: key, host: r.Host}
	b := s.book(who)
	if err := s.settle(b, env.now); err != nil {
		return frame.Answer{}, err
	}
	p := formParams(r)
	fingerprint := fingerprint(r.Path, p.values)
	if stored != nil {
		return stored.replay(r, requestID, fingerprint), nil
	}

	done, apiErr, executed := perform(r.Fault, b, p, env, do)
	answer := respond(r, requestID, done.view(), apiErr)
	if key != "" && executed {
		answer.Header.Set("Original-Request", requestID)
		stored = &storedAnswer{
			Owner: who, Key: key, Fingerprint: fingerprint, FirstUse: env.now,
			Status: answer.Status, Body: answer.Body, RequestID: requestID,
		}
	}
	return answer, s.commit(b, done, stored, cause{at: env.now, requestID: requestID, key: key})
}

// perform runs the operation, under a stored_status fault if there is one. It returns what it changed, nil for
// nothing; the error to answer; and whether execution began, after which Stripe stores the
// answer: for a success, a decline or a failure of its own, not for parameters that it refuses. Those pass
// the fault by.
func perform(f *frame.Fault, b *book, p *params, env environment, do operation) (*change, *apiError, bool) {
	faulty := f != nil && f.Kind == frame.StoredStatus
	if faulty && !f.Done {
		return nil, faultError(f), true
	}
	done, apiErr := do(b, p, env)
	switch {
	case apiErr != nil && apiErr.Type != "card_error":
		return nil, apiErr, false
	case faulty:
		return done, faultError(f), true
	}
	return done, apiErr, true
}

// claim takes the key for one request, and returns what is remembered under it; false: another request has it.
func (s *Stripe) claim(c claim) (*storedAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[c] {
		return nil, false
	}
	s.inFlight[c] = true
	return s.book(c.who).keys.recall(c.key, s.clock.Now()), true
}

func (s *Stripe) release(c claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inFlight, c)
}

// replay gives the stored answer again, or refuses a request that is not the one the key was used for.
func (a *storedAnswer) replay(r *frame.Request, requestID, fingerprint string) frame.Answer {
	if a.Fingerprint != fingerprint {
		return respond(r, requestID, nil, &apiError{
			status: 400, Type: "idempotency_error",
			Message: "This idempotency key was used for another path or other parameters.",
		})
	}
	answer := frame.Answer{Status: a.Status, Header: headers(r, requestID), Body: a.Body}
	answer.Header.Set("Idempotent-Replayed", "true")
	answer.Header.Set("Original-Request", a.RequestID)
	return answer
}

// fingerprint does not depend on the order of parameters.
func fingerprint(path string, values url.Values) string {
	sum := sha256.Sum256([]byte(http.MethodPost + " " + path + "\n" + values.Encode()))
	return hex.EncodeToString(sum[:])
}

// keyStore holds the stored answers, and lets go of those that are forgotten.
type keyStore struct {
	byKey map[string]*storedAnswer
	order []*storedAnswer // oldest first
}

func newKeyStore() keyStore { return keyStore{byKey: map[string]*storedAnswer{}} }

// recall returns what is remembered under key, or nil.
func (k *keyStore) recall(key string, now time.Time) *storedAnswer {
	stored := k.byKey[key]
	if stored == nil || stored.forgotten(now) {
		return nil
	}
	return stored
}

func (k *keyStore) put(a *storedAnswer, now time.Time) {
	k.byKey[a.Key] = a
	k.order = append(k.order, a)
	for len(k.order) > 0 && k.order[0].forgotten(now) {
		// The key may have been used anew since, for an answer that is still remembered.
		if old := k.order[0]; k.byKey[old.Key] == old {
			delete(k.byKey, old.Key)
		}
		k.order = k.order[1:]
	}
}

func (k *keyStore) oldestFirst() []*storedAnswer { return k.order }
