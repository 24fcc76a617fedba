package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answer is one HTTP answer as it came.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %s", a.status, a.header, a.body) }

// want says that the status is another one.
func (a answer) want(status int) error {
	if a.status != status {
		return fmt.Errorf("want %d, got %v", status, a)
	}
	return nil
}

// oneShot makes one request per connection, and never another by itself.
var oneShot = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

func call(method, url, body string, header map[string]string, httpClient *http.Client) (answer, error) {
	if httpClient == nil {
		httpClient = oneShot
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{res.StatusCode, res.Header, string(content)}, nil
}

const plainCharge = `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa"}`

// post posts a charge once.
func (d *deployment) post(url, key, body string, more ...string) (answer, error) {
	header := map[string]string{"Authorization": "Bearer " + d.token, "Content-Type": "application/json", "Idempotency-Key": key}
	for _, line := range more {
		name, value, _ := strings.Cut(line, ": ")
		header[name] = value
	}
	return call(http.MethodPost, url+"/charge", body, header, nil)
}

func (d *deployment) mustPost(url, key, body string, more ...string) answer {
	d.t.Helper()
	a, err := d.post(url, key, body, more...)
	if err != nil {
		d.t.Fatalf("POST /charge: %v", err)
	}
	return a
}

// posting is a post that may take a while.
func (d *deployment) posting(url, key, body string, more ...string) <-chan posted {
	done := make(chan posted, 1)
	go func() {
		a, err := d.post(url, key, body, more...)
		done <- posted{a, err}
	}()
	return done
}

type posted struct {
	answer
	err error
}

// receive waits for what a channel brings.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited for: %s", what)
		panic("unreachable")
	}
}

// member reads one member of a JSON object.
func member(t *testing.T, object, name string) any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	return members[name]
}
