package stripe_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncepay/oncepay/workers/stripe"
	"github.com/oncepay/oncepay/workers/transport"
)

// I2: only a PaymentIntent that agrees with the request is a result. Everything else that comes back is unknown, whatever
// its status says: a proxy's page, half an answer, another payment.
func TestAnswersThatAreNotBelieved(t *testing.T) {
	t.Parallel()
	c := charge("pm_card_visa")
	good := intent(c)
	with := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	declined := func(intent string) string {
		return `{"error":{"type":"card_error","code":"card_declined","message":"No.","payment_intent":` + intent + `}}`
	}
	for name, tt := range map[string]struct {
		status int
		body   string
	}{
		"empty":               {200, ``},
		"null":                {200, `null`},
		"no object":           {200, `{}`},
		"an id alone":         {200, `"pi_1"`},
		"a list":              {200, `[` + good + `]`},
		"half":                {200, good[:len(good)-20]},
		"half, at the secret": {200, good[:strings.Index(good, "_secret_")+9]},
		"two":                 {200, good + good},
		"HTML":                {200, `<html><body>pi_1_secret_x</body></html>`},
		"an error with 200":   {200, `{"error":{"type":"api_error","message":"x"}}`},
		"an empty id":         {200, with(`"pi_1"`, `""`)},
		"another object's id": {200, with(`"pi_1"`, `"ch_1"`)},
		"another object":      {200, with(`"payment_intent"`, `"setup_intent"`)},
		"another amount":      {200, with(`1099`, `1100`)},
		"no amount":           {200, with(`"amount"`, `"amount_received"`)},
		"another currency":    {200, with(`"usd"`, `"eur"`)},
		"the other mode":      {200, with(`"livemode":false`, `"livemode":true`)},
		"no mode":             {200, with(`"livemode":false,`, ``)},
		"no status":           {200, with(`"succeeded"`, `""`)},
		"a sentence":          {200, with(`"succeeded"`, `"it went well"`)},
		"another key":         {200, with(c.IdempotencyKey.String(), anotherKey.String())},
		"no key":              {200, with("oncepay_key", "x")},
		"no content":          {204, ``},
		"created":             {201, good},
		"redirect":            {307, good},
		"502 of a proxy":      {502, `<html>Bad Gateway pi_1_secret_x</html>`},
		"502 in JSON":         {502, `{"message":"Bad Gateway"}`},
		"error is a string":   {502, `{"error":"Bad Gateway"}`},
		"error without type":  {400, `{"error":{"message":"x"}}`},
		"error is null":       {400, `{"error":null}`},
		"401 of a proxy":      {401, `Unauthorized`},
		"decline of another":  {402, declined(with(c.IdempotencyKey.String(), anotherKey.String()))},
		"decline of nothing":  {402, declined(`{}`)},
		"half a decline":      {402, declined(good)[:150]},
	} {
		g := answer(t, tt.status, map[string]string{"Request-Id": "req_1"}, tt.body)
		p, reply, err := send(t, g, attempt(t, g, c))
		if !errors.Is(err, transport.ErrUnknown) || errors.As(err, new(*stripe.Error)) || p.ID != "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if reply.HTTPStatus != tt.status || reply.RequestID != "req_1" {
			t.Errorf("%s: reply %+v", name, reply)
		}
	}

	// And so that the above is not for another reason: these two are believed.
	g := answer(t, 200, nil, good)
	if p, _, err := send(t, g, attempt(t, g, c)); err != nil || p.ID != "pi_1" {
		t.Errorf("good: %+v, %v", p, err)
	}
	g = answer(t, 402, nil, declined(good))
	if _, _, err := send(t, g, attempt(t, g, c)); asError(t, err).Payment.ID != "pi_1" {
		t.Errorf("declined: %v", err)
	}
}

func TestTextsAreCleanedAndBounded(t *testing.T) {
	t.Parallel()
	nasty := `line\r\nline\u0000 ` + secretKey + ` pi_1_secret_x ` + "\xff" + strings.Repeat("é", 100_000)
	body := fmt.Sprintf(`{"error":{"type":"invalid_request_error","code":%[1]q,"decline_code":%[1]q,"param":%[1]q,"message":%[1]q,"advice_code":%[1]q}}`, "?")
	body = strings.ReplaceAll(body, `"?"`, `"`+nasty+`"`)
	g := answer(t, 400, map[string]string{"Request-Id": "req_1 " + secretKey}, body)
	_, _, err := send(t, g, attempt(t, g, charge("pm_card_visa")))
	e := asError(t, err)
	for _, text := range []string{e.Code, e.DeclineCode, e.AdviceCode, e.Param, e.Message, e.RequestID, stripe.Failure(e).Code, *stripe.Failure(e).DeclineCode} {
		if strings.Contains(text, "s3cr3t") || strings.ContainsAny(text, "\r\n\x00") || !utf8.ValidString(text) || len([]rune(text)) > 500 {
			t.Errorf("not clean: %.200q", text)
		}
	}
	if !strings.Contains(e.Message, "line") {
		t.Errorf("nothing is left: %q", e.Message)
	}
}

// What no database would store is left out of a payment's news, rather than that the news is lost with it.
func TestWhatCannotBeStoredIsLeftOut(t *testing.T) {
	t.Parallel()
	c := charge("pm_card_visa")
	const page = `https://bank.example/3ds`
	for name, tt := range map[string]struct{ secret, url, wantSecret, wantURL string }{
		"as usual":      {`pi_1_secret_x`, page, "pi_1_secret_x", page},
		"NUL in a URL":  {`pi_1_secret_x`, page + `\u0000`, "pi_1_secret_x", ""},
		"NUL in both":   {`pi_1_secret_\u0000`, page + `\u0000`, "", ""},
		"not a letter":  {`pi_1_secret_x`, page + "\xff", "pi_1_secret_x", ""},
		"several lines": {`pi_1_secret_x`, page + `\r\nx`, "pi_1_secret_x", ""},
	} {
		body := strings.Replace(intent(c), `"succeeded"`, `"requires_action"`, 1)
		body = strings.Replace(body, `"client_secret":"pi_1_secret_x"`, `"client_secret":"`+tt.secret+`","next_action":{"type":"redirect_to_url","redirect_to_url":{"url":"`+tt.url+`"}}`, 1)
		g := answer(t, 200, nil, body)
		p, _, err := send(t, g, attempt(t, g, c))
		if err != nil || p.ClientSecret != tt.wantSecret || p.RedirectURL != tt.wantURL || p.Status != "requires_action" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
