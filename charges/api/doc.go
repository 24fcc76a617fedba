// Package api is the HTTP API.
//
// One table, in operations.go, lists every operation: method, path, who may call it, its parameters, body, answers and
// refusals, and its handler. The mux and the OpenAPI 3.1 document at /openapi.json are both made from it, so
// that neither can have what the other has not. A request passes, in this order: request id and log line (observe.go),
// the mux (router.go), the limit of requests handled at once, authentication (auth.go), the query string (query.go), and
// its handler (create.go, read.go, inventory.go, health.go). What a provider posts has a signature over its bytes in place of a
// token (signature.go, webhook.go). A handler that refuses returns an error, and errors.go alone turns errors
// into application/problem+json; what it does not know is a bare 500, whose cause goes to the log and nowhere else.
//
// huma only makes JSON schemas of Go types and writes the document. Its routing is not used: it decodes and
// validates by itself, whereas a charge's body must be read by charges.DecodeRequest, and a stored answer must
// go out byte for byte.
package api
