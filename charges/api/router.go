package api

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// connectionPatience is how long a request waits each time for a connection to the database. A crowd that waits longer holds memory, and
// is answered when its clients have gone.
const connectionPatience = 3 * time.Second

// call is one request on its way through the API, and what its log line will tell.
type call struct {
	*http.Request
	id      string // the request's
	started time.Time

	operation *operation    // nil until the mux has found one
	token     charges.Token // zero for an operation that needs none
	params    url.Values    // the query, which names only known parameters, each once
	yield     func()        // gives the request's place among those handled at once to another

	charge   uuid.UUID // that the request was about
	replayed bool
	code     code  // of the refusal
	err      error // its cause, or what went wrong although the request was answered well
}

// scope is the caller whose charges the request may see: empty for all.
func (c *call) scope() string {
	if c.token.Role == charges.Operator {
		return ""
	}
	return c.token.Name
}

type callKey struct{}

// route makes the mux. Each path has one entry, which knows its methods: the mux's own 404 and 405 are not problem+json.
func (a *API) route(operations []*operation) *http.ServeMux {
	byPath := map[string]map[string]*operation{}
	for _, op := range operations {
		if byPath[op.path] == nil {
			byPath[op.path] = map[string]*operation{}
		}
		byPath[op.path][op.method] = op
	}
	mux := http.NewServeMux()
	for pattern, methods := range byPath {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(callKey{}).(*call)
			c.Request = r // it has the path's values now
			if err := a.dispatch(w, c, methods); err != nil {
				c.refuse(w, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(callKey{}).(*call).refuse(w, errNoPath)
	})
	return mux
}

// find hands the request to the mux, which would redirect a path that is not clean instead of refusing it.
func (a *API) find(w http.ResponseWriter, c *call) {
	if !strings.HasPrefix(c.URL.Path, "/") || path.Clean(c.URL.Path) != c.URL.Path {
		c.refuse(w, errNoPath)
		return
	}
	ctx := outbox.WithPatience(c.Context(), connectionPatience)
	a.mux.ServeHTTP(w, c.WithContext(context.WithValue(ctx, callKey{}, c)))
}

// dispatch brings a request to its operation's handler.
func (a *API) dispatch(w http.ResponseWriter, c *call, methods map[string]*operation) error {
	method := c.Method
	if method == http.MethodHead { // net/http drops the body
		method = http.MethodGet
	}
	op := methods[method]
	if op == nil {
		return notAllowed(slices.Sorted(maps.Keys(methods)))
	}
	c.operation = op
	if op.signed {
		return a.takeIn(w, c)
	}
	if len(op.roles) == 0 {
		return op.handle(w, c)
	}
	yield, ok := a.slots.tryAcquire()
	if !ok {
		return errOverloaded
	}
	defer yield()
	if err := a.authenticate(c); err != nil {
		return err
	}
	leave, ok := a.shares.tryAcquire(c.token.Name)
	if !ok {
		return errCallerOverloads
	}
	defer leave()
	c.yield = func() { yield(); leave() }
	if err := c.parseQuery(); err != nil {
		return err
	}
	return op.handle(w, c)
}

// takeIn hands on what a provider sends. It has places of its own: anybody can post to it, and must not take those of callers.
func (a *API) takeIn(w http.ResponseWriter, c *call) error {
	leave, ok := a.intake.tryAcquire()
	if !ok {
		return errOverloaded
	}
	defer leave()
	return c.operation.handle(w, c)
}
