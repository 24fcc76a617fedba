package stripetest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// partition is what state and idempotency keys belong to: an account in one mode.
type partition struct {
	Account  string `json:"account"`
	Livemode bool   `json:"livemode"`
}

// secretKey is a secret or restricted key: its mode, its account's name and, after another underscore, what
// tells the keys of one account apart.
var secretKey = regexp.MustCompile(`^[sr]k_(test|live)_([A-Za-z0-9]+)(_[A-Za-z0-9_]+)?$`)

// authenticate accepts a bearer token, and basic authentication with the key as user name, as Stripe does.
func authenticate(h http.Header) (partition, *apiError) {
	token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		token, _, ok = (&http.Request{Header: h}).BasicAuth()
	}
	if !ok || token == "" {
		return partition{}, invalid(401, "", "", "No API key was given: send it as a bearer token in the Authorization header.")
	}
	m := secretKey.FindStringSubmatch(token)
	if m == nil {
		return partition{}, invalid(401, "", "", "Invalid API key: "+masked(token)+".")
	}
	return partition{Account: "acct_" + m[2], Livemode: m[1] == "live"}, nil
}

// masked keeps the last four characters of a key that could be a real one.
func masked(token string) string {
	if len(token) <= 12 {
		return strings.Repeat("*", len(token))
	}
	return strings.Repeat("*", 8) + token[len(token)-4:]
}

type accountView struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	ChargesEnabled   bool              `json:"charges_enabled"`
	Country          string            `json:"country"`
	DefaultCurrency  string            `json:"default_currency"`
	DetailsSubmitted bool              `json:"details_submitted"`
	Metadata         map[string]string `json:"metadata"`
	PayoutsEnabled   bool              `json:"payouts_enabled"`
	Type             string            `json:"type"`
}

func account(who partition) accountView {
	return accountView{
		ID: who.Account, Object: "account", ChargesEnabled: true, Country: "US", DefaultCurrency: "usd",
		DetailsSubmitted: true, Metadata: map[string]string{}, PayoutsEnabled: true, Type: "standard",
	}
}

type balanceView struct {
	Object    string        `json:"object"`
	Available []balancePart `json:"available"`
	Livemode  bool          `json:"livemode"`
	Pending   []balancePart `json:"pending"`
}

type balancePart struct {
	Amount      int64            `json:"amount"`
	Currency    string           `json:"currency"`
	SourceTypes map[string]int64 `json:"source_types"`
}

// balance adds up what was received and neither given back nor disputed, by currency. There are no fees and no payouts here, and nothing is pending.
func (b *book) balance(who partition) balanceView {
	sums := map[string]int64{"usd": 0}
	for _, pi := range b.intents {
		sums[pi.Currency] += pi.unrefunded() - pi.AmountDisputed
	}
	view := balanceView{Object: "balance", Livemode: who.Livemode}
	for currency, sum := range sums {
		view.Available = append(view.Available, balancePart{sum, currency, map[string]int64{"card": sum}})
		view.Pending = append(view.Pending, balancePart{0, currency, map[string]int64{"card": 0}})
	}
	for _, parts := range [][]balancePart{view.Available, view.Pending} {
		slices.SortFunc(parts, func(x, y balancePart) int { return strings.Compare(x.Currency, y.Currency) })
	}
	return view
}
