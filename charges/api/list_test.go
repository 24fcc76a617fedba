package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

type page struct {
	Data       []charge `json:"data"`
	NextCursor *string  `json:"next_cursor"`
}

func TestListStaysTheSameWhileChargesArrive(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	var want []string
	for range 7 {
		want = append(want, d.accept(t, alice, newKey(), goodBody).ID)
	}
	slices.Reverse(want) // newest first
	var got []string
	query := url.Values{"limit": {"3"}}
	for pages := 0; ; pages++ {
		r := d.get(t, alice, "/charges?"+query.Encode())
		p := decode[page](t, r.body)
		for _, c := range p.Data {
			got = append(got, c.ID)
		}
		if p.NextCursor == nil {
			if pages != 2 {
				t.Errorf("%d full pages before the last", pages)
			}
			break
		}
		query.Set("cursor", *p.NextCursor)
		d.accept(t, alice, newKey(), goodBody)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v\nwant %v", got, want)
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	var ids []string
	for i := range 3 {
		ids = append(ids, d.accept(t, alice, newKey(), strings.Replace(goodBody, "{", fmt.Sprintf(`{"reference":"order %d & ü",`, i), 1)).ID)
	}
	d.settle(t, ids[1])
	for query, want := range map[string][]string{
		"":                               {ids[2], ids[1], ids[0]},
		"?status=pending":                {ids[2], ids[0]},
		"?status=succeeded":              {ids[1]},
		"?status=failed":                 {},
		"?reference=order+0+%26+%C3%BC":  {ids[0]},
		"?reference=order":               {},
		"?status=pending&limit=1":        {ids[2]},
		"?limit=100&reference=ORDER%200": {},
	} {
		r := d.get(t, alice, "/charges"+query)
		got := []string{}
		for _, c := range decode[page](t, r.body).Data {
			got = append(got, c.ID)
		}
		if r.status != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("%s listed %v, want %v", query, got, want)
		}
	}
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	c := d.accept(t, alice, newKey(), goodBody)
	for i := range 4 {
		d.exec(t, `INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data)
			VALUES ($1, 'charge.processing', 'pending', 'processing', 'worker', jsonb_build_object('attempt', $2::int))`, c.ID, i)
	}
	var types []string
	cursor := ""
	for range 10 {
		r := d.get(t, alice, "/charges/"+c.ID+"/events?limit=2"+cursor)
		p := decode[struct {
			Data       []struct{ Type, Actor string } `json:"data"`
			NextCursor *string                        `json:"next_cursor"`
		}](t, r.body)
		for _, e := range p.Data {
			types = append(types, e.Type+" "+e.Actor)
		}
		if p.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *p.NextCursor
	}
	want := []string{"charge.accepted caller:alice", "charge.processing worker", "charge.processing worker", "charge.processing worker", "charge.processing worker"}
	if !slices.Equal(types, want) {
		t.Errorf("events %q, want %q", types, want)
	}
}

func TestQueriesAreStrict(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	c := d.accept(t, alice, newKey(), goodBody)
	d.accept(t, alice, newKey(), goodBody)
	next := decode[page](t, d.get(t, alice, "/charges?limit=1").body).NextCursor
	if next == nil {
		t.Fatal("no second page")
	}
	for path, fields := range map[string]string{
		"/charges?limit=0":                               "limit",
		"/charges?limit=101":                             "limit",
		"/charges?limit=-1":                              "limit",
		"/charges?limit=":                                "limit",
		"/charges?limit=ten":                             "limit",
		"/charges?limit=%2B5":                            "limit",
		"/charges?limit=05":                              "limit",
		"/charges?limit=99999999999999999999":            "limit",
		"/charges?limit=1&limit=2":                       "limit",
		"/charges?status=done":                           "status",
		"/charges?status=":                               "status",
		"/charges?reference=":                            "reference",
		"/charges?reference=a%00b":                       "reference",
		"/charges?reference=%ff":                         "reference",
		"/charges?reference=" + strings.Repeat("a", 201): "reference",
		"/charges?cursor=":                               "cursor",
		"/charges?cursor=hunter2":                        "cursor",
		"/charges?cursor=" + c.ID:                        "cursor",
		"/charges?cursor=" + *next + "A":                 "cursor",
		"/charges/" + c.ID + "/events?cursor=" + *next:   "cursor",
		"/charges/" + c.ID + "/events?status=pending":    "status",
		"/charges/" + c.ID + "?expand=hunter2":           "expand",
		"/charges?stauts=failed&refrence=a":              "refrence stauts",
		"/charges?%3Cscript%3E=1":                        "query",
		"/charges?%zz":                                   "query",
		"/charges?limit=1;status=pending":                "query",
		"/idempotency-keys/" + c.IdempotencyKey + "?a=b": "a",
	} {
		r := d.get(t, alice, path)
		p := r.wantProblem(t, http.StatusBadRequest, "invalid_request")
		if p.fieldNames() != fields || strings.Contains(r.body, "hunter2") || strings.Contains(r.body, "script") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	r := d.send(t, alice, http.MethodPost, "/charge?dry_run=true", goodBody, "Idempotency-Key", newKey(), "Content-Type", "application/json")
	r.wantProblem(t, http.StatusBadRequest, "invalid_request")
	d.wantRows(t, 2)
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	c := d.accept(t, alice, newKey(), goodBody)
	for _, path := range []string{
		"/", "/nothing", "/charge/", "/charges/", "//charges", "/charges/../charges", "/charges/42", "/charges/" + newKey(),
		"/charges/" + c.ID + "/", "/charges/" + c.ID + "/refunds/1", "/charges/urn:uuid:" + c.ID, "/charges/%7B" + c.ID + "%7D",
		"/charges/42/events", "/idempotency-keys/", "/openapi.json/", "/CHARGES",
	} {
		d.get(t, alice, path).wantProblem(t, http.StatusNotFound, "not_found")
	}
	for call, allow := range map[string]string{
		"GET /charge": "POST", "DELETE /charges/" + c.ID: "GET", "POST /charges": "GET", "OPTIONS /charges": "GET",
		"PUT /idempotency-keys/" + newKey(): "GET", "POST /healthz": "GET", "HEAD /charge": "POST", "BREW /charge": "POST",
	} {
		method, path, _ := strings.Cut(call, " ")
		r := d.send(t, alice, method, path, "")
		if method != http.MethodHead {
			r.wantProblem(t, http.StatusMethodNotAllowed, "method_not_allowed")
		}
		if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow: %s", call, r.status, r.header.Get("Allow"))
		}
	}
	if r := d.send(t, alice, http.MethodHead, "/charges/"+c.ID, ""); r.status != http.StatusOK || r.body != "" || r.header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d %q %v", r.status, r.body, r.header)
	}
}
