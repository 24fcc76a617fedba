package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Vectors that another implementation has made, so that signer and verifier cannot be wrong together.
const (
	vectorTime = 1700000000

	// printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_vectorvector
	stripeVectorSecret = "whsec_vectorvector"
	stripeVectorBody   = `{"id":"evt_1"}`
	stripeVector       = "23058fba84a901b3b0dcbbc175a53174341267a57841f1c2be0bb136142018ca"

	// openssl ecparam -name prime256v1 -genkey -noout -out key.pem; openssl ec -in key.pem -pubout -outform DER | base64 -w0
	sendGridVectorKey = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEOfkp51+59TzswrE5ycF6xh0/JC0WaMI+tAnkj7CeztmllSZvcekp7LJZgSgb+XSA1dX9VFJMNs6rPOY+lRjoZg=="
	// printf '1700000000[{"event":"delivered","sg_event_id":"a"}]\r\n' | openssl dgst -sha256 -sign key.pem | base64 -w0
	sendGridVectorBody = `[{"event":"delivered","sg_event_id":"a"}]` + "\r\n"
	sendGridVector     = "MEUCIHZm12/3h1qNuIztPfePWEMtkYwfM219jZAzvHdhu669AiEAr2Ucco66fyx4drpjb6X+681PaYUtiKJBbxcT4mQRiEk="

	// openssl ecparam -name secp384r1 -genkey -noout | openssl ec -pubout -outform DER | base64 -w0
	otherCurve = "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEOIMlvar4yOAWlbApbEkkfbo3CqdJbMhBVQgByIqYr6l09OBVQb8Rhg6y1UxTvQI4LmxVDLeJle5GH2jzi+IFS8NcQ2ywGM8W60EM1orD1JWyJHrSlUYlJtn4FtvsMZWW"
	// openssl genpkey -algorithm ed25519 | openssl pkey -pubout -outform DER | base64 -w0
	notECDSA = "MCowBQYDK2VwAyEAH1fZuzllcxbCPZvw7zMhAfdgJsHekmNm25VU8IETJU4="
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestStripeVector(t *testing.T) {
	t.Parallel()
	good := "t=1700000000,v1=" + stripeVector
	for name, tc := range map[string]struct {
		secrets string
		header  http.Header
		body    string
		late    time.Duration
		want    error
	}{
		"good":                        {stripeVectorSecret, headers("Stripe-Signature", good), stripeVectorBody, 0, nil},
		"second secret":               {"whsec_another1 " + stripeVectorSecret, headers("Stripe-Signature", good), stripeVectorBody, 0, nil},
		"second signature":            {stripeVectorSecret, headers("Stripe-Signature", "t=1700000000,v1="+strings.Repeat("0", 64)+",v1="+stripeVector), stripeVectorBody, 0, nil},
		"other schemes beside it":     {stripeVectorSecret, headers("Stripe-Signature", good+",v0=abc"), stripeVectorBody, 0, nil},
		"300 s old":                   {stripeVectorSecret, headers("Stripe-Signature", good), stripeVectorBody, 300 * time.Second, nil},
		"301 s old":                   {stripeVectorSecret, headers("Stripe-Signature", good), stripeVectorBody, 301 * time.Second, errStale},
		"an hour ahead":               {stripeVectorSecret, headers("Stripe-Signature", good), stripeVectorBody, -time.Hour, errStale},
		"another secret":              {"whsec_another1", headers("Stripe-Signature", good), stripeVectorBody, 0, errWrongSigns},
		"another body":                {stripeVectorSecret, headers("Stripe-Signature", good), stripeVectorBody + "\n", 0, errWrongSigns},
		"another time":                {stripeVectorSecret, headers("Stripe-Signature", "t=1700000001,v1="+stripeVector), stripeVectorBody, 0, errWrongSigns},
		"two times":                   {stripeVectorSecret, headers("Stripe-Signature", "t=1,"+good), stripeVectorBody, 0, errBadForm},
		"no time":                     {stripeVectorSecret, headers("Stripe-Signature", "v1="+stripeVector), stripeVectorBody, 0, errBadForm},
		"a time that is no number":    {stripeVectorSecret, headers("Stripe-Signature", "t=1.7e9,v1="+stripeVector), stripeVectorBody, 0, errBadForm},
		"a time beyond all calendars": {stripeVectorSecret, headers("Stripe-Signature", "t=9223372036854775807,v1="+stripeVector), stripeVectorBody, 0, errBadForm},
		"only another scheme":         {stripeVectorSecret, headers("Stripe-Signature", "t=1700000000,v0="+stripeVector), stripeVectorBody, 0, errWrongSigns},
		"empty":                       {stripeVectorSecret, headers("Stripe-Signature", ""), stripeVectorBody, 0, errBadForm},
		"missing":                     {stripeVectorSecret, headers(), stripeVectorBody, 0, errUnsigned},
		"two headers":                 {stripeVectorSecret, headers("Stripe-Signature", good, "Stripe-Signature", good), stripeVectorBody, 0, errBadForm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(vectorTime, 0).Add(tc.late)
			if err := stripeSecrets(strings.Fields(tc.secrets)).verify(tc.header, []byte(tc.body), now); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestSendGridVector(t *testing.T) {
	t.Parallel()
	good := headers(sendGridSignature, sendGridVector, sendGridTimestamp, "1700000000")
	flipped := "[" + strings.Replace(sendGridVectorBody[1:], "delivered", "delivereD", 1)
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		late   time.Duration
		want   error
	}{
		"good":                   {good, sendGridVectorBody, 0, nil},
		"10 min old":             {good, sendGridVectorBody, 10 * time.Minute, nil},
		"older":                  {good, sendGridVectorBody, 10*time.Minute + time.Second, errStale},
		"ahead":                  {good, sendGridVectorBody, -11 * time.Minute, errStale},
		"flipped byte":           {good, flipped, 0, errWrongSigns},
		"without the final CRLF": {good, strings.TrimSpace(sendGridVectorBody), 0, errWrongSigns},
		"another time":           {headers(sendGridSignature, sendGridVector, sendGridTimestamp, "1700000001"), sendGridVectorBody, 0, errWrongSigns},
		"no signature":           {headers(sendGridTimestamp, "1700000000"), sendGridVectorBody, 0, errUnsigned},
		"no time":                {headers(sendGridSignature, sendGridVector), sendGridVectorBody, 0, errUnsigned},
		"not base64":             {headers(sendGridSignature, "?", sendGridTimestamp, "1700000000"), sendGridVectorBody, 0, errBadForm},
		"not a signature":        {headers(sendGridSignature, "AAAA", sendGridTimestamp, "1700000000"), sendGridVectorBody, 0, errWrongSigns},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, verifier, err := verifiers(Config{SendGridWebhookKeys: []string{sendGridVectorKey}})
			if err != nil {
				t.Fatal(err)
			}
			now := time.Unix(vectorTime, 0).Add(tc.late)
			if err := verifier.verify(tc.header, []byte(tc.body), now); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestWebhookKeysAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"stripe, empty":           {StripeWebhookSecrets: []string{""}},
		"stripe, an API key":      {StripeWebhookSecrets: []string{stripeVectorSecret, "sk_live_hunter2hunter2"}},
		"sendgrid, empty":         {SendGridWebhookKeys: []string{""}},
		"sendgrid, not base64":    {SendGridWebhookKeys: []string{"hunter2!"}},
		"sendgrid, not DER":       {SendGridWebhookKeys: []string{"aHVudGVyMg=="}},
		"sendgrid, not ECDSA":     {SendGridWebhookKeys: []string{sendGridVectorKey, notECDSA}},
		"sendgrid, another curve": {SendGridWebhookKeys: []string{otherCurve}},
		"sendgrid, no window":     {SendGridWebhookWindow: -1},
	} {
		if _, _, err := verifiers(c); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	stripe, sendGrid, err := verifiers(Config{})
	if err != nil || stripe != nil || sendGrid != nil {
		t.Errorf("nothing configured: %v %v %v", stripe, sendGrid, err)
	}
}
