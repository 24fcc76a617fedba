package api_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges/api"
)

// One caller's requests, however slowly their bodies come, leave places to others.
func TestSlowBodiesOfOneCallerLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	const places = 16
	d := deploy(t, func(c *api.Config) { c.MaxRequests = places })
	address := strings.TrimPrefix(d.base, "http://")
	for range 2 * places {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /charge HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n{", alice, newKey())
	}
	for deadline := time.Now().Add(10 * time.Second); d.postOnce(t, alice, newKey(), goodBody).status != http.StatusServiceUnavailable; {
		if time.Now().After(deadline) {
			t.Fatal("the caller never has all the places that it may have")
		}
	}
	if r := d.postOnce(t, bob, newKey(), goodBody); r.status != http.StatusAccepted {
		t.Errorf("another caller: %d %s", r.status, r.body)
	}
}
