package charges_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncepay/oncepay/charges"
)

// goodRequest is the smallest valid request.
func goodRequest() charges.Request {
	return charges.Request{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa"}
}

// ruleTest changes a good request and names the members that must be refused then; none means that it must pass.
type ruleTest struct {
	name   string
	change func(*charges.Request)
	fields []string
}

func runRuleTests(t *testing.T, tests []ruleTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := goodRequest()
			tt.change(&r)
			err := r.Validate()
			if len(tt.fields) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if got := refusedFields(t, err); !slices.Equal(got, tt.fields) {
				t.Errorf("got %v (%v), want %v", got, err, tt.fields)
			}
		})
	}
}

func TestValidateMoney(t *testing.T) {
	t.Parallel()
	money := func(amount int64, currency string, fields ...string) ruleTest {
		return ruleTest{fmt.Sprint(amount, currency), func(r *charges.Request) { r.Amount, r.Currency = amount, currency }, fields}
	}
	runRuleTests(t, []ruleTest{
		money(1, "usd"),
		money(99_999_999, "usd"),
		money(100_000_000, "usd", "amount"),
		money(0, "usd", "amount"),
		money(-1, "usd", "amount"),
		money(500, "jpy"),
		money(500, "JPY"),
		money(99_999_999, "jpy"),
		money(100_000_000, "jpy", "amount"),
		money(12340, "kwd"),
		money(12345, "kwd", "amount"),
		money(12341, "bhd", "amount"),
		money(12342, "jod", "amount"),
		money(12343, "omr", "amount"),
		money(12344, "tnd", "amount"),
		money(500, "isk"),
		money(550, "isk", "amount"),
		money(500, "ugx"),
		money(501, "ugx", "amount"),
		money(1045, "huf"),
		money(80045, "twd"),
		money(7, "mga"),
		money(999_999_999_999, "idr"),
		money(1_000_000_000_000, "idr", "amount"),
		money(1099, "", "currency"),
		money(1099, "us", "currency"),
		money(1099, "usdd", "currency"),
		money(1099, " usd", "currency"),
		money(1099, "xxx", "currency"),
		money(1099, "btc", "currency"),
		money(12340, "\u212awd", "currency"), // the Kelvin sign lowers to k
		money(0, "xxx", "amount", "currency"),
	})
}

func TestValidateStripeIDs(t *testing.T) {
	t.Parallel()
	method := func(id string, fields ...string) ruleTest {
		return ruleTest{"payment method " + id, func(r *charges.Request) { r.PaymentMethod = id }, fields}
	}
	customer := func(id string, fields ...string) ruleTest {
		return ruleTest{"customer " + id, func(r *charges.Request) { r.Customer = id }, fields}
	}
	runRuleTests(t, []ruleTest{
		method("pm_1NffrFeUfNV2Hib"),
		method("card_1NffrF"),
		method("src_1NffrF"),
		method("ba_1NffrF"),
		method("", "payment_method"),
		method("pm_", "payment_method"),
		method("tok_visa", "payment_method"),
		method("4242424242424242", "payment_method"),
		method("pm_card_visa ", "payment_method"),
		method("pm_card_visa\n", "payment_method"),
		method("PM_card_visa", "payment_method"),
		method("pm_card/../refunds", "payment_method"),
		method("pm_" + strings.Repeat("a", 250)),
		method("pm_"+strings.Repeat("a", 251), "payment_method"),
		customer("cus_NffrFeUfNV2Hib"),
		customer("cus_", "customer"),
		customer("customer-1", "customer"),
		customer("cus_a?expand[]=x", "customer"),
	})
}

func TestValidateModes(t *testing.T) {
	t.Parallel()
	modes := func(offSession bool, usage, capture string, fields ...string) ruleTest {
		return ruleTest{fmt.Sprint(offSession, usage, capture), func(r *charges.Request) {
			r.OffSession, r.SetupFutureUsage, r.CaptureMethod = offSession, usage, capture
		}, fields}
	}
	runRuleTests(t, []ruleTest{
		modes(false, "", ""),
		modes(true, "", "automatic"),
		modes(false, "on_session", "manual"),
		modes(false, "off_session", "manual"),
		modes(true, "off_session", "", "setup_future_usage"),
		modes(true, "on_session", "", "setup_future_usage"),
		modes(false, "always", "", "setup_future_usage"),
		modes(false, "", "automatic_async", "capture_method"),
		modes(false, "", "Manual", "capture_method"),
		{"off session with return_url", func(r *charges.Request) { r.OffSession, r.ReturnURL = true, "https://shop.example" }, nil},
	})
}

func TestValidateReceiptEmail(t *testing.T) {
	t.Parallel()
	email := func(address string, good bool) ruleTest {
		fields := []string{"receipt_email"}
		if good {
			fields = nil
		}
		return ruleTest{fmt.Sprintf("%.40q", address), func(r *charges.Request) { r.ReceiptEmail = address }, fields}
	}
	label := strings.Repeat("d", 63)
	runRuleTests(t, []ruleTest{
		email("buyer@example.com", true),
		email("buyer+tag@example.com", true),
		email("o'brien.x@mail.example.co.uk", true),
		email("buyer@xn--bcher-kva.example", true),
		email("buyer@example.xn--p1ai", true),
		email(strings.Repeat("l", 64)+"@example.com", true),
		email("a@"+label+"."+label+"."+label+"."+strings.Repeat("d", 60), true),
		email(strings.Repeat("l", 65)+"@example.com", false),
		email("a@"+label+"."+label+"."+label+"."+strings.Repeat("d", 61), false),
		email("a@"+label+"d.example.com", false),
		email("a@b.com,c@d.com", false),
		email("a@b.com c@d.com", false),
		email("Bob <a@b.com>", false),
		email("<a@b.com>", false),
		email("a@b.com\r\nBcc: x@y.z", false),
		email("a@b.com\n", false),
		email(" a@b.com", false),
		email("a@b.com (comment)", false),
		email(`"a b"@b.com`, false),
		email("a@@b.com", false),
		email("a..b@b.com", false),
		email("@b.com", false),
		email("a@", false),
		email("a", false),
		email("a@localhost", false),
		email("a@b.com.", false),
		email("a@b..com", false),
		email("a@-b.com", false),
		email("a@b-.com", false),
		email("a@b_c.com", false),
		email("a@[127.0.0.1]", false),
		email("a@127.0.0.1", false),
		email("käufer@example.com", false),
		email("buyer@bücher.example", false),
	})
}

func TestValidateReturnURL(t *testing.T) {
	t.Parallel()
	address := func(address string, good bool) ruleTest {
		fields := []string{"return_url"}
		if good {
			fields = nil
		}
		return ruleTest{fmt.Sprintf("%.40q", address), func(r *charges.Request) { r.ReturnURL = address }, fields}
	}
	const site = "https://shop.example/"
	runRuleTests(t, []ruleTest{
		address("https://shop.example/paid?order=1#top", true),
		address("http://localhost:3000/paid", true),
		address("myapp://paid", true),
		address("com.shop.app:/paid", true),
		address(site+strings.Repeat("a", 2048-len(site)), true),
		address(site+strings.Repeat("a", 2049-len(site)), false),
		address("/paid", false),
		address("shop.example/paid", false),
		address("//shop.example/paid", false),
		address("https://", false),
		address("https:///paid", false),
		address("https://:443/paid", false),
		address("https:paid", false),
		address("myapp:", false),
		address("https://user:secret@shop.example/", false),
		address("https://user@shop.example/", false),
		address("javascript:alert(1)", false),
		address("JavaScript:alert(1)", false),
		address("data:text/html,x", false),
		address("https://shop.example/a b", false),
		address("https://shop.example/\r\nx", false),
		address(`https://shop.example/"><script>`, false),
		address("https://shop.example/é", false),
		address("https://shop.example/%zz", false),
	})
}

func TestValidateText(t *testing.T) {
	t.Parallel()
	suffix := func(s string, fields ...string) ruleTest {
		return ruleTest{"suffix " + s, func(r *charges.Request) { r.StatementDescriptorSuffix = s }, fields}
	}
	reference := func(s string, fields ...string) ruleTest {
		return ruleTest{fmt.Sprintf("reference %.30q", s), func(r *charges.Request) { r.Reference = s }, fields}
	}
	description := func(s string, fields ...string) ruleTest {
		return ruleTest{fmt.Sprintf("description %.30q", s), func(r *charges.Request) { r.Description = s }, fields}
	}
	const suffixField = "statement_descriptor_suffix"
	runRuleTests(t, []ruleTest{
		suffix("ORDER #12-34 A.B/C&D"),
		suffix("a"),
		suffix("A123456789012345678901"),
		suffix("A1234567890123456789012", suffixField),
		suffix("12345", suffixField),
		suffix("Café™", suffixField),
		suffix("a<b", suffixField),
		suffix("a>b", suffixField),
		suffix(`a\b`, suffixField),
		suffix("a'b", suffixField),
		suffix(`a"b`, suffixField),
		suffix("a*b", suffixField),
		suffix("a\tb", suffixField),
		reference("order-1234 / Zürich"),
		reference(strings.Repeat("é", 200)),
		reference(strings.Repeat("é", 201), "reference"),
		reference("a\nb", "reference"),
		reference("a\u202eb", "reference"), // turns the text around
		reference(" a", "reference"),
		reference("a ", "reference"),
		reference(" ", "reference"),
		description("Line 1\nline 2 <script>"),
		description(strings.Repeat("é", 1000)),
		description(strings.Repeat("é", 1001), "description"),
	})
}

func TestValidateMetadata(t *testing.T) {
	t.Parallel()
	pair := func(key, value string, fields ...string) ruleTest {
		return ruleTest{fmt.Sprintf("%.30q=%.30q", key, value), func(r *charges.Request) { r.Metadata = map[string]string{key: value} }, fields}
	}
	keys := func(n int, fields ...string) ruleTest {
		return ruleTest{fmt.Sprint(n, " keys"), func(r *charges.Request) {
			r.Metadata = make(map[string]string, n)
			for i := range n {
				r.Metadata[fmt.Sprint(i)] = "v"
			}
		}, fields}
	}
	longKey := strings.Repeat("é", 40)
	runRuleTests(t, []ruleTest{
		keys(48),
		keys(49, "metadata"),
		pair("order", "1"),
		pair(longKey, strings.Repeat("é", 500)),
		pair(longKey+"é", "v", "metadata."+longKey+"é"),
		pair("k", strings.Repeat("é", 501), "metadata.k"),
		pair("", "v", `metadata.""`),
		pair("a[b]", "v", "metadata.a[b]"),
		pair("a]", "v", "metadata.a]"),
		pair("k", "", "metadata.k"),
		pair("oncepay_key", "v", "metadata.oncepay_key"),
		pair("oncepay_charge", "v", "metadata.oncepay_charge"),
		pair("oncepay_", "v", "metadata.oncepay_"),
		pair("Oncepay_Key", "v", "metadata.Oncepay_Key"),
		pair("my_oncepay_key", "v"),
		pair("oncepay", "v"),
	})
}

func TestValidateTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		ahead time.Duration
		good  bool
	}{
		{"past", -time.Second, false},
		{"now", 0, false},
		{"soon", time.Microsecond, true},
		{"30 days", 30 * 24 * time.Hour, true},
		{"longer", 30*24*time.Hour + time.Microsecond, false},
	} {
		r := goodRequest()
		sendBefore := now.Add(tt.ahead)
		r.SendBefore = &sendBefore
		if err := r.ValidateTime(now); (err == nil) != tt.good {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if err := r.Validate(); err != nil { // I4: a retry after the time has passed is not refused for it
			t.Errorf("%s: Validate depends on the time: %v", tt.name, err)
		}
	}
	if err := goodRequest().ValidateTime(now); err != nil {
		t.Errorf("without send_before: %v", err)
	}
}
