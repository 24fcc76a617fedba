package client_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges/client"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		url, token string
		option     client.Option
	}{
		"no URL":          {"", "t", nil},
		"no scheme":       {"pay.example.com", "t", nil},
		"other scheme":    {"ftp://pay.example.com", "t", nil},
		"no host":         {"https:///charge", "t", nil},
		"password":        {"https://u:hunter2@pay.example.com", "t", nil},
		"broken password": {"https://u:hunter2%@pay.example.com", "t", nil},
		"query":           {"https://pay.example.com?a=hunter2", "t", nil},
		"no token":        {"https://pay.example.com", "", nil},
		"token with line": {"https://pay.example.com", "t\r\nX-A: b", nil},
		"no attempts":     {"https://pay.example.com", "t", client.WithMaxAttempts(0)},
		"no timeout":      {"https://pay.example.com", "t", client.WithAttemptTimeout(0)},
		"negative time":   {"https://pay.example.com", "t", client.WithMaxElapsed(-time.Second)},
		"no HTTP client":  {"https://pay.example.com", "t", client.WithHTTPClient(nil)},
		"user agent":      {"https://pay.example.com", "t", client.WithUserAgent("a\nb")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []client.Option
			if tc.option != nil {
				opts = append(opts, tc.option)
			}
			c, err := client.New(tc.url, tc.token, opts...)
			if err == nil || c != nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, %v", c, err)
			}
		})
	}
}

func TestBaseURLWithPrefix(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	inner := s.Config.Handler
	s.Config.Handler = http.StripPrefix("/pay", inner)
	for _, suffix := range []string{"/pay", "/pay/"} {
		c, err := client.New(s.URL+suffix, testToken)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(t.Context(), params()); err != nil {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}

func TestInjectedHTTPClientIsNotChanged(t *testing.T) {
	t.Parallel()
	own := &http.Client{Transport: &http.Transport{}}
	if _, err := client.New("https://pay.example.com", "t", client.WithHTTPClient(own)); err != nil {
		t.Fatal(err)
	}
	if own.CheckRedirect != nil {
		t.Error("CheckRedirect was set on the caller's client")
	}
}

func TestNewKeysAreVersion7AndDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		key := client.NewKey()
		id, err := uuid.Parse(key)
		if err != nil || id.Version() != 7 || len(key) != 36 || seen[key] {
			t.Fatalf("key %q: %v", key, err)
		}
		seen[key] = true
	}
}
