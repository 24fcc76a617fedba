package charges_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
)

// goodMembers make the smallest valid create request.
var goodMembers = map[string]string{
	"amount":         `1099`,
	"currency":       `"usd"`,
	"payment_method": `"pm_card_visa"`,
}

// bodyWith is the smallest valid body with one member more or another.
func bodyWith(name, value string) string {
	members := maps.Clone(goodMembers)
	members[name] = value
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(&b, ",%q:%s", n, members[n])
	}
	return "{" + b.String()[1:] + "}"
}

func bodyWithout(name string) string {
	return strings.Replace(bodyWith(name, `"@"`), fmt.Sprintf("%q:\"@\"", name), `"off_session":false`, 1)
}

// refusedFields are the members that err names, in its order.
func refusedFields(t *testing.T, err error) []string {
	t.Helper()
	var invalid *charges.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got error %v, want an *InvalidError", err)
	}
	var fields []string
	for _, f := range invalid.Fields {
		if f.Reason == "" {
			t.Errorf("field %q is refused without a reason", f.Field)
		}
		fields = append(fields, f.Field)
	}
	return fields
}

func mustDecode(t *testing.T, body string) charges.Request {
	t.Helper()
	r, err := charges.DecodeRequest([]byte(body))
	if err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return r
}

func TestDecodeRequestReadsEveryMember(t *testing.T) {
	t.Parallel()
	r := mustDecode(t, `{
		"amount": 1099, "currency": "USD", "payment_method": "pm_card_visa", "customer": "cus_1", "off_session": true,
		"setup_future_usage": "on_session", "return_url": "https://shop.example/paid", "receipt_email": "buyer@example.com",
		"description": "Line 1\nline 2 \\u0000 <b>", "statement_descriptor_suffix": "ORDER 1", "metadata": {"a": "1", "b": "é"},
		"capture_method": "manual", "reference": "order-1", "send_before": "2030-01-31T13:00:00.1234567+01:00"}`)
	sendBefore := time.Date(2030, 1, 31, 12, 0, 0, 123456000, time.UTC)
	want := charges.Request{
		Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", Customer: "cus_1", OffSession: true,
		SetupFutureUsage: charges.FutureUsageOnSession, ReturnURL: "https://shop.example/paid", ReceiptEmail: "buyer@example.com",
		Description: "Line 1\nline 2 \\u0000 <b>", StatementDescriptorSuffix: "ORDER 1", Metadata: map[string]string{"a": "1", "b": "é"},
		CaptureMethod: charges.CaptureManual, Reference: "order-1", SendBefore: &sendBefore,
	}
	if got, want := string(r.Canonical()), string(want.Canonical()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r.Currency != "usd" || r.CaptureMethod != charges.CaptureManual || !r.SendBefore.Equal(sendBefore) {
		t.Errorf("not normalised: %+v", r)
	}
}

func TestDecodeRequestFillsDefaults(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		bodyWith("amount", "1099"),
		bodyWith("capture_method", "null"),
		bodyWith("metadata", "{}"),
		bodyWith("metadata", "null"),
		bodyWith("send_before", "null"),
		bodyWith("off_session", "null"),
		bodyWith("off_session", "false"),
	} {
		r := mustDecode(t, body)
		if r.CaptureMethod != charges.CaptureAutomatic || r.Metadata != nil || r.SendBefore != nil || r.OffSession {
			t.Errorf("%s: got %+v", body, r)
		}
	}
}

func TestDecodeRequestRefusesMembers(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, field string }{
		{"amount with fraction", bodyWith("amount", `10.0`), "amount"},
		{"amount with real fraction", bodyWith("amount", `1000.4`), "amount"},
		{"amount with exponent", bodyWith("amount", `1e3`), "amount"},
		{"amount negative zero", bodyWith("amount", `-0`), "amount"},
		{"amount with leading zero", bodyWith("amount", `01099`), "amount"},
		{"amount with plus", bodyWith("amount", `+1099`), "amount"},
		{"amount without digits", bodyWith("amount", `-`), "amount"},
		{"amount without leading digit", bodyWith("amount", `.5`), "amount"},
		{"amount NaN", bodyWith("amount", `NaN`), "amount"},
		{"amount beyond 64 bits", bodyWith("amount", `9223372036854775808`), "amount"},
		{"amount as string", bodyWith("amount", `"1099"`), "amount"},
		{"amount true", bodyWith("amount", `true`), "amount"},
		{"amount null", bodyWith("amount", `null`), "amount"},
		{"amount array", bodyWith("amount", `[1099]`), "amount"},
		{"amount object", bodyWith("amount", `{"value":1099}`), "amount"},
		{"amount in 10001 arrays", bodyWith("amount", strings.Repeat("[", 10001)+strings.Repeat("]", 10001)), "amount"},
		{"amount missing", bodyWithout("amount"), "amount"},
		{"amount twice", `{"amount":100,"amount":999,"currency":"usd","payment_method":"pm_card_visa"}`, "amount"},
		{"amount twice, escaped", `{"amount":100,"\u0061mount":999,"currency":"usd","payment_method":"pm_card_visa"}`, "amount"},
		{"amount twice, another letter case", bodyWith("Amount", `999`), "Amount"},
		{"currency null", bodyWith("currency", `null`), "currency"},
		{"currency number", bodyWith("currency", `840`), "currency"},
		{"currency empty", bodyWith("currency", `""`), "currency"},
		{"currency missing", bodyWithout("currency"), "currency"},
		{"payment method missing", bodyWithout("payment_method"), "payment_method"},
		{"off_session as string", bodyWith("off_session", `"true"`), "off_session"},
		{"off_session as number", bodyWith("off_session", `1`), "off_session"},
		{"customer empty", bodyWith("customer", `""`), "customer"},
		{"capture method empty", bodyWith("capture_method", `""`), "capture_method"},
		{"description with U+0000", bodyWith("description", `"a\u0000b"`), "description"},
		{"description with lone high surrogate", bodyWith("description", `"\ud800"`), "description"},
		{"description with lone low surrogate", bodyWith("description", `"a\udc00"`), "description"},
		{"description with swapped surrogates", bodyWith("description", `"\udc00\ud800"`), "description"},
		{"description with unknown escape", bodyWith("description", `"\x41"`), "description"},
		{"description with raw line break", bodyWith("description", "\"a\nb\""), "description"},
		{"description with bad UTF-8", bodyWith("description", "\"a\xffb\""), "description"},
		{"description with overlong UTF-8", bodyWith("description", "\"\xc0\x80\""), "description"},
		{"description with UTF-8 surrogate", bodyWith("description", "\"\xed\xa0\x80\""), "description"},
		{"metadata array", bodyWith("metadata", `[]`), "metadata"},
		{"metadata string", bodyWith("metadata", `"a"`), "metadata"},
		{"metadata value number", bodyWith("metadata", `{"k":1}`), "metadata.k"},
		{"metadata value null", bodyWith("metadata", `{"k":null}`), "metadata.k"},
		{"metadata value nested", bodyWith("metadata", `{"k":{"l":"m"}}`), "metadata.k"},
		{"metadata value empty", bodyWith("metadata", `{"k":""}`), "metadata.k"},
		{"metadata value with U+0000", bodyWith("metadata", `{"k":"\u0000"}`), "metadata.k"},
		{"metadata value with lone surrogate", bodyWith("metadata", `{"k":"\udfff"}`), "metadata.k"},
		{"metadata value with bad UTF-8", bodyWith("metadata", "{\"k\":\"\xfe\"}"), "metadata.k"},
		{"metadata key with U+0000", bodyWith("metadata", `{"k\u0000":"v"}`), "metadata.k\ufffd"},
		{"metadata key with lone surrogate", bodyWith("metadata", `{"k\ud800":"v"}`), "metadata"},
		{"metadata key with bad UTF-8", bodyWith("metadata", "{\"k\xff\":\"v\"}"), "metadata"},
		{"metadata key twice", bodyWith("metadata", `{"k":"1","k":"2"}`), "metadata.k"},
		{"metadata broken inside", bodyWith("metadata", `{"k":{"l":}}`), "metadata.k"},
		{"send_before number", bodyWith("send_before", `1900000000`), "send_before"},
		{"send_before without zone", bodyWith("send_before", `"2030-01-31T12:00:00"`), "send_before"},
		{"send_before date", bodyWith("send_before", `"2030-01-31"`), "send_before"},
		{"send_before with comma", bodyWith("send_before", `"2030-01-31T12:00:00,5Z"`), "send_before"},
		{"send_before one-digit hour", bodyWith("send_before", `"2030-01-31T2:00:00Z"`), "send_before"},
		{"send_before 30 February", bodyWith("send_before", `"2030-02-30T12:00:00Z"`), "send_before"},
		{"send_before after year 9999", bodyWith("send_before", `"9999-12-31T23:59:59-01:00"`), "send_before"},
		{"send_before before year 1", bodyWith("send_before", `"0000-01-01T00:00:00Z"`), "send_before"},
		{"items", bodyWith("items", `[]`), "items"},
		{"unknown null", bodyWith("tip", `null`), "tip"},
		{"unknown empty name", bodyWith("", `1`), `""`},
		{"unknown deeply nested", bodyWith("x", strings.Repeat("[", 10001)+strings.Repeat("]", 10001)), "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := charges.DecodeRequest([]byte(tt.body))
			if got := refusedFields(t, err); !slices.Equal(got, []string{tt.field}) {
				t.Errorf("got %v (%v), want %s alone", got, err, tt.field)
			}
		})
	}
}

func TestDecodeRequestRefusesBodies(t *testing.T) {
	t.Parallel()
	good := bodyWith("amount", "1099")
	manyKeys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":"v"`, i)
		}
		return bodyWith("metadata", "{"+b.String()[1:]+"}")
	}
	tests := []struct{ name, body, field string }{
		{"empty", "", "body"},
		{"blank", " \r\n\t", "body"},
		{"null", "null", "body"},
		{"array", "[]", "body"},
		{"array of a good object", "[" + good + "]", "body"},
		{"string", `"amount"`, "body"},
		{"byte order mark", "\ufeff" + good, "body"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "body"},
		{"two objects", good + good, "body"},
		{"trailing text", good + " x", "body"},
		{"trailing comma", good + ",", "body"},
		{"comment", "/* */" + good, "body"},
		{"form-encoded", "amount=1099&currency=usd", "body"},
		{"gzip", "\x1f\x8b\x08\x00", "body"},
		{"cut short", good[:len(good)-1], "body"},
		{"cut short in a value", good[:len(good)-5], "body"},
		{"only an opening", "{", "body"},
		{"missing comma", `{"amount":1 "currency":"usd"}`, "body"},
		{"10001 arrays", strings.Repeat("[", 10001), "body"},
		{"too large", strings.Repeat(" ", charges.MaxRequestBytes) + good, "body"},
		{"49 metadata keys", manyKeys(49), "metadata"},
		{"20,000 metadata keys", manyKeys(20_000), "metadata"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := charges.DecodeRequest([]byte(tt.body))
			if got := refusedFields(t, err); !slices.Equal(got, []string{tt.field}) {
				t.Errorf("got %v (%v), want %s alone", got, err, tt.field)
			}
		})
	}
	if r := mustDecode(t, manyKeys(48)); len(r.Metadata) != 48 {
		t.Errorf("got %d metadata keys, want 48", len(r.Metadata))
	}
}

// The largest valid request must pass, however wastefully it is spelled.
func TestDecodeRequestTakesTheLargestRequest(t *testing.T) {
	t.Parallel()
	const clef = `\ud834\udd1e` // one character in twelve bytes
	var metadata strings.Builder
	for i := range 48 {
		fmt.Fprintf(&metadata, `,"%02d%s":"%s"`, i, strings.Repeat(clef, 38), strings.Repeat(clef, 500))
	}
	body := strings.TrimSuffix(bodyWith("metadata", "{"+metadata.String()[1:]+"}"), "}") +
		`,"description":"` + strings.Repeat(clef, 1000) + `","reference":"` + strings.Repeat(clef, 200) + `"}`
	if err := mustDecode(t, body).Validate(); err != nil {
		t.Error(err)
	}
}

func TestDecodeRequestCollectsFaults(t *testing.T) {
	t.Parallel()
	_, err := charges.DecodeRequest([]byte(`{"amount":"1","zz":[{}],"currency":"k","off_session":"true","receipt_email":"nobody",
		"metadata":{"a":1,"b":null,"oncepay_key":"x"},"send_before":"x","customer":""}`))
	want := []string{"amount", "zz", "off_session", "metadata.a", "metadata.b", "send_before", "customer", "payment_method",
		"currency", "receipt_email", "metadata.oncepay_key"}
	if got := refusedFields(t, err); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}

	var unknown strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&unknown, `"u%d":1,`, i)
	}
	_, err = charges.DecodeRequest([]byte("{" + unknown.String() + bodyWith("amount", "1")[1:]))
	if got := refusedFields(t, err); len(got) != 20 {
		t.Errorf("got %d faults, want the first 20", len(got))
	}
}

// A refusal travels into logs and answers, so that it must not carry what the caller sent.
func TestRefusalsDoNotEchoValues(t *testing.T) {
	t.Parallel()
	const secret = "4242424242424242"
	for _, name := range []string{"amount", "currency", "payment_method", "customer", "off_session", "setup_future_usage", "return_url",
		"receipt_email", "statement_descriptor_suffix", "metadata", "capture_method", "send_before", "unknown"} {
		for _, value := range []string{`"` + secret + `"`, secret + "0000000000", secret + ".5", `["` + secret + `"]`, `"` + secret + `\x"`, "0" + secret, `{"a":` + secret + `}`} {
			r, err := charges.DecodeRequest([]byte(bodyWith(name, value)))
			if err == nil {
				err = r.Validate()
			}
			if fields := refusedFields(t, err); strings.Contains(err.Error(), secret) || len(fields) == 0 {
				t.Errorf("%s: %s: %v", name, value, err)
			}
		}
	}
	_, err := charges.DecodeRequest([]byte(bodyWith(strings.Repeat("x", 5000)+`\n\u001b`, "1")))
	if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("the name came back at length or raw: %q", err)
	}
}

// The names that a caller gives to the members of items are cut like any other, however deep they are and whatever items is.
func TestFaultsOfItemsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("made up ", 500)
	twice := fmt.Sprintf(`{%q:1,%q:2}`, long, long)
	for items, want := range map[string]string{
		`[{"sku":"a","quantity":1,"sku":"b"}]`:             "items[0].sku",
		`[{"sku":"a","quantity":1,` + twice[1:] + `]`:      "items[0].made up",
		`[{"sku":"a","quantity":1},{"sku":` + twice + `}]`: "items[1].sku",
		twice:                 "items",
		`{"n":` + twice + `}`: "items",
		`[{` + strings.Repeat(fmt.Sprintf(`%q:{`, long), 5) + `"a":1,"a":2}}}}}}]`: "items[0].made up",
	} {
		_, err := charges.DecodeRequest([]byte(bodyWith("items", items)))
		for _, got := range refusedFields(t, err) {
			if !strings.HasPrefix(got, want) || len(got) > 100 {
				t.Errorf("%.60s: %d bytes %.120q, want %s", items, len(got), got, want)
			}
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "\ufeff{}", bodyWith("amount", "1e3"), bodyWith("amount", "01099"), bodyWith("description", `"\ud834\udd1e \\u0000"`),
		bodyWith("metadata", `{"a":"1","\u0000":"2"}`), bodyWith("send_before", `"9999-12-31T23:59:59.999999999-01:00"`),
		bodyWith("currency", `"JPY"`), bodyWith("capture_method", `"manual"`), bodyWith("off_session", "true"), bodyWith("x", "[[[{}]]]"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := charges.DecodeRequest(body)
		if err != nil {
			if refused := refusedFields(t, err); len(refused) == 0 {
				t.Fatal("refused without a field")
			}
			return
		}
		canonical := r.Canonical()
		stored, err := charges.ParseCanonical(canonical)
		if err != nil {
			t.Fatalf("%s: %v", canonical, err)
		}
		if again := stored.Canonical(); string(again) != string(canonical) {
			t.Fatalf("not stable:\n%s\n%s", canonical, again)
		}
		if decoded, err := charges.DecodeRequest(canonical); err != nil || string(decoded.Canonical()) != string(canonical) {
			t.Fatalf("the canonical form is another request: %s: %v", canonical, err)
		}
	})
}
