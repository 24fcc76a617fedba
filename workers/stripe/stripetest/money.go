package stripetest

import (
	"fmt"
	"strings"

	"github.com/bojanz/currency"
)

// maxAmount is eight digits: https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts
const maxAmount = 99_999_999

// minimums are the smallest charges, in minor units: https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts
// Any other currency takes every amount from 1.
var minimums = map[string]int64{
	"usd": 50, "aed": 200, "aud": 50, "bgn": 100, "brl": 50, "cad": 50, "chf": 50, "czk": 1500, "dkk": 250, "eur": 50,
	"gbp": 30, "hkd": 400, "huf": 17500, "inr": 50, "jpy": 50, "mxn": 1000, "myr": 200, "nok": 300, "nzd": 50,
	"pln": 200, "ron": 200, "sek": 300, "sgd": 50, "thb": 1000,
}

// multiples are the currencies whose amounts must end in zeros, because Stripe's scale is finer than what
// cards settle: https://docs.stripe.com/currencies#special-cases and #three-decimal
var multiples = map[string]int64{"isk": 100, "ugx": 100, "bhd": 10, "jod": 10, "kwd": 10, "omr": 10, "tnd": 10}

// money reads amount and currency; the currency comes back in lower case.
func (p *params) money() (int64, string) {
	code := strings.ToLower(p.text("currency", 3))
	amount, given := p.integer("amount")
	switch {
	case code == "":
		p.fail("parameter_missing", "currency", "Missing required param: currency.")
	case !currency.IsValid(strings.ToUpper(code)):
		p.fail("", "currency", fmt.Sprintf("Invalid currency: %s.", code))
	case !given:
		p.fail("parameter_missing", "amount", "Missing required param: amount.")
	case amount < 1:
		p.fail("parameter_invalid_integer", "amount", "Invalid positive integer for amount.")
	case amount < minimums[code]:
		p.fail("amount_too_small", "amount", fmt.Sprintf("Amount must be at least %d %s.", minimums[code], code))
	case amount > maxAmount:
		p.fail("amount_too_large", "amount", fmt.Sprintf("Amount must be at most %d %s.", maxAmount, code))
	case multiples[code] != 0 && amount%multiples[code] != 0:
		p.fail("", "amount", fmt.Sprintf("Amounts in %s must be a multiple of %d.", code, multiples[code]))
	}
	return amount, code
}
