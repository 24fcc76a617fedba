package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// I4: more keys than may be waited for at once are in other hands. Whoever asks under one of them is told that the key is in use, and not that
// nothing was written: whoever believes that may take another key.
func TestI4ManyKeysHeldByOthers(t *testing.T) {
	t.Parallel()
	const many = 12
	c := crowded(t, 0, nil)
	keys := newKeys(many)
	for _, key := range keys {
		first := hold(t, c.deployment, key, "alice")
		defer first.Rollback(context.WithoutCancel(t.Context()))
	}
	for _, r := range c.together(t, keys, always(goodBody)) {
		r.wantProblem(t, http.StatusConflict, "idempotency_key_in_use")
	}
}

// A crowd that asks for one reference, which somebody else holds, holds up none of the others: all but one of it wait where it costs nothing.
func TestI4CrowdUnderAHeldReference(t *testing.T) {
	t.Parallel()
	const crowd, others = 100, 50
	c := crowded(t, 0, nil)
	most := 3*held + c.takes(t, crowd+others)
	first := holdReference(t, c.deployment, "order-1")
	defer first.Rollback(context.WithoutCancel(t.Context()))
	ordered := strings.Replace(goodBody, "{", `{"reference":"order-1",`, 1)
	replies := c.together(t, newKeys(crowd+others), func(i int) string {
		if i < crowd {
			return ordered
		}
		return goodBody
	})
	for i, r := range replies {
		switch {
		case i < crowd:
			r.wantProblem(t, http.StatusConflict, "idempotency_key_in_use")
		case r.status != http.StatusAccepted || r.at.Sub(c.released) > most:
			t.Errorf("another was answered %d after %s, of %s", r.status, r.at.Sub(c.released), most)
		}
	}
}
