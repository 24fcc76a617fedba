package api

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/oncepay/oncepay/charges"
)

// operation is one line of the API's table. The mux and the OpenAPI document are made of nothing else.
type operation struct {
	id, method, path string
	summary, doc     string
	roles            []charges.Role // who may call it; none: everybody, without a token, and not counted among the requests
	signed           bool           // called by a provider, which signs its body; no token
	query            []*huma.Param
	headers          []*huma.Param
	body             reflect.Type // nil: takes none
	responses        []response
	refusals         []code // apart from those that every operation has
	handle           func(http.ResponseWriter, *call) error
}

// response is one good answer, or the bad one of a probe.
type response struct {
	status  int
	doc     string
	media   string       // empty: application/json
	body    reflect.Type // nil: not described
	headers []string     // keys of responseHeaders
}

var (
	onlyCallers   = []charges.Role{charges.Caller}
	onlyOperators = []charges.Role{charges.Operator}
	everyRole     = []charges.Role{charges.Caller, charges.Operator}
)

func (a *API) operations() []*operation {
	charge, inventory := reflect.TypeFor[charges.Charge](), reflect.TypeFor[charges.Inventory]()
	return []*operation{
		{
			id: "createCharge", method: http.MethodPost, path: "/charge", roles: onlyCallers,
			summary: "Create a charge",
			doc: "Stores the charge, its idempotency key and its outbox job together, and answers at once; the money moves afterwards. " +
				"Items are held in the same step, all of them or none: what is short is refused with insufficient_inventory. " +
				"The same request with the same key is answered with the stored status and body, byte for byte, and has no second effect. " +
				"Refusals are not stored: their key can be used again. A declined payment is the charge's final state: another try takes a new key.",
			headers: []*huma.Param{keyHeader, preferHeader},
			body:    reflect.TypeFor[charges.Request](),
			responses: []response{
				{status: http.StatusAccepted, doc: "The charge is stored: as it was when its key was first used, or, with a wait, as it is now.", body: charge, headers: createHeaders},
				{status: http.StatusOK, doc: "The charge as it is now: settled within the wait, or its stored answer has expired.", body: charge, headers: createHeaders},
			},
			refusals: []code{codeKeyMissing, codeKeyInvalid, codeKeyReused, codeKeyInUse, codeReferenceInUse, codeInsufficientInventory,
				codeTooLarge, codeUnsupportedMediaType, codeRequestTimeout},
			handle: a.createCharge,
		},
		{
			id: "listCharges", method: http.MethodGet, path: "/charges", roles: everyRole,
			summary:   "List charges",
			doc:       "Newest first. Callers see their own charges, operators all. Pages stay the same while new charges arrive.",
			query:     []*huma.Param{statusParam, referenceParam, cursorParam, limitParam},
			responses: []response{{status: http.StatusOK, doc: "One page.", body: reflect.TypeFor[page[charges.Charge]]()}},
			handle:    a.listCharges,
		},
		{
			id: "getCharge", method: http.MethodGet, path: "/charges/{id}", roles: everyRole,
			summary:   "Read a charge",
			responses: []response{{status: http.StatusOK, doc: "The charge as it is now.", body: charge}},
			refusals:  []code{codeNotFound},
			handle:    a.getCharge,
		},
		{
			id: "listEvents", method: http.MethodGet, path: "/charges/{id}/events", roles: everyRole,
			summary:   "Read a charge's audit trail",
			doc:       "Oldest first: every change of the charge's status, who made it and what was known.",
			query:     []*huma.Param{cursorParam, limitParam},
			responses: []response{{status: http.StatusOK, doc: "One page.", body: reflect.TypeFor[page[charges.Event]]()}},
			refusals:  []code{codeNotFound},
			handle:    a.listEvents,
		},
		{
			id: "getIdempotencyKey", method: http.MethodGet, path: "/idempotency-keys/{key}", roles: everyRole,
			summary:   "Read what an idempotency key was used for",
			doc:       "At any age of the key. A key that was never used, or that is another caller's, is not found.",
			responses: []response{{status: http.StatusOK, doc: "The key and its charge.", body: reflect.TypeFor[charges.KeyUse]()}},
			refusals:  []code{codeNotFound, codeKeyInvalid, codeKeyMissing},
			handle:    a.getKey,
		},
		{
			id: "setInventory", method: http.MethodPut, path: "/inventory/{sku}", roles: onlyOperators,
			summary: "Set how many of a SKU were ever stocked",
			doc: "Sold ones included: after a delivery of 5 it is 5 more than before. So the same sent twice changes nothing, and needs no key. " +
				"It cannot be less than what charges hold and have taken. A SKU that was never stocked comes into being. " +
				"With previous, what somebody else has set meanwhile is refused with invalid_state and inventory, what there is now (absent: it was never stocked): " +
				"of two who add different numbers at once, none is lost.",
			body:      reflect.TypeFor[quantityBody](),
			responses: []response{{status: http.StatusOK, doc: "What there is of the SKU now.", body: inventory}},
			refusals:  []code{codeInvalidState, codeTooLarge, codeUnsupportedMediaType, codeRequestTimeout},
			handle:    a.setInventory,
		},
		{
			id: "getInventory", method: http.MethodGet, path: "/inventory/{sku}", roles: everyRole,
			summary:   "Read what there is of a SKU",
			doc:       "A SKU that was never stocked is not found.",
			responses: []response{{status: http.StatusOK, doc: "What there is of it now.", body: inventory}},
			refusals:  []code{codeNotFound},
			handle:    a.getInventory,
		},
		{
			id: "listInventory", method: http.MethodGet, path: "/inventory", roles: everyRole,
			summary:   "List what there is of all SKUs",
			doc:       "In the order of the SKUs' bytes. The stock is one for the whole deployment: every caller sells from it, and sees it.",
			query:     []*huma.Param{cursorParam, limitParam},
			responses: []response{{status: http.StatusOK, doc: "One page.", body: reflect.TypeFor[page[charges.Inventory]]()}},
			handle:    a.listInventory,
		},
		{
			id: "stripeWebhook", method: http.MethodPost, path: "/webhooks/stripe", signed: true,
			summary:   "Take an event of Stripe",
			doc:       "For Stripe alone, which signs the body. Answered once the event is stored; an event that comes again has no second effect.",
			headers:   []*huma.Param{stripeSignatureHeader},
			responses: []response{{status: http.StatusOK, doc: "It is stored.", body: reflect.TypeFor[received]()}},
			refusals:  refusalsOfWebhooks,
			handle:    a.stripeWebhook,
		},
		{
			id: "sendgridWebhook", method: http.MethodPost, path: "/webhooks/sendgrid", signed: true,
			summary:   "Take a batch of SendGrid's events",
			doc:       "For SendGrid alone, which signs the body. Answered once the events are stored; an event that comes again has no second effect.",
			headers:   []*huma.Param{sendGridSignatureHeader, sendGridTimestampHeader},
			responses: []response{{status: http.StatusOK, doc: "They are stored.", body: reflect.TypeFor[received]()}},
			refusals:  refusalsOfWebhooks,
			handle:    a.sendGridWebhook,
		},
		{
			id: "healthz", method: http.MethodGet, path: "/healthz",
			summary:   "Tell that the process lives",
			responses: []response{{status: http.StatusOK, doc: "It lives.", body: reflect.TypeFor[health]()}},
			handle:    a.healthz,
		},
		{
			id: "readyz", method: http.MethodGet, path: "/readyz",
			summary: "Tell whether requests should be sent here",
			responses: []response{
				{status: http.StatusOK, doc: "They should.", body: reflect.TypeFor[health]()},
				{status: http.StatusServiceUnavailable, doc: "They should not, for these reasons.", body: reflect.TypeFor[health]()},
			},
			handle: a.readyz,
		},
		{
			id: "metrics", method: http.MethodGet, path: "/metrics",
			summary:   "Read the metrics",
			responses: []response{{status: http.StatusOK, doc: "Prometheus's text format.", media: "text/plain"}},
			handle:    a.showMetrics,
		},
		{
			id: "openapi", method: http.MethodGet, path: "/openapi.json",
			summary:   "Read this document",
			responses: []response{{status: http.StatusOK, doc: "OpenAPI 3.1."}},
			handle:    a.showDocument,
		},
	}
}
