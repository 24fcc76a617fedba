package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	text, err := fetchDocument()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi: %s", doc.OpenAPI)
	}
}

// The schemas that clients generate code from.
func TestDocumentSchemas(t *testing.T) {
	t.Parallel()
	text, err := fetchDocument()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				AdditionalProperties *bool                      `json:"additionalProperties"`
				Required             []string                   `json:"required"`
				Properties           map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	request, charge := doc.Components.Schemas["ChargeRequest"], doc.Components.Schemas["Charge"]
	if request.AdditionalProperties == nil || *request.AdditionalProperties || charge.AdditionalProperties != nil {
		t.Error("requests must be closed, and answers open, to members that are not named")
	}
	if got := strings.Join(request.Required, " "); got != "amount currency payment_method" {
		t.Errorf("required of a request: %s", got)
	}
	for name := range request.Properties {
		if charge.Properties[name] == nil {
			t.Errorf("the charge has no member %s", name)
		}
	}
	for name, want := range map[string]string{
		"failure":        `"anyOf":[{"$ref":"#/components/schemas/Failure"},{"type":"null"}]`,
		"payment_intent": `"type":["string","null"]`,
		"id":             `"format":"uuid"`,
		"amount":         `"format":"int64"`,
	} {
		if got := string(charge.Properties[name]); !strings.Contains(got, want) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if charge.Properties["Request"] != nil || charge.Properties["Caller"] != nil {
		t.Error("the charge shows what is Go's alone")
	}
}

// The check of every answer must itself be able to fail.
func TestContractCheckFails(t *testing.T) {
	t.Parallel()
	good := `{"data":[],"next_cursor":null}`
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		header             string
		faults             int
	}{
		"as documented":         {"GET", "/charges", good, 200, "", 0},
		"undocumented status":   {"GET", "/charges", good, 201, "", 1},
		"undocumented member":   {"GET", "/charges", `{"data":[],"next_cursor":null,"total":1}`, 200, "", 1},
		"missing member":        {"GET", "/charges", `{"data":[]}`, 200, "", 1},
		"null for a list":       {"GET", "/charges", `{"data":null,"next_cursor":null}`, 200, "", 1},
		"undocumented header":   {"GET", "/charges", good, 200, "Retry-After", 1},
		"undocumented call":     {"GET", "/charges/", good, 200, "", 2},
		"undocumented method":   {"PUT", "/charges", good, 200, "", 2},
		"undocumented code":     {"GET", "/charges", problemText(400, "idempotency_key_missing"), 400, "", 1},
		"documented code":       {"GET", "/charges", problemText(400, "invalid_request"), 400, "", 0},
		"problem of other form": {"GET", "/charges", `{"error":"no"}`, 400, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			for n, v := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Request-Id": "r", "Content-Type": "application/json"} {
				w.Header().Set(n, v)
			}
			if tc.status >= 400 {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			if tc.header != "" {
				w.Header().Set(tc.header, "1")
			}
			w.WriteHeader(tc.status)
			req, err := http.NewRequest(tc.method, "http://example.com"+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if faults := contractFaults(req, w.Result(), []byte(tc.body)); len(faults) != tc.faults {
				t.Errorf("%d faults, want %d: %q", len(faults), tc.faults, faults)
			}
		})
	}
}

func problemText(status int, code string) string {
	text, err := json.Marshal(map[string]any{
		"type": "about:blank", "title": "T", "status": status, "detail": "D", "code": code, "request_id": "r",
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}
