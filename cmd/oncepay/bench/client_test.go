package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// What is compared is the kind of key: growth's ordinary clients have our client library's, in order of time, everybody else has random ones.
// Each is the order's reference, too.
func TestKeys(t *testing.T) {
	t.Parallel()
	type made struct {
		order   order
		version uuid.Version
	}
	orders := map[string]made{"usual": {usual, 4}, "hot": {hot, 4}, "sold out": {soldOut, 4}}
	kinds := map[string]uuid.Version{orderly: 7, scattered: 4}
	for _, a := range arrivals {
		orders[a.variant] = made{a.order, kinds[a.variant]}
	}
	if len(orders) != 5 {
		t.Errorf("growth measures %v", arrivals)
	}
	for name, test := range orders {
		var keys []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			var posted struct{ Reference string }
			if err := json.NewDecoder(r.Body).Decode(&posted); err != nil || posted.Reference != "order-"+key {
				t.Errorf("%s: under the key %s came the reference %q, %v", name, key, posted.Reference, err)
			}
			keys = append(keys, key)
			w.WriteHeader(test.order.status)
			fmt.Fprint(w, test.order.says)
		}))
		t.Cleanup(server.Close)
		c, err := dial(server.Listener.Addr().String(), token, test.order)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.conn.Close() })
		for range 20 {
			if _, err := c.post(); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range keys {
			if id, err := uuid.Parse(key); err != nil || id.Version() != test.version {
				t.Errorf("%s: the key %s is not of version %d: %v", name, key, test.version, err)
			}
		}
		if slices.IsSorted(keys) != (test.version == 7) {
			t.Errorf("%s: keys of version %d came as %v", name, test.version, keys)
		}
	}
}
