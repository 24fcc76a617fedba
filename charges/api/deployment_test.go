package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/charges/api"
	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// The tokens that every deployment knows.
const (
	alice    = "tok_alice"
	bob      = "tok_bob"
	operator = "tok_operator"
)

// deployment is a database and, on it, one API process: everything is real but the process boundary.
type deployment struct {
	url     string // of the database
	pool    *pgxpool.Pool
	service *charges.Service
	*instance
}

// instance is one API process on a real listener.
type instance struct {
	base   string
	client *http.Client
	again  atomic.Int64 // requests that were sent again
}

// deploy starts a deployment on a fresh database. change, unless nil, changes the API's configuration.
func deploy(t *testing.T, change func(*api.Config)) *deployment {
	t.Helper()
	url := pgtest.URL(t)
	d := &deployment{url: url}
	d.pool, d.service = open(t, url)
	for secret, token := range map[string]charges.Token{
		alice:    {Name: "alice", Role: charges.Caller},
		bob:      {Name: "bob", Role: charges.Caller},
		operator: {Name: "ops", Role: charges.Operator},
	} {
		if err := d.service.AddToken(t.Context(), secret, token.Name, token.Role); err != nil {
			t.Fatal(err)
		}
	}
	d.instance = start(t, d.service, change)
	return d
}

// open makes the parts of one process on the database at url.
func open(t *testing.T, url string) (*pgxpool.Pool, *charges.Service) {
	t.Helper()
	pool, err := outbox.Open(context.Background(), url, "test", 10, outbox.Direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	box, err := outbox.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	return pool, charges.New(pool, box, charges.Options{})
}

func newAPI(t *testing.T, service *charges.Service, change func(*api.Config)) *api.API {
	t.Helper()
	config := api.Config{Charges: service, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&config)
	}
	a, err := api.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func start(t *testing.T, service *charges.Service, change func(*api.Config)) *instance {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = newAPI(t, service, change).Server()
	server.Start()
	t.Cleanup(server.Close)
	return &instance{base: server.URL, client: checkedClient(t, server.URL)}
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// patience is how long a request is sent again on a machine that is busy with other tests: ten times that of the API for a connection.
const patience = 30 * time.Second

// send makes a request with a token (none where it is empty) and headers given as name, value pairs. A machine that is busy with other tests may
// have no connection for it within a request's patience, and says so: then it is sent again, as by any client.
func (i *instance) send(t *testing.T, token, method, path, body string, headers ...string) reply {
	t.Helper()
	r := i.sendOnce(t, token, method, path, body, headers...)
	for began := time.Now(); r.overloaded() && time.Since(began) < patience; {
		time.Sleep(20 * time.Millisecond) // a client's pause
		i.again.Add(1)
		r = i.sendOnce(t, token, method, path, body, headers...)
	}
	return r
}

// overloaded tells whether the answer is that nothing was done for want of places or connections.
func (r reply) overloaded() bool {
	return r.status == http.StatusServiceUnavailable && strings.Contains(r.body, "Too many requests are being handled")
}

func (i *instance) sendOnce(t *testing.T, token, method, path, body string, headers ...string) reply {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, i.base+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for n := 0; n < len(headers); n += 2 {
		req.Header.Add(headers[n], headers[n+1])
	}
	return i.do(t, req)
}

func (i *instance) do(t *testing.T, req *http.Request) reply {
	t.Helper()
	res, err := i.client.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
		return reply{}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return reply{res.StatusCode, res.Header, string(text)}
}

func (i *instance) get(t *testing.T, token, path string) reply {
	t.Helper()
	return i.send(t, token, http.MethodGet, path, "")
}

// post sends a create with a key and a good content type.
func (i *instance) post(t *testing.T, token, key, body string, headers ...string) reply {
	t.Helper()
	headers = append([]string{"Idempotency-Key", key, "Content-Type", "application/json"}, headers...)
	return i.send(t, token, http.MethodPost, "/charge", body, headers...)
}

// postUntilAnswered sends again, as a client does, whatever says that the answer is yet to come. On a machine that stalls for seconds that is more than post does.
func (i *instance) postUntilAnswered(t *testing.T, token, key, body string) reply {
	t.Helper()
	r := i.post(t, token, key, body)
	for began := time.Now(); (r.status == http.StatusServiceUnavailable || strings.Contains(r.body, "idempotency_key_in_use")) && time.Since(began) < patience; {
		time.Sleep(20 * time.Millisecond) // a client's pause
		i.again.Add(1)
		r = i.post(t, token, key, body)
	}
	return r
}

// postOnce is post for a test of who is told that there is no place.
func (i *instance) postOnce(t *testing.T, token, key, body string) reply {
	t.Helper()
	return i.sendOnce(t, token, http.MethodPost, "/charge", body, "Idempotency-Key", key, "Content-Type", "application/json")
}

// accept posts a charge that must be accepted, in the end.
func (i *instance) accept(t *testing.T, token, key, body string) charge {
	t.Helper()
	r := i.post(t, token, key, body)
	for began := time.Now(); r.status == http.StatusServiceUnavailable && time.Since(began) < patience; {
		r = i.post(t, token, key, body)
	}
	if r.status != http.StatusAccepted {
		t.Fatalf("create answered %d %s", r.status, r.body)
	}
	return r.charge(t)
}

// charge and problem are read with types of the test's own: a renamed member is a broken contract.
type charge struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	Amount         int64  `json:"amount"`
	Reference      string `json:"reference"`
	IdempotencyKey string `json:"idempotency_key"`
}

type problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	RequestID string `json:"request_id"`
	Fields    []struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	} `json:"fields"`
	Charge *charge `json:"charge"`
	Items  []struct {
		SKU       string `json:"sku"`
		Requested int64  `json:"requested"`
		Available int64  `json:"available"`
		Stocked   bool   `json:"stocked"`
	} `json:"items"`
	Inventory *stock `json:"inventory"`
}

func (p problem) fieldNames() string {
	names := make([]string, len(p.Fields))
	for i, f := range p.Fields {
		names[i] = f.Field
	}
	return strings.Join(names, " ")
}

func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return value
}

func (r reply) charge(t *testing.T) charge { t.Helper(); return decode[charge](t, r.body) }

// wantProblem checks a refusal and returns it.
func (r reply) wantProblem(t *testing.T, status int, code string) problem {
	t.Helper()
	p := problem{}
	if strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") {
		p = decode[problem](t, r.body)
	}
	if r.status != status || p.Status != status || p.Code != code || p.RequestID != r.header.Get("X-Request-Id") {
		t.Errorf("got %d %s, want %d %s", r.status, r.body, status, code)
	}
	return p
}

// count counts rows, such as count(t, "charge WHERE caller = $1", "alice").
func (d *deployment) count(t *testing.T, from string, args ...any) (n int) {
	t.Helper()
	if err := d.pool.QueryRow(context.Background(), "SELECT count(*) FROM "+from, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wantRows checks that there are exactly n charges, each with one key, one event and one job.
func (d *deployment) wantRows(t *testing.T, n int) {
	t.Helper()
	for _, table := range []string{"charge", "idempotency_key", "charge_event", "river_job"} {
		if got := d.count(t, table); got != n {
			t.Errorf("%d rows in %s, want %d", got, table, n)
		}
	}
}

func (d *deployment) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := d.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// settle makes a charge succeed.
func (d *deployment) settle(t *testing.T, id string) {
	t.Helper()
	d.exec(t, `UPDATE charge SET status = 'succeeded', payment_intent = 'pi_' || $1::text, updated_at = clock_timestamp() WHERE id = $1::text::uuid`, id)
}

func newKey() string { return uuid.NewString() }

const goodBody = `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa"}`

// eventually polls until what the test waits for has come.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if happened() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
