package api

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// What every operation may be answered with, and what every operation that needs a token.
var (
	refusalsEverywhere = []code{codeInternal}
	refusalsWithToken  = []code{codeInvalidRequest, codeUnauthenticated, codeForbidden, codeUnavailable}
	refusalsOfWebhooks = []code{codeInvalidRequest, codeSignatureInvalid, codeTooLarge, codeRequestTimeout, codeUnavailable, codeWebhooksNotConfigured}
)

// refusalHeaders are the headers of responseHeaders that come with a refusal.
var refusalHeaders = map[int][]string{
	http.StatusUnauthorized:       {"WWW-Authenticate"},
	http.StatusConflict:           {"Retry-After"},
	http.StatusServiceUnavailable: {"Retry-After"},
}

// document writes the OpenAPI 3.1 document of the operations.
func document(operations []*operation, version string) ([]byte, error) {
	s := newSchemas()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Oncepay", Version: version,
			Description: "Charges that happen once. Amounts are integers in the currency's minor unit at Stripe's scale, times are RFC 3339 in UTC, " +
				"and errors are application/problem+json with a stable code.",
		},
		Paths: map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas: s.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "A token made with oncepay keys create."},
			},
		},
	}
	for _, op := range operations {
		if doc.Paths[op.path] == nil {
			doc.Paths[op.path] = &huma.PathItem{}
		}
		described := describe(op, s)
		switch op.method {
		case http.MethodGet:
			doc.Paths[op.path].Get = described
		case http.MethodPost:
			doc.Paths[op.path].Post = described
		case http.MethodPut:
			doc.Paths[op.path].Put = described
		default:
			return nil, fmt.Errorf("operation %s: method %s has no place in the document", op.id, op.method)
		}
	}
	s.finish(operations)
	text, err := doc.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write OpenAPI document: %w", err)
	}
	return text, nil
}

func describe(op *operation, s *schemas) *huma.Operation {
	d := &huma.Operation{
		OperationID: op.id, Summary: op.summary, Description: op.doc,
		Parameters: slices.Concat(pathParameters(op.path), op.headers, op.query),
		Responses:  map[string]*huma.Response{},
		Security:   []map[string][]string{}, // present and empty: none
	}
	if op.body != nil {
		d.RequestBody = &huma.RequestBody{Required: true, Content: s.content("application/json", op.body)}
	}
	if op.signed {
		d.RequestBody = &huma.RequestBody{Required: true, Description: "As the provider has it.", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}}}
	}
	for _, r := range op.responses {
		media := r.media
		if media == "" {
			media = "application/json"
		}
		d.Responses[strconv.Itoa(r.status)] = &huma.Response{
			Description: r.doc, Headers: headersNamed(r.headers), Content: s.content(media, r.body),
		}
	}
	refusals := slices.Concat(refusalsEverywhere, op.refusals)
	if len(op.roles) > 0 {
		d.Security = []map[string][]string{{"token": {}}}
		refusals = slices.Concat(refusals, refusalsWithToken)
	}
	for status, codes := range byStatus(refusals) {
		d.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status) + ": " + strings.Join(codes, ", ") + ".",
			Headers:     headersNamed(refusalHeaders[status]),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: s.problem(codes)}},
		}
	}
	return d
}

var pathParameter = regexp.MustCompile(`\{([^}]+)\}`)

func pathParameters(path string) []*huma.Param {
	var params []*huma.Param
	for _, match := range pathParameter.FindAllStringSubmatch(path, -1) {
		params = append(params, pathParams[match[1]])
	}
	return params
}

func headersNamed(names []string) map[string]*huma.Header {
	headers := map[string]*huma.Header{"X-Request-Id": responseHeaders["X-Request-Id"]}
	for _, name := range names {
		headers[name] = responseHeaders[name]
	}
	return headers
}

// byStatus sorts codes under the statuses that they come with.
func byStatus(codes []code) map[int][]string {
	sorted := map[int][]string{}
	for _, c := range codes {
		sorted[statusOf[c]] = append(sorted[statusOf[c]], string(c))
	}
	return sorted
}

// content describes a body; one of no type is described as text or JSON of any form.
func (s *schemas) content(media string, body reflect.Type) map[string]*huma.MediaType {
	schema := &huma.Schema{}
	switch {
	case body != nil:
		schema = s.of(body)
	case strings.HasPrefix(media, "text/"):
		schema.Type = "string"
	default:
		schema.Type = "object"
	}
	return map[string]*huma.MediaType{media: {Schema: schema}}
}

func (a *API) showDocument(w http.ResponseWriter, _ *call) error {
	writeBody(w, http.StatusOK, "application/json", a.document)
	return nil
}
