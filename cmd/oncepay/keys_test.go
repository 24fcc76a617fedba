package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// get reads a path with a token.
func get(t *testing.T, url, token string) answer {
	t.Helper()
	a, err := call(http.MethodGet, url, "", map[string]string{"Authorization": "Bearer " + token}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestKeys(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	api := d.api()
	create := func(name, role string) string {
		out := d.oncepay("keys", "create", "--name="+name, "--role="+role).must(t)
		token, isAlone := strings.CutSuffix(out, "\n")
		if !isAlone || !regexp.MustCompile(`^\S{20,}$`).MatchString(token) {
			t.Fatalf("the token is not alone on stdout: %q", out)
		}
		return token
	}
	old, successor, other, operator := create("bakery", "caller"), create("bakery", "caller"), create("florist", "caller"), create("ops", "operator")

	// Tokens of one name are one caller.
	d.token = old
	a := d.mustPost(api.url, newKey(), plainCharge)
	if err := a.want(http.StatusAccepted); err != nil {
		t.Fatal(err)
	}
	charge := api.url + a.header.Get("Location")
	for token, status := range map[string]int{old: 200, successor: 200, operator: 200, other: 404, "made_up": 401} {
		if err := get(t, charge, token).want(status); err != nil {
			t.Error(err)
		}
	}
	d.token = operator
	if err := d.mustPost(api.url, newKey(), plainCharge).want(http.StatusForbidden); err != nil {
		t.Errorf("an operator posts charges: %v", err)
	}

	// Each token is a line of the list, which tells no token; ids revoke.
	list := d.oncepay("keys", "list").must(t)
	for _, token := range []string{old, successor, other, operator} {
		if strings.Contains(list, token) {
			t.Errorf("the list tells a token:\n%s", list)
		}
	}
	ids := regexp.MustCompile(`(?m)^(\S+)  bakery +caller +\S+Z +-$`).FindAllStringSubmatch(list, -1)
	if len(ids) != 2 || strings.Count(list, "\n") != 1+5 { // a header, and these four with the deployment's own
		t.Fatalf("the list:\n%s", list)
	}
	d.oncepay("keys", "revoke", ids[0][1]).must(t) // the oldest comes first
	if err := get(t, charge, old).want(http.StatusUnauthorized); err != nil {
		t.Errorf("revoked, and still good: %v", err)
	}
	if err := get(t, charge, successor).want(http.StatusOK); err != nil {
		t.Errorf("another token of that name: %v", err)
	}
	if list := d.oncepay("keys", "list").must(t); !regexp.MustCompile(`(?m)^` + ids[0][1] + `  bakery +caller +\S+Z +\S+Z$`).MatchString(list) {
		t.Errorf("the list does not show the revocation:\n%s", list)
	}
	if r := d.oncepay("keys", "revoke", ids[0][1]).run(t); r.code != 1 || r.stderr != fmt.Sprintf("oncepay: no valid token has the id %s\n", ids[0][1]) {
		t.Errorf("revoked twice: exit %d: %s", r.code, r.stderr)
	}
}
