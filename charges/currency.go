package charges

import "strings"

// The currencies that Stripe can charge, and the scale of their amounts there. It differs from ISO 4217 for some, so that no
// general currency library may be asked. Source: https://docs.stripe.com/currencies. A currency that Stripe accepts
// for some accounts only is in the table; there the charge fails with Stripe's own reason.
const (
	twoDecimalCurrencies = `
		usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob brl bsd bwp byn bzd cad cdf chf
		cny cop crc cve czk dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gtq gyd hkd hnl htg huf idr ils inr isk
		jmd kes kgs khr kyd kzt lak lbp lkr lrd lsl mad mdl mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd
		pab pen pgk php pkr pln qar ron rsd rub sar sbd scr sek sgd shp sle sos srd std szl thb tjs top try ttd twd tzs
		uah ugx uyu uzs wst xcd xcg yer zar zmw`
	zeroDecimalCurrencies  = `bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf`
	threeDecimalCurrencies = `bhd jod kwd omr tnd`
)

// minorUnit is how Stripe counts one currency.
type minorUnit struct {
	digits   int   // decimals of the amount
	multiple int64 // Stripe refuses other amounts
	max      int64
}

var minorUnits = stripeMinorUnits()

func stripeMinorUnits() map[string]minorUnit {
	const eightDigits, twelveDigits = 99_999_999, 999_999_999_999
	units := make(map[string]minorUnit)
	for _, code := range strings.Fields(twoDecimalCurrencies) {
		units[code] = minorUnit{digits: 2, multiple: 1, max: eightDigits}
	}
	for _, code := range strings.Fields(zeroDecimalCurrencies) {
		units[code] = minorUnit{digits: 0, multiple: 1, max: eightDigits}
	}
	for _, code := range strings.Fields(threeDecimalCurrencies) {
		units[code] = minorUnit{digits: 3, multiple: 10, max: eightDigits}
	}
	// Without a real minor unit, yet still counted in hundredths for older integrations.
	units["isk"] = minorUnit{digits: 2, multiple: 100, max: eightDigits}
	units["ugx"] = minorUnit{digits: 2, multiple: 100, max: eightDigits}
	// Eight digits would end at some 60 US dollars.
	units["idr"] = minorUnit{digits: 2, multiple: 1, max: twelveDigits}
	return units
}
