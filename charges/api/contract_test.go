package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
)

// checkedClient holds every answer against the document at /openapi.json: its status, its body, in which no member may be
// that the document does not name, and its headers. An answer that is not in the document fails the test.
func checkedClient(t *testing.T, base string) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{
		Transport:     &contract{t: t, next: transport, host: u.Host},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type contract struct {
	t    *testing.T
	next http.RoundTripper
	host string
}

func (c *contract) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(req)
	if err != nil || req.URL.Host != c.host {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if closeErr := res.Body.Close(); err != nil || closeErr != nil {
		return nil, fmt.Errorf("answer of %s %s: %w", req.Method, req.URL.Path, err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	for _, fault := range contractFaults(req, res, body) {
		c.t.Errorf("%s %s answered %d %.400s\nwhich breaks the contract: %s", req.Method, req.URL.Path, res.StatusCode, body, fault)
	}
	return res, nil
}

// significantHeaders must be documented where they come.
var significantHeaders = []string{"Location", "Idempotency-Expires", "Idempotent-Replayed", "Preference-Applied", "Retry-After", "WWW-Authenticate"}

func contractFaults(req *http.Request, res *http.Response, body []byte) (faults []string) {
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := res.Header.Get(name); got != want {
			faults = append(faults, fmt.Sprintf("%s is %q", name, got))
		}
	}
	if res.Header.Get("X-Request-Id") == "" {
		faults = append(faults, "no X-Request-Id")
	}
	if token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "); len(token) > 4 && bytes.Contains(body, []byte(token)) {
		faults = append(faults, "the body tells the token")
	}
	doc := strictDocument()
	operation, pattern := documented(doc, req)
	if req.Method == http.MethodHead { // has no body, and the document does not repeat GET for it
		return faults
	}
	if operation == nil {
		return append(faults, undocumentedFaults(doc, res, body)...)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: req,
			Route:   &routers.Route{Spec: doc, Path: pattern, PathItem: doc.Paths.Value(pattern), Method: req.Method, Operation: operation},
		},
		Status: res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(req.Context(), input); err != nil {
		return append(faults, err.Error())
	}
	described := operation.Responses.Status(res.StatusCode).Value
	for _, name := range significantHeaders {
		if res.Header.Get(name) != "" && described.Headers[name] == nil {
			faults = append(faults, "header "+name+" is not documented there")
		}
	}
	return faults
}

// undocumentedFaults judges the answer to a call that is not in the document, which can only be that there is no such call.
func undocumentedFaults(doc *openapi3.T, res *http.Response, body []byte) (faults []string) {
	var value map[string]any
	if err := json.Unmarshal(body, &value); err != nil {
		return []string{err.Error()}
	}
	if err := doc.Components.Schemas["Problem"].Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
		faults = append(faults, err.Error())
	}
	switch {
	case res.StatusCode == http.StatusNotFound && value["code"] == "not_found":
	case res.StatusCode == http.StatusMethodNotAllowed && value["code"] == "method_not_allowed" && res.Header.Get("Allow") != "":
	default:
		faults = append(faults, "the call is not in the document")
	}
	return faults
}

// documented finds a request's operation.
func documented(doc *openapi3.T, req *http.Request) (operation *openapi3.Operation, pattern string) {
	parts := strings.Split(req.URL.Path, "/")
	for pattern, item := range doc.Paths.Map() {
		names := strings.Split(pattern, "/")
		same := len(names) == len(parts) && path.Clean(req.URL.Path) == req.URL.Path
		for i := 0; same && i < len(names); i++ {
			same = names[i] == parts[i] || strings.HasPrefix(names[i], "{")
		}
		if same && slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodPut}, req.Method) {
			return item.GetOperation(req.Method), pattern
		}
	}
	return nil, ""
}

// fetchDocument asks an API for its document. No database is needed for that.
var fetchDocument = sync.OnceValues(func() ([]byte, error) {
	a, err := api.New(api.Config{Charges: charges.New(nil, nil, charges.Options{})})
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	return w.Body.Bytes(), nil
})

// strictDocument is the document with every answer closed to members that it does not name.
var strictDocument = sync.OnceValue(func() *openapi3.T {
	text, err := fetchDocument()
	if err != nil {
		panic(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(text, &raw); err != nil {
		panic(err)
	}
	for _, schema := range raw["components"].(map[string]any)["schemas"].(map[string]any) {
		schema.(map[string]any)["additionalProperties"] = false
	}
	strict, err := json.Marshal(raw)
	if err != nil {
		panic(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(strict)
	if err != nil {
		panic(err)
	}
	return doc
})
