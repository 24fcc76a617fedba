package charges_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/oncepay/oncepay/charges"
	"pgregory.net/rapid"
)

// I4: the stored form and its fingerprint are compared with those of any later release, so that neither may ever change.
func TestCanonicalFormIsPinned(t *testing.T) {
	t.Parallel()
	sendBefore := time.Date(2030, 1, 31, 13, 0, 0, 500_000_999, time.FixedZone("", 3600))
	tests := []struct {
		name              string
		request           charges.Request
		canonical, sha256 string
	}{
		{
			"smallest", goodRequest(),
			`{"amount":1099,"currency":"usd","payment_method":"pm_card_visa"}`,
			"1905e96cbe3a3a127a04c34c9947b91b173d2dc33332dffcaca2c1ff2600611e",
		}, {
			"every member",
			charges.Request{
				Amount: 999_999_999_999, Currency: "IDR", PaymentMethod: "pm_1", Customer: "cus_1", OffSession: true, SetupFutureUsage: "on_session",
				ReturnURL: "https://shop.example/?a=1&b=2", ReceiptEmail: "a@b.example", Description: "<é>\n\u2028𝄞\\u0000",
				StatementDescriptorSuffix: "ORDER 1", Metadata: map[string]string{"b": "2", "a": "1", "B": "3"},
				CaptureMethod: "manual", Reference: "order-1", SendBefore: &sendBefore,
			},
			`{"amount":999999999999,"capture_method":"manual","currency":"idr","customer":"cus_1",` +
				`"description":"<é>\n` + "\u2028" + `𝄞\\u0000","metadata":{"B":"3","a":"1","b":"2"},"off_session":true,"payment_method":"pm_1",` +
				`"receipt_email":"a@b.example","reference":"order-1","return_url":"https://shop.example/?a=1&b=2",` +
				`"send_before":"2030-01-31T12:00:00.500000Z","setup_future_usage":"on_session","statement_descriptor_suffix":"ORDER 1"}`,
			"17a032c8c4448dba9edafbf76ff3184256b4d062c65274e087b754053454fa44",
		},
	}
	for _, tt := range tests {
		canonical := tt.request.Canonical()
		if string(canonical) != tt.canonical {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, canonical, tt.canonical)
		}
		sum := charges.Fingerprint("POST", "/charge", canonical)
		if got := hex.EncodeToString(sum[:]); got != tt.sha256 {
			t.Errorf("%s: got fingerprint %s, want %s", tt.name, got, tt.sha256)
		}
		stored, err := charges.ParseCanonical(canonical)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if again := stored.Canonical(); string(again) != tt.canonical {
			t.Errorf("%s: read back as %s", tt.name, again)
		}
	}
}

func TestFingerprintKeepsItsPartsApart(t *testing.T) {
	t.Parallel()
	seen := map[[32]byte]string{}
	for _, parts := range [][3]string{
		{"POST", "/charge", "{}"}, {"PUT", "/charge", "{}"}, {"POST", "/charges", "{}"}, {"POST", "/charge", "{ }"},
		{"POST/", "charge", "{}"}, {"POST", "/charge{", "}"}, {"", "POST/charge{}", ""},
	} {
		sum := charges.Fingerprint(parts[0], parts[1], []byte(parts[2]))
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %s have one fingerprint", parts, other)
		}
		seen[sum] = fmt.Sprintf("%q", parts)
	}
}

func TestParseCanonicalRefusesWhatItCannotCarryOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"amount":1099,"currency":"usd","payment_method":"pm_1","shipping":{"to":"a"}}`, // a later release's
		`{"amount":1099,"amount":1,"currency":"usd","payment_method":"pm_1"}`,
		`{"amount":"1099"}`, `[]`, ``, `{"amount":1`,
	} {
		_, err := charges.ParseCanonical([]byte(text))
		var invalid *charges.InvalidError
		if err == nil || errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want an error that does not blame the caller", text, err)
		}
	}
	if r, err := charges.ParseCanonical([]byte("{\n \"payment_method\": \"pm_1\", \"amount\": 5, \"currency\": \"xxx\"}")); err != nil || r.Amount != 5 {
		t.Errorf("a request under older rules: got %+v, %v", r, err)
	}
}

func TestDifferingFields(t *testing.T) {
	t.Parallel()
	const base = `{"amount":1099,"currency":"usd","metadata":{"a":"1","b":"2"},"payment_method":"pm_1"}`
	tests := []struct {
		other string
		want  []string
	}{
		{base, nil},
		{`{ "payment_method": "pm_1", "metadata": {"b":"2", "a":"\u0031"}, "currency": "usd", "amount": 1099 }`, nil},
		{strings.Replace(base, "1099", "1100", 1), []string{"amount"}},
		{strings.Replace(base, `"usd"`, `"eur"`, 1), []string{"currency"}},
		{strings.Replace(base, `"1"`, `"9"`, 1), []string{"metadata.a"}},
		{strings.Replace(base, `"a":"1",`, ``, 1), []string{"metadata.a"}},
		{strings.Replace(base, `"a":`, `"c":`, 1), []string{"metadata.a", "metadata.c"}},
		{strings.Replace(base, `"metadata":{"a":"1","b":"2"},`, ``, 1), []string{"metadata.a", "metadata.b"}},
		{strings.Replace(base, `"amount"`, `"zz"`, 1), []string{"amount", "zz"}},
		{`not JSON`, nil},
		{`[]`, nil},
	}
	for _, tt := range tests {
		for _, pair := range [][2]string{{base, tt.other}, {tt.other, base}} {
			if got := charges.DifferingFields([]byte(pair[0]), []byte(pair[1])); !slices.Equal(got, tt.want) {
				t.Errorf("%s\n%s\ngot %v, want %v", pair[0], pair[1], got, tt.want)
			}
		}
	}
}

// I4: how a request is spelled does not matter.
func TestCanonicalIgnoresSpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		body := drawSpelling(t, r)
		decoded, err := charges.DecodeRequest([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got, want := string(decoded.Canonical()), string(r.Canonical()); got != want {
			t.Fatalf("%s\ngot  %s\nwant %s", body, got, want)
		}
	})
}

// I4: every real difference matters, and is named.
func TestCanonicalShowsEveryDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		field := rapid.IntRange(0, reflect.TypeOf(r).NumField()-1).Draw(t, "field")
		other := r
		name, _, _ := strings.Cut(reflect.TypeOf(r).Field(field).Tag.Get("json"), ",")
		switch v := reflect.ValueOf(&other).Elem().Field(field).Addr().Interface().(type) {
		case *int64:
			*v++
		case *bool:
			*v = !*v
		case *string:
			*v = map[bool]string{true: "eur", false: "manual"}[name == "currency"] + *v
		case *map[string]string:
			*v = maps.Clone(r.Metadata)
			if *v == nil {
				*v = map[string]string{}
			}
			(*v)["new"] += "x"
			name = "metadata.new"
		case *[]charges.Item:
			*v = append(slices.Clone(r.Items), charges.Item{SKU: "one-more", Quantity: 1})
			if len(r.Items) > 0 {
				*v = slices.Clone(r.Items)
				(*v)[0].Quantity++
			}
		case **time.Time:
			later := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
			if *v != nil {
				later = (*v).Add(time.Microsecond)
			}
			*v = &later
		default:
			t.Fatalf("%s has a type that this test does not change", name)
		}
		a, b := r.Canonical(), other.Canonical()
		if charges.Fingerprint("POST", "/charge", a) == charges.Fingerprint("POST", "/charge", b) {
			t.Fatalf("%s makes no difference: %s", name, a)
		}
		if got := charges.DifferingFields(a, b); !slices.Equal(got, []string{name}) {
			t.Fatalf("%s\n%s\ngot %v, want %s", a, b, got, name)
		}
	})
}

func drawRequest(t *rapid.T) charges.Request {
	text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 1, 8, -1)
	optional := func(label string) string {
		if rapid.Bool().Draw(t, label+" given") {
			return text.Draw(t, label)
		}
		return ""
	}
	r := charges.Request{
		Amount:                    rapid.Int64Range(1, 999_999_999_999).Draw(t, "amount"),
		Currency:                  rapid.SampledFrom([]string{"usd", "jpy", "kwd"}).Draw(t, "currency"),
		PaymentMethod:             text.Draw(t, "payment_method"),
		Customer:                  optional("customer"),
		OffSession:                rapid.Bool().Draw(t, "off_session"),
		SetupFutureUsage:          optional("setup_future_usage"),
		ReturnURL:                 optional("return_url"),
		ReceiptEmail:              optional("receipt_email"),
		Description:               optional("description"),
		StatementDescriptorSuffix: optional("statement_descriptor_suffix"),
		Metadata:                  rapid.MapOfN(text, text, 0, 4).Draw(t, "metadata"),
		CaptureMethod:             rapid.SampledFrom([]string{"", charges.CaptureAutomatic, charges.CaptureManual}).Draw(t, "capture_method"),
		Reference:                 optional("reference"),
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "items") {
		r.Items = append(r.Items, charges.Item{SKU: fmt.Sprintf("sku-%d", 9-i), Quantity: rapid.Int64Range(1, 1_000_000).Draw(t, "quantity")})
	}
	if rapid.Bool().Draw(t, "send_before given") {
		at := time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "send_before")).UTC()
		r.SendBefore = &at
	}
	return r
}

// drawSpelling writes r as JSON in one of the many ways that mean the same.
func drawSpelling(t *rapid.T, r charges.Request) string {
	space := func() string { return rapid.SampledFrom([]string{"", " ", "\n", "\r\n\t"}).Draw(t, "space") }
	quote := func(s string) string {
		var b strings.Builder
		for _, c := range s {
			if plain, err := json.Marshal(string(c)); err == nil && rapid.Bool().Draw(t, "plain") {
				b.Write(plain[1 : len(plain)-1])
				continue
			}
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), unit)
			}
		}
		return `"` + b.String() + `"`
	}
	object := func(members map[string]string) string {
		var parts []string
		for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(members))).Draw(t, "order") {
			parts = append(parts, space()+quote(name)+space()+":"+space()+members[name]+space())
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	absent := func(members map[string]string, name string) {
		if rapid.Bool().Draw(t, name+" null") {
			members[name] = "null"
		}
	}

	members := map[string]string{
		"amount":         fmt.Sprint(r.Amount),
		"currency":       quote(rapid.SampledFrom([]string{r.Currency, strings.ToUpper(r.Currency), strings.ToUpper(r.Currency[:1]) + r.Currency[1:]}).Draw(t, "letter case")),
		"payment_method": quote(r.PaymentMethod),
	}
	for name, text := range map[string]string{
		"customer": r.Customer, "setup_future_usage": r.SetupFutureUsage, "return_url": r.ReturnURL, "receipt_email": r.ReceiptEmail,
		"description": r.Description, "statement_descriptor_suffix": r.StatementDescriptorSuffix, "reference": r.Reference,
	} {
		if text != "" {
			members[name] = quote(text)
		}
	}
	for _, name := range []string{"customer", "description", "reference"} {
		if members[name] == "" {
			absent(members, name)
		}
	}
	if r.OffSession || rapid.Bool().Draw(t, "off_session spelled") {
		members["off_session"] = fmt.Sprint(r.OffSession)
	}
	if r.CaptureMethod == charges.CaptureManual || rapid.Bool().Draw(t, "capture_method spelled") {
		members["capture_method"] = quote(map[bool]string{true: "manual", false: "automatic"}[r.CaptureMethod == charges.CaptureManual])
	}
	if len(r.Metadata) > 0 || rapid.Bool().Draw(t, "metadata spelled") {
		pairs := map[string]string{}
		for key, value := range r.Metadata {
			pairs[key] = quote(value)
		}
		members["metadata"] = object(pairs)
	}
	if len(r.Items) > 0 {
		var parts []string
		for _, i := range rapid.Permutation(r.Items).Draw(t, "order of items") {
			parts = append(parts, space()+object(map[string]string{"sku": quote(i.SKU), "quantity": fmt.Sprint(i.Quantity)})+space())
		}
		members["items"] = "[" + strings.Join(parts, ",") + "]"
	} else {
		absent(members, "items")
	}
	if r.SendBefore != nil {
		zone := time.FixedZone("", 900*rapid.IntRange(-48, 48).Draw(t, "zone"))
		members["send_before"] = quote(r.SendBefore.In(zone).Format(rapid.SampledFrom([]string{time.RFC3339Nano, "2006-01-02T15:04:05.000000000Z07:00"}).Draw(t, "layout")))
	} else {
		absent(members, "send_before")
	}
	return space() + object(members) + space()
}
