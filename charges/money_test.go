package charges_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges"
	"pgregory.net/rapid"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		amount                 int64
		currency, locale, want string
	}{
		{1099, "usd", "en", "$10.99"},
		{1000, "usd", "en", "$10.00"},
		{5, "usd", "en", "$0.05"},
		{0, "usd", "en", "$0.00"},
		{-1099, "usd", "en", "-$10.99"},
		{123456789, "usd", "en", "$1,234,567.89"},
		{123456789, "eur", "de", "1.234.567,89\u00a0€"},
		{1099, "USD", "en", "$10.99"},
		{1099, "usd", "", "$10.99"},
		{1099, "usd", "tlh", "$10.99"},
		{500, "jpy", "en", "¥500"},
		{500, "JPY", "en", "¥500"},
		{12340, "kwd", "en", "KWD\u00a012.340"},
		{12345, "kwd", "en", "KWD\u00a012.345"},
		{10000, "isk", "en", "ISK\u00a0100"},
		{10050, "isk", "en", "ISK\u00a0100.50"},
		{50000, "ugx", "en", "UGX\u00a0500"},
		{1045, "huf", "en", "HUF\u00a010.45"},
		{80045, "twd", "en", "NT$800.45"},
		{700, "mga", "en", "MGA\u00a0700"},
		{1099, "bgn", "en", "BGN\u00a010.99"},
		{1099, "std", "de", "10,99\u00a0STD"},
		{math.MaxInt64, "usd", "en", "$92,233,720,368,547,758.07"},
		{math.MinInt64, "usd", "en", "-$92,233,720,368,547,758.08"},
		{math.MinInt64, "jpy", "en", "-¥9,223,372,036,854,775,808"},
		{1099, "zzz", "en", "1099 minor units of ZZZ"},
	}
	for _, tt := range tests {
		if got := charges.Format(tt.amount, tt.currency, tt.locale); got != tt.want {
			t.Errorf("%d %s in %q: got %q, want %q", tt.amount, tt.currency, tt.locale, got, tt.want)
		}
	}
}

// Whatever the amount, its digits are those on the receipt, with as many decimals as Stripe counts.
func TestFormatIsExact(t *testing.T) {
	t.Parallel()
	decimals := map[string]int{"usd": 2, "idr": 2, "std": 2, "jpy": 0, "mga": 0, "kwd": 3, "tnd": 3}
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64().Draw(t, "amount")
		code := rapid.SampledFrom([]string{"usd", "idr", "std", "jpy", "mga", "kwd", "tnd"}).Draw(t, "currency")
		text := charges.Format(amount, code, "en")
		whole, fraction, _ := strings.Cut(text, ".")
		if len(fraction) != decimals[code] {
			t.Fatalf("%d %s: %q has %d decimals", amount, code, text, len(fraction))
		}
		digits := strings.Map(func(r rune) rune {
			if r == '-' || '0' <= r && r <= '9' {
				return r
			}
			return -1
		}, whole+fraction)
		if got, err := strconv.ParseInt(digits, 10, 64); err != nil || got != amount {
			t.Fatalf("%d %s reads as %q: %d, %v", amount, code, text, got, err)
		}
	})
}

func TestAmountFault(t *testing.T) {
	t.Parallel()
	if reason := charges.AmountFault(12345, "kwd"); !strings.Contains(reason, "end in 0") {
		t.Errorf("kwd 12345: got %q", reason)
	}
	if reason := charges.AmountFault(150, "isk"); !strings.Contains(reason, "multiple of 100") {
		t.Errorf("isk 150: got %q", reason)
	}
	if reason := charges.AmountFault(100_000_000, "usd"); !strings.Contains(reason, "99999999") {
		t.Errorf("usd 100000000: got %q", reason)
	}
	if reason := charges.AmountFault(12340, "kwd"); reason != "" {
		t.Errorf("kwd 12340: got %q", reason)
	}
}
