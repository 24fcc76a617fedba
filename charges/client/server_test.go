package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const testToken = "tok_this_must_never_show"

// fault is what the server does to one request instead of answering it well.
type fault struct {
	kind   string            // dropBefore, dropAfter, hang, truncate, body, status
	status int               // for status
	done   bool              // for status: answer so after doing the operation
	header map[string]string // for status
	body   string            // for status and body
}

var (
	dropBefore = fault{kind: "dropBefore"} // closes the connection, nothing done
	dropAfter  = fault{kind: "dropAfter"}  // done, answer lost
	hang       = fault{kind: "hang"}       // done, and never answers
	truncate   = fault{kind: "truncate"}   // done, half of the answer
)

func answers(status int, code string) fault {
	return fault{
		kind: "status", status: status,
		header: map[string]string{"Content-Type": "application/problem+json"},
		body:   fmt.Sprintf(`{"type":"about:blank","title":"T","status":%d,"detail":"D","code":%q,"request_id":"req_1"}`, status, code),
	}
}

func (f fault) with(name, value string) fault {
	header := map[string]string{name: value}
	for n, v := range f.header {
		header[n] = v
	}
	f.header = header
	return f
}

func (f fault) afterDoing() fault { f.done = true; return f }

// seen is one request as it arrived.
type seen struct{ method, path, key, body, prefer, token, userAgent string }

// server keeps idempotency keys as Oncepay does: one charge and one stored answer per key, another body is refused.
type server struct {
	*httptest.Server

	mu      sync.Mutex
	faults  []fault
	reads   []fault // as faults, for GET
	seen    []seen
	charges []map[string]any // in order of creation
	bodies  map[string]string
	stored  map[string][]byte
	settle  int // reads of a charge until it has succeeded
	stock   []map[string]any
}

func newServer() *server {
	s := &server{bodies: map[string]string{}, stored: map[string][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charge", s.create)
	mux.HandleFunc("GET /charges", s.list)
	mux.HandleFunc("GET /charges/{id}", s.get)
	mux.HandleFunc("GET /charges/{id}/events", s.events)
	mux.HandleFunc("GET /idempotency-keys/{key}", s.key)
	mux.HandleFunc("GET /inventory", func(w http.ResponseWriter, r *http.Request) {
		s.read(w, r, func() any { return page(s.stock, r) })
	})
	mux.HandleFunc("GET /inventory/{sku}", s.inventory)
	mux.HandleFunc("PUT /inventory/{sku}", s.setInventory)
	s.Server = httptest.NewServer(mux)
	return s
}

func startServer(t *testing.T, faults ...fault) *server {
	t.Helper()
	s := newServer()
	s.faults = faults
	t.Cleanup(s.Close)
	return s
}

// note records a request, and takes the next fault for it.
func (s *server) note(r *http.Request, faults *[]fault) (body string, f fault) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.seen = append(s.seen, seen{
		r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), string(content),
		r.Header.Get("Prefer"), r.Header.Get("Authorization"), r.Header.Get("User-Agent"),
	})
	if len(*faults) > 0 {
		f, *faults = (*faults)[0], (*faults)[1:]
	}
	return string(content), f
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	f, answer, replayed, reused := s.claim(r)
	if f.kind == "" && reused {
		f = answers(422, "idempotency_key_reused")
		f.body = `{"status":422,"code":"idempotency_key_reused","fields":[{"field":"amount","reason":"differs"}]}`
	}
	if f.fail(w, r, answer) {
		return
	}
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.Header().Set("Idempotency-Expires", "2026-11-02T10:00:00Z")
	w.Header().Set("X-Request-Id", "req_ok")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(answer)
}

// claim does what the request asks for, unless its fault comes before that.
func (s *server) claim(r *http.Request) (f fault, answer []byte, replayed, reused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, f := s.note(r, &s.faults)
	if f.kind != "dropBefore" && f.kind != "body" && (f.kind != "status" || f.done) {
		answer, replayed, reused = s.do(r.Header.Get("Idempotency-Key"), body)
	}
	return f, answer, replayed, reused
}

// do makes the charge unless its key has made one.
func (s *server) do(key, body string) (answer []byte, replayed, reused bool) {
	if answer, ok := s.stored[key]; ok {
		return answer, true, s.bodies[key] != body
	}
	charge := map[string]any{}
	if err := json.Unmarshal([]byte(body), &charge); err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, value := range map[string]any{
		"id": fmt.Sprintf("ch_%d", len(s.charges)+1), "object": "charge", "status": "pending", "idempotency_key": strings.ToLower(key),
		"payment_intent": nil, "failure": nil, "review": nil, "receipt": nil, "customer": nil, "amount_refunded": 0, "dispute": nil, "a_later_member": []int{1},
		"created_at": "2026-11-01T10:00:00Z", "updated_at": "2026-11-01T10:00:00Z",
	} {
		charge[name] = value
	}
	answer, err := json.Marshal(charge)
	if err != nil {
		panic(err)
	}
	s.charges, s.bodies[key], s.stored[key] = append(s.charges, charge), body, answer
	return answer, false, false
}

// fail answers as the fault says, if there is one.
func (f fault) fail(w http.ResponseWriter, r *http.Request, answer []byte) bool {
	switch f.kind {
	case "":
		return false
	case "dropBefore", "dropAfter":
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case "truncate":
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "body":
		_, _ = io.WriteString(w, f.body)
	case "status":
		for name, value := range f.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
	default:
		panic("unknown fault " + f.kind)
	}
	return true
}

// read runs answer under the lock, unless a fault comes first.
func (s *server) read(w http.ResponseWriter, r *http.Request, answer func() any) {
	body, f := func() ([]byte, fault) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, f := s.note(r, &s.reads)
		value := answer()
		if value == nil && f.kind == "" {
			f = answers(404, "not_found")
		}
		body, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		return body, f
	}()
	if !f.fail(w, r, body) {
		_, _ = w.Write(body)
	}
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func() any {
		for _, charge := range s.charges {
			if charge["id"] != r.PathValue("id") {
				continue
			}
			if s.settle--; s.settle <= 0 {
				charge["status"] = "succeeded"
			}
			return charge
		}
		return nil
	})
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func() any {
		matching := []map[string]any{}
		for _, charge := range s.charges {
			if ref := r.FormValue("reference"); ref == "" || charge["reference"] == ref {
				matching = append(matching, charge)
			}
		}
		return page(matching, r)
	})
}

func (s *server) events(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func() any {
		return page([]map[string]any{
			{"id": 1, "type": "charge.created", "from": nil, "to": "pending", "actor": "caller", "at": "2026-11-01T10:00:00Z", "data": map[string]any{}},
			{"id": 2, "type": "charge.sent", "from": "pending", "to": "processing", "actor": "worker", "at": "2026-11-01T10:00:01Z", "data": map[string]any{"attempt": 1}},
			{"id": 3, "type": "charge.succeeded", "from": "processing", "to": "succeeded", "actor": "worker", "at": "2026-11-01T10:00:02Z", "data": nil},
		}, r)
	})
}

// page cuts two elements, or limit, out of a list; the cursor is the index of its next element.
func page(all []map[string]any, r *http.Request) map[string]any {
	from := 0
	if cursor := r.FormValue("cursor"); cursor != "" {
		at, err := strconv.Atoi(cursor)
		if err != nil {
			panic(err)
		}
		from = min(at, len(all))
	}
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil {
		limit = 2
	}
	to := min(from+limit, len(all))
	var next any
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return map[string]any{"data": all[from:to], "next_cursor": next}
}

func (s *server) key(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func() any {
		for _, charge := range s.charges {
			if charge["idempotency_key"] == r.PathValue("key") {
				return map[string]any{
					"key": charge["idempotency_key"], "operation": "charge", "charge_id": charge["id"], "charge": charge,
					"created_at": "2026-11-01T10:00:00Z", "expires_at": "2026-11-02T10:00:00Z",
				}
			}
		}
		return nil
	})
}

func (s *server) inventory(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func() any {
		if i := s.place(r.PathValue("sku")); i >= 0 {
			return s.stock[i]
		}
		return nil
	})
}

func (s *server) place(sku string) int {
	return slices.IndexFunc(s.stock, func(v map[string]any) bool { return v["sku"] == sku })
}

// setInventory sets a quantity, of which nothing is held and nothing taken.
func (s *server) setInventory(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, f := s.note(r, &s.faults)
	var answer []byte
	if f.kind != "dropBefore" && f.kind != "body" && (f.kind != "status" || f.done) {
		var set struct{ Quantity int64 }
		if err := json.Unmarshal([]byte(body), &set); err != nil {
			panic(http.ErrAbortHandler)
		}
		sku := r.PathValue("sku")
		now := map[string]any{"sku": sku, "quantity": set.Quantity, "available": set.Quantity, "held": 0, "taken": 0, "updated_at": "2026-11-01T10:00:00Z"}
		if i := s.place(sku); i >= 0 {
			s.stock[i] = now
		} else {
			s.stock = append(s.stock, now)
		}
		var err error
		if answer, err = json.Marshal(now); err != nil {
			panic(err)
		}
	}
	s.mu.Unlock()
	if !f.fail(w, r, answer) {
		_, _ = w.Write(answer)
	}
}

// requests are those that arrived so far.
func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

func (s *server) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.charges)
}

// plan adds faults for the next creates.
func (s *server) plan(faults ...fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// clock is a clock that only waiting moves.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	slept []time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) waits() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.slept...)
}
