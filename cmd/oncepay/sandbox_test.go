package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sandboxProcess is a running `oncepay sandbox`.
type sandboxProcess struct {
	*process
	url    string
	signer signer
}

// signer is what the sandbox's events are verified with.
type signer struct {
	Stripe   string `json:"stripe_secret"`
	SendGrid string `json:"sendgrid_public_key"`
}

func startSandbox(t *testing.T, flags ...string) *sandboxProcess {
	t.Helper()
	p := oncepayArgs(append([]string{"sandbox", "--listen=127.0.0.1:0"}, flags...)...).start(t)
	s := &sandboxProcess{process: p}
	await(t, patience, "the sandbox prints its address", func() error {
		line, rest, found := strings.Cut(p.stdout.String(), "\n")
		if !found || rest != "" {
			return fmt.Errorf("stdout: %q", p.stdout.String())
		}
		s.url = strings.TrimPrefix(line, "sandbox ")
		return nil
	})
	s.control(http.MethodGet, "webhooks", "", &s.signer)
	return s
}

// A file that was named by mistake is left as it is, and alone; and nobody is told of an address that will not serve.
func TestSandboxRefusesForeignFile(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"text":                      "to do: pay the florist\n",
		"text without a line's end": "to do: pay the florist",
		"JSON":                      `[{"kind":"order"` + ",\n" + `"value":1}]` + "\n",
		"an array of other things":  "[1, 2]\n",
		"bytes":                     "\x00\x01\x02",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "notes")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			r := oncepayArgs("sandbox", "--listen=127.0.0.1:0", "--journal="+file).run(t)
			if r.code != 1 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, file) {
				t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
			}
			if kept, err := os.ReadFile(file); err != nil || string(kept) != content {
				t.Errorf("the file is %q now, %v", kept, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("the directory has %v, %v", entries, err)
			}
		})
	}
}

// control calls one of the sandbox's controls; nil into: the answer is not read.
func (s *sandboxProcess) control(method, path, body string, into any) {
	s.t.Helper()
	controlSandbox(s.t, s.url, method, path, body, into)
}

func controlSandbox(t *testing.T, base, method, path, body string, into any) {
	t.Helper()
	a, err := call(method, base+"/_sandbox/"+path, body, nil, nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != http.StatusOK {
		t.Fatalf("%s %s: %v", method, path, a)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(a.body), into); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

// fault arms a fault, given as JSON members, on creating payments.
func (s *sandboxProcess) fault(members string) {
	s.t.Helper()
	s.control(http.MethodPost, "faults", `{"method":"POST","path":"/v1/payment_intents",`+members+`}`, nil)
}

func (s *sandboxProcess) mailFault(members string) {
	s.t.Helper()
	s.control(http.MethodPost, "faults", `{"method":"POST","path":"/v3/mail/send",`+members+`}`, nil)
}

func (s *sandboxProcess) clearFaults() {
	s.t.Helper()
	s.control(http.MethodDelete, "faults", "", nil)
}

func (s *sandboxProcess) advance(by string) {
	s.t.Helper()
	s.control(http.MethodPost, "clock", `{"advance":"`+by+`"}`, nil)
}

// payment is one of the ledger's.
type payment struct {
	ID       string            `json:"id"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Status   string            `json:"status"`
	Metadata map[string]string `json:"metadata"`
}

// ledger is what really happened.
type ledger struct {
	Now      time.Time `json:"now"`
	Payments []payment `json:"payment_intents"`
	Mails    []struct {
		To  string `json:"to"`
		Key string `json:"idempotency_key"`
	} `json:"mails"`
	Requests []struct {
		Seq    int64     `json:"seq"`
		Method string    `json:"method"`
		Path   string    `json:"path"`
		Key    string    `json:"idempotency_key"`
		Status int       `json:"status"`
		Fault  string    `json:"fault"`
		At     time.Time `json:"at"`
	} `json:"requests"`
}

func (s *sandboxProcess) ledger() (l ledger) {
	s.t.Helper()
	s.control(http.MethodGet, "ledger", "", &l)
	return l
}

// payments counts the payments of a key, and those of them that succeeded.
func (l ledger) payments(key string) (all, succeeded int) {
	for _, p := range l.Payments {
		if p.Metadata["oncepay_key"] == key {
			all++
			if p.Status == "succeeded" {
				succeeded++
			}
		}
	}
	return all, succeeded
}

// paymentOf is the id of the key's one payment, or "".
func (l ledger) paymentOf(key string) (id string) {
	for _, p := range l.Payments {
		if p.Metadata["oncepay_key"] == key {
			id = p.ID
		}
	}
	return id
}

func (l ledger) mails(key string) (n int) {
	for _, m := range l.Mails {
		if m.Key == key {
			n++
		}
	}
	return n
}

// sends counts the requests to create a payment under the key.
func (l ledger) sends(key string) (n int) {
	for _, r := range l.Requests {
		if r.Method == http.MethodPost && r.Path == "/v1/payment_intents" && r.Key == key {
			n++
		}
	}
	return n
}

// pay makes a payment that Oncepay knows nothing of, in the same account.
func (s *sandboxProcess) pay(key string) error {
	form := url.Values{
		"amount": {"500"}, "currency": {"usd"}, "payment_method": {"pm_card_visa"}, "confirm": {"true"}, "metadata[order]": {key},
		"automatic_payment_methods[enabled]": {"true"}, "automatic_payment_methods[allow_redirects]": {"never"},
	}
	a, err := call(http.MethodPost, s.url+"/v1/payment_intents", form.Encode(), map[string]string{
		"Authorization": "Bearer " + stripeKey, "Idempotency-Key": key, "Content-Type": "application/x-www-form-urlencoded",
	}, http.DefaultClient)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("pay: %v", a)
	}
	return err
}
