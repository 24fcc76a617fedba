package charges

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bojanz/currency"
)

// AmountFault says why Stripe would refuse to charge, capture or refund amount in currency (lower case), and is empty when it
// would not. It knows scale and size. Stripe's minimum is not among them: it depends on the account's settlement currency.
func AmountFault(amount int64, currency string) string {
	if amount < 1 {
		return "must be at least 1"
	}
	unit, ok := minorUnits[currency]
	switch {
	case !ok: // the currency is at fault, not the amount
		return ""
	case amount > unit.max:
		return fmt.Sprintf("must be at most %d in this currency", unit.max)
	case amount%unit.multiple == 0:
		return ""
	case unit.digits == 3:
		return "must end in 0: Stripe takes three-decimal currencies in steps of ten"
	default:
		return fmt.Sprintf("must be a multiple of %d in this currency", unit.multiple)
	}
}

// Format writes an amount in minor units at Stripe's scale for people: 1099 usd is $10.99, 500 jpy is ¥500, 12340 kwd has three
// decimals. currency may have any letter case; locale is a language tag such as "en" or "de-CH", and an unknown one reads as English.
// The result is exact for every int64. It may hold non-breaking spaces, and the digits of the locale's own script.
//
// ISK and UGX have hundredths at Stripe but not in life, and show them only where there are any. An amount in a currency that Stripe
// cannot charge has no known scale: it is written as a bare number of minor units.
func Format(amount int64, code, locale string) string {
	upper := strings.ToUpper(code)
	unit, ok := minorUnits[lowerASCII(code)]
	if !ok {
		return fmt.Sprintf("%d minor units of %s", amount, memberLabel(upper))
	}
	digits := unit.digits
	if unit.multiple == 100 && amount%100 == 0 {
		amount, digits = amount/100, 0
	}
	f := currency.NewFormatter(currency.NewLocale(locale))
	f.MinDigits, f.MaxDigits = uint8(digits), uint8(digits)
	number, err := currency.NewAmount(decimalString(amount, digits), upper)
	if err != nil {
		// A code that has left the library's data but not Stripe's list borrows another one's formatting.
		number, err = currency.NewAmount(decimalString(amount, digits), "USD")
		f.SymbolMap["USD"] = upper
	}
	if err != nil {
		return decimalString(amount, digits) + " " + upper
	}
	return f.Format(number)
}

// decimalString puts the decimal point into an amount of minor units.
func decimalString(amount int64, digits int) string {
	s, sign := strconv.FormatInt(amount, 10), ""
	if amount < 0 {
		s, sign = s[1:], "-"
	}
	if digits == 0 {
		return sign + s
	}
	if len(s) <= digits {
		s = strings.Repeat("0", digits+1-len(s)) + s
	}
	return sign + s[:len(s)-digits] + "." + s[len(s)-digits:]
}
