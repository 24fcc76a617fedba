package api_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// stock is what there is of a SKU, read with a type of the test's own.
type stock struct {
	SKU       string    `json:"sku"`
	Quantity  int64     `json:"quantity"`
	Available int64     `json:"available"`
	Held      int64     `json:"held"`
	Taken     int64     `json:"taken"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (s stock) String() string {
	return fmt.Sprintf("%s %d = %d + %d + %d", s.SKU, s.Quantity, s.Available, s.Held, s.Taken)
}

func (i *instance) put(t *testing.T, token, sku, body string, headers ...string) reply {
	t.Helper()
	headers = append([]string{"Content-Type", "application/json"}, headers...)
	return i.send(t, token, http.MethodPut, "/inventory/"+sku, body, headers...)
}

// stocked sets a quantity that can be.
func (i *instance) stocked(t *testing.T, sku string, quantity int) stock {
	t.Helper()
	r := i.put(t, operator, sku, fmt.Sprintf(`{"quantity":%d}`, quantity))
	if r.status != http.StatusOK {
		t.Fatalf("PUT answered %d %s", r.status, r.body)
	}
	return decode[stock](t, r.body)
}

// wantStock checks what there is of a SKU, such as "tee 3 = 1 + 1 + 1": quantity = available + held + taken.
func (i *instance) wantStock(t *testing.T, want string) {
	t.Helper()
	sku, _, _ := strings.Cut(want, " ")
	r := i.get(t, alice, "/inventory/"+sku)
	if got := decode[stock](t, r.body); r.status != http.StatusOK || got.String() != want {
		t.Errorf("%d %s, want %s", r.status, r.body, want)
	}
}

func (d *deployment) settings(t *testing.T) int {
	t.Helper()
	return d.count(t, `operator_action WHERE action = 'inventory.set' AND actor = 'operator:ops'`)
}

// selling is a charge for items, such as {"sku":"tee","quantity":1}.
func selling(items ...string) string {
	return strings.Replace(goodBody, "{", `{"items":[`+strings.Join(items, ",")+`],`, 1)
}

func item(sku string, quantity int) string {
	return fmt.Sprintf(`{"sku":%q,"quantity":%d}`, sku, quantity)
}

func TestSetInventory(t *testing.T) {
	t.Parallel()
	d := deploy(t, hooked)
	const sku = "Tee.v2:blue_M-1"
	for _, unknown := range []string{sku, "-no-SKU"} {
		if p := d.get(t, alice, "/inventory/"+unknown).wantProblem(t, http.StatusNotFound, "not_found"); p.Detail != "The SKU was never stocked." {
			t.Errorf("%s: %s", unknown, p.Detail)
		}
	}
	first := d.stocked(t, sku, 3)
	if first.String() != sku+" 3 = 3 + 0 + 0" || time.Since(first.UpdatedAt).Abs() > time.Hour || first.UpdatedAt.Location() != time.UTC {
		t.Errorf("set to %s at %s", first, first.UpdatedAt)
	}
	// Sent twice it changes nothing, and nothing is written down a second time.
	if again := d.stocked(t, sku, 3); again != first || d.settings(t) != 1 {
		t.Errorf("again: %s at %s, %d settings", again, again.UpdatedAt, d.settings(t))
	}
	d.wantStock(t, sku+" 3 = 3 + 0 + 0")

	sold, held := d.sent(t, selling(item(sku, 1))), d.sent(t, selling(item(sku, 1)))
	d.tell(t, paymentEvent(sold, "succeeded", nil)).wantReceived(t)
	d.wantStock(t, sku+" 3 = 1 + 1 + 1")
	if s := d.stocked(t, sku, 2); s.String() != sku+" 2 = 0 + 1 + 1" || !s.UpdatedAt.After(first.UpdatedAt) {
		t.Errorf("lowered to what is held and taken: %s at %s", s, s.UpdatedAt)
	}
	r := d.put(t, operator, sku, `{"quantity":1}`)
	p := r.wantProblem(t, http.StatusConflict, "invalid_state")
	if p.Inventory == nil || p.Inventory.String() != sku+" 2 = 0 + 1 + 1" || r.header.Get("Retry-After") != "" || !strings.Contains(p.Detail, "Nothing was written") {
		t.Errorf("below held and taken: %s", r.body)
	}
	if n := d.settings(t); n != 2 {
		t.Errorf("%d settings", n)
	}
	d.tell(t, paymentEvent(held, "canceled", nil)).wantReceived(t)
	d.wantStock(t, sku+" 2 = 1 + 0 + 1")
	d.put(t, operator, sku, `{"quantity":0}`).wantProblem(t, http.StatusConflict, "invalid_state")
	d.stocked(t, sku, 1)
	d.stocked(t, "none-yet", 0)
	d.wantStock(t, "none-yet 0 = 0 + 0 + 0")
	d.stocked(t, "much", 1_000_000_000_000)
}

// What was set by another meanwhile is refused where it was said what there was, and the same sent twice changes nothing.
func TestSetInventoryFromPrevious(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	set := func(body string) reply { return d.put(t, operator, "tee", body) }
	if r := set(`{"quantity":10,"previous":3}`); r.wantProblem(t, http.StatusConflict, "invalid_state").Inventory != nil || !strings.Contains(r.body, "never stocked") {
		t.Errorf("never stocked: %s", r.body)
	}
	d.get(t, alice, "/inventory/tee").wantProblem(t, http.StatusNotFound, "not_found")
	for range 2 {
		if r := set(`{"quantity":10,"previous":0}`); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	// Two who have read 10 add 5 and 7: one is told, reads 15, and adds to that.
	var adding sync.WaitGroup
	answers := make([]reply, 2)
	for i, n := range []int{15, 17} {
		adding.Go(func() { answers[i] = set(fmt.Sprintf(`{"quantity":%d,"previous":10}`, n)) })
	}
	adding.Wait()
	first, second := answers[0], answers[1]
	if first.status != http.StatusOK {
		first, second = second, first
	}
	won := decode[stock](t, first.body)
	p := second.wantProblem(t, http.StatusConflict, "invalid_state")
	if first.status != http.StatusOK || p.Inventory == nil || p.Inventory.Quantity != won.Quantity || !strings.Contains(p.Detail, "somebody else has set it") {
		t.Errorf("%s, then %s", first.body, second.body)
	}
	d.wantStock(t, fmt.Sprintf("tee %d = %[1]d + 0 + 0", won.Quantity))
	d.accept(t, alice, newKey(), selling(item("tee", 9)))
	p = set(fmt.Sprintf(`{"quantity":8,"previous":%d}`, won.Quantity)).wantProblem(t, http.StatusConflict, "invalid_state")
	if p.Inventory == nil || p.Inventory.Held != 9 {
		t.Errorf("less than is held: %+v", p)
	}
	if n := d.settings(t); n != 2 {
		t.Errorf("%d settings", n)
	}
}

func TestSetInventoryIsStrict(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	for body, fields := range map[string]string{
		"":                              "body",
		"10":                            "body",
		"null":                          "body",
		"[]":                            "body",
		"{}":                            "quantity",
		`{"previous":1}`:                "quantity",
		`{"quantity":1,"previous":"1"}`: "previous",
		`{"quantity":1,"previous":-1}`:  "previous",
		`{"quantity":1,"previous":1000000000001}`: "previous",
		`{"quantity":null}`:                       "quantity",
		`{"quantity":"10"}`:                       "quantity",
		`{"quantity":10.0}`:                       "quantity",
		`{"quantity":1e1}`:                        "quantity",
		`{"quantity":-1}`:                         "quantity",
		`{"quantity":-0}`:                         "quantity",
		`{"quantity":010}`:                        "quantity",
		`{"quantity":1000000000001}`:              "quantity",
		`{"quantity":99999999999999999999}`:       "quantity",
		`{"quantity":1,"quantity":2}`:             "quantity",
		`{"Quantity":1}`:                          "Quantity quantity",
		`{"quantity":1,"sku":"a"}`:                "sku",
		`{"quantity":1}{"quantity":1}`:            "body",
		`{"quantity":1`:                           "body",
		"\ufeff" + `{"quantity":1}`:               "body",
	} {
		p := d.put(t, operator, "tee", body).wantProblem(t, http.StatusBadRequest, "invalid_request")
		if got := p.fieldNames(); got != fields || strings.Contains(p.Fields[0].Reason, "minor unit") {
			t.Errorf("%s: %+v, want %s", body, p.Fields, fields)
		}
	}
	for _, sku := range []string{"_tee", "-tee", "tee%20blue", "tee%00", "t%C3%A9", "tee,blue", strings.Repeat("a", 65)} {
		if p := d.put(t, operator, sku, `{"quantity":1}`).wantProblem(t, http.StatusBadRequest, "invalid_request"); p.fieldNames() != "sku" {
			t.Errorf("%s: %+v", sku, p.Fields)
		}
		d.get(t, alice, "/inventory/"+sku).wantProblem(t, http.StatusNotFound, "not_found")
	}
	d.put(t, operator, "_tee", `{"quantity":-1}`).wantProblem(t, http.StatusBadRequest, "invalid_request")

	d.put(t, operator, "tee", `{"quantity":1}`+strings.Repeat(" ", 512<<10)).wantProblem(t, http.StatusRequestEntityTooLarge, "too_large")
	d.send(t, operator, http.MethodPut, "/inventory/tee", `{"quantity":1}`).wantProblem(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	d.send(t, operator, http.MethodPut, "/inventory/tee", `quantity=1`, "Content-Type", "application/x-www-form-urlencoded").
		wantProblem(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	d.put(t, operator, "tee?quantity=1", `{"quantity":1}`).wantProblem(t, http.StatusBadRequest, "invalid_request")
	if n := d.count(t, "inventory"); n != 0 {
		t.Errorf("%d SKUs", n)
	}
	d.stocked(t, strings.Repeat("a", 64), 1)
}

// Stock is one for the whole deployment: every token sees it, and operators alone set it.
func TestInventoryRoles(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	d.put(t, alice, "tee", `{"quantity":1}`).wantProblem(t, http.StatusForbidden, "forbidden")
	d.put(t, "", "tee", `{"quantity":1}`).wantProblem(t, http.StatusUnauthorized, "unauthenticated")
	d.stocked(t, "tee", 1)
	for _, path := range []string{"/inventory", "/inventory/tee"} {
		for _, token := range []string{alice, bob, operator} {
			if r := d.get(t, token, path); r.status != http.StatusOK || !strings.Contains(r.body, `"sku":"tee"`) {
				t.Errorf("%s reads %s: %d %s", token, path, r.status, r.body)
			}
		}
		d.get(t, "", path).wantProblem(t, http.StatusUnauthorized, "unauthenticated")
	}
	for call, allow := range map[string]string{"POST /inventory/tee": "GET, PUT", "DELETE /inventory/tee": "GET, PUT", "PUT /inventory": "GET"} {
		method, path, _ := strings.Cut(call, " ")
		r := d.send(t, operator, method, path, "")
		r.wantProblem(t, http.StatusMethodNotAllowed, "method_not_allowed")
		if r.header.Get("Allow") != allow {
			t.Errorf("%s: Allow: %s", call, r.header.Get("Allow"))
		}
	}
}

func TestListInventory(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	if r := d.get(t, alice, "/inventory"); r.body != `{"data":[],"next_cursor":null}` {
		t.Errorf("nothing stocked: %s", r.body)
	}
	want := []string{"10", "9", "B", "a", "a-1", "a.1", "a1", "a:1", "b"} // by their bytes
	for _, sku := range want {
		d.stocked(t, sku, 5)
	}
	d.accept(t, alice, newKey(), selling(item("a.1", 2)))
	var got []string
	query, pages := url.Values{"limit": {"2"}}, 0
	for ; ; pages++ {
		r := d.get(t, bob, "/inventory?"+query.Encode())
		p := decode[struct {
			Data       []stock `json:"data"`
			NextCursor *string `json:"next_cursor"`
		}](t, r.body)
		for _, s := range p.Data {
			got = append(got, s.SKU)
			if s.SKU == "a.1" && s.String() != "a.1 5 = 3 + 2 + 0" {
				t.Errorf("listed %s", s)
			}
		}
		if p.NextCursor == nil {
			break
		}
		query.Set("cursor", *p.NextCursor)
		d.stocked(t, "0"+strconv.Itoa(pages), 1) // before all that are still to come
	}
	if !slices.Equal(got, want) || pages != 4 {
		t.Errorf("listed %v in %d full pages, want %v", got, pages, want)
	}

	charge := d.accept(t, alice, newKey(), goodBody)
	d.accept(t, alice, newKey(), goodBody)
	ofCharges := *decode[page](t, d.get(t, alice, "/charges?limit=1").body).NextCursor
	for query, field := range map[string]string{
		"cursor=": "cursor", "cursor=tee": "cursor", "cursor=" + ofCharges: "cursor", "cursor=Aw": "cursor", // the form alone
		"cursor=A19h": "cursor" /* _a, which is no SKU */, "limit=0": "limit", "limit=101": "limit", "sku=tee": "sku",
	} {
		if p := d.get(t, alice, "/inventory?"+query).wantProblem(t, http.StatusBadRequest, "invalid_request"); p.fieldNames() != field {
			t.Errorf("%s: %+v", query, p.Fields)
		}
	}
	// SKUs that are as long as other lists' ids.
	for sku, path := range map[string]string{"sixteen-bytes-ok": "/charges", "eightsku": "/charges/" + charge.ID + "/events"} {
		cursor := "?cursor=" + base64.RawURLEncoding.EncodeToString([]byte("\x03"+sku))
		if r := d.get(t, alice, "/inventory"+cursor); r.status != http.StatusOK {
			t.Errorf("after %s: %d %s", sku, r.status, r.body)
		}
		d.get(t, alice, path+cursor).wantProblem(t, http.StatusBadRequest, "invalid_request")
	}
	d.get(t, alice, "/inventory/a.1?expand=charges").wantProblem(t, http.StatusBadRequest, "invalid_request")
}

// I8: whoever sets a quantity, or asks for items, while others keep the SKU is told to come back, and nothing is written.
func TestI8InventoryHeldByAnother(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	d.stocked(t, "mug", 1)
	d.stocked(t, "tee", 1)
	conn, err := pgx.Connect(context.Background(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM inventory FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	key := newKey()
	var both sync.WaitGroup
	both.Go(func() { d.put(t, operator, "tee", `{"quantity":2}`).wantUnavailable(t) })
	both.Go(func() { d.post(t, alice, key, selling(item("mug", 1))).wantUnavailable(t) })
	both.Wait()
	d.wantRows(t, 0)
	d.wantStock(t, "tee 1 = 1 + 0 + 0") // reading waits for nobody
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.stocked(t, "tee", 2)
	d.accept(t, alice, key, selling(item("mug", 1)))
}

func TestI8InventoryWithoutDatabase(t *testing.T) {
	t.Parallel()
	d, p := behindProxy(t)
	d.stocked(t, "tee", 1)
	p.setDown(true)
	d.put(t, operator, "tee", `{"quantity":2}`).wantUnavailable(t)
	for _, path := range []string{"/inventory", "/inventory/tee"} {
		d.get(t, alice, path).wantUnavailable(t)
	}
	d.post(t, alice, newKey(), selling(item("tee", 1))).wantUnavailable(t)
	p.setDown(false)
	d.wantStock(t, "tee 1 = 1 + 0 + 0")
	d.stocked(t, "tee", 2)
}
