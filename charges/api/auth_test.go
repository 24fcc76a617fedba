package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	for name, tc := range map[string]struct {
		headers []string
		valid   bool
	}{
		"none":            {nil, false},
		"good":            {[]string{"Bearer tok_alice"}, true},
		"other case":      {[]string{"bEARER tok_alice"}, true},
		"more space":      {[]string{"Bearer   tok_alice"}, true},
		"unknown":         {[]string{"Bearer tok_mallory"}, false},
		"other scheme":    {[]string{"Basic tok_alice"}, false},
		"scheme alone":    {[]string{"Bearer"}, false},
		"token alone":     {[]string{"tok_alice"}, false},
		"empty":           {[]string{""}, false},
		"two headers":     {[]string{"Bearer tok_alice", "Bearer tok_alice"}, false},
		"two tokens":      {[]string{"Bearer tok_alice tok_bob"}, false},
		"list":            {[]string{"Bearer tok_alice, Bearer tok_bob"}, false},
		"tab":             {[]string{"Bearer\ttok_alice"}, false},
		"other case of a": {[]string{"Bearer TOK_ALICE"}, false},
		"endless":         {[]string{"Bearer " + strings.Repeat("a", 5000)}, false},
	} {
		var headers []string
		for _, h := range tc.headers {
			headers = append(headers, "Authorization", h)
		}
		r := d.send(t, "", http.MethodGet, "/charges", "", headers...)
		if tc.valid {
			if r.status != http.StatusOK {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
			continue
		}
		r.wantProblem(t, http.StatusUnauthorized, "unauthenticated")
		if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: headers %v", name, r.header)
		}
	}
	// Who is calling is asked before anything else.
	d.send(t, "", http.MethodPost, "/charge", "").wantProblem(t, http.StatusUnauthorized, "unauthenticated")
	d.send(t, operator, http.MethodPost, "/charge", "").wantProblem(t, http.StatusForbidden, "forbidden")
	d.post(t, operator, newKey(), goodBody).wantProblem(t, http.StatusForbidden, "forbidden")
	d.wantRows(t, 0)
}

func TestRevokedToken(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	secret, err := d.service.CreateToken(t.Context(), "carol", charges.Caller)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey()
	first := d.accept(t, secret, key, goodBody)
	tokens, err := d.service.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if token.Name == "carol" {
			if err := d.service.RevokeToken(t.Context(), token.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.get(t, secret, "/charges/"+first.ID).wantProblem(t, http.StatusUnauthorized, "unauthenticated")
	d.post(t, secret, key, goodBody).wantProblem(t, http.StatusUnauthorized, "unauthenticated")

	// Its successor of the same name is the same caller.
	if err := d.service.AddToken(t.Context(), "tok_carol_2", "carol", charges.Caller); err != nil {
		t.Fatal(err)
	}
	if again := d.post(t, "tok_carol_2", key, goodBody); again.status != http.StatusAccepted || again.charge(t).ID != first.ID {
		t.Errorf("got %d %s", again.status, again.body)
	}
}

func TestCallersSeeTheirOwnAndOperatorsAll(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	of := map[string]charge{alice: d.accept(t, alice, newKey(), goodBody), bob: d.accept(t, bob, newKey(), goodBody)}
	for owner, c := range of {
		for _, reader := range []string{alice, bob, operator} {
			for _, path := range []string{"/charges/" + c.ID, "/charges/" + c.ID + "/events", "/idempotency-keys/" + c.IdempotencyKey} {
				r := d.get(t, reader, path)
				if reader == owner || reader == operator {
					if r.status != http.StatusOK {
						t.Errorf("%s reads %s's %s: %d %s", reader, owner, path, r.status, r.body)
					}
					continue
				}
				r.wantProblem(t, http.StatusNotFound, "not_found")
			}
		}
	}
	for reader, want := range map[string]int{alice: 1, bob: 1, operator: 2} {
		list := decode[struct{ Data []charge }](t, d.get(t, reader, "/charges").body)
		if len(list.Data) != want {
			t.Errorf("%s lists %d charges, want %d", reader, len(list.Data), want)
		}
	}
}
