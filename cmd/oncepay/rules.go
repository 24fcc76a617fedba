package main

import (
	"errors"
	"time"

	"github.com/oncepay/oncepay/charges"
)

// rules are the settings of what may be sent again: for the workers, and for the commands that say what those would do.
type rules struct {
	KeyWindow   time.Duration   `name:"stripe-key-window" env:"ONCEPAY_STRIPE_KEY_WINDOW" default:"23h" help:"For how long Stripe is trusted to remember a key; after that it is looked at before anything is sent again."`
	LookDelays  []time.Duration `name:"look-delays" env:"ONCEPAY_LOOK_DELAYS" default:"0s,1m,5m,15m,1h" help:"When Stripe is looked at after it stored a failure under a key."`
	Rekey       string          `name:"rekey" env:"ONCEPAY_REKEY" enum:"review,auto" default:"review" help:"When those looks found nothing: ask a person (review), or send under a new key (auto)."`
	MailUnknown string          `name:"receipt-unknown" env:"ONCEPAY_RECEIPT_UNKNOWN" enum:"hold,resend" default:"hold" help:"What is done about a receipt that may have been sent or not: wait for SendGrid's events or a person (hold), or send it again after 15 minutes, up to twice, and risk that the buyer gets it more than once (resend)."`
}

// Validate refuses what cannot work.
func (r rules) Validate() error {
	switch {
	case r.KeyWindow < time.Minute || r.KeyWindow >= 24*time.Hour:
		return errors.New("--stripe-key-window must be at least 1m and below 24h: Stripe may forget a key after that")
	case len(r.LookDelays) == 0 || len(r.LookDelays) > 20:
		return errors.New("--look-delays must name from 1 to 20 delays")
	}
	for i, d := range r.LookDelays {
		if d < 0 || i > 0 && d < r.LookDelays[i-1] {
			return errors.New("--look-delays must not be negative, and must grow")
		}
	}
	return nil
}

// options are those of every service that sends, or says what would be sent, so that all of them decide alike.
func (r rules) options() charges.Options {
	return charges.Options{
		Policy:   charges.Policy{Window: r.KeyWindow, LookDelays: r.LookDelays, Rekey: r.Rekey == "auto"},
		Receipts: charges.ReceiptPolicy{Resend: r.MailUnknown == "resend"},
	}
}
