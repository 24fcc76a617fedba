package main

import (
	"log/slog"
	"net"
	"slices"
	"testing"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// A simulator that a real key puts aside tells nothing, not even to where its journal says; the API hears the provider instead.
func TestDevHearsWhoeverItTalksTo(t *testing.T) {
	t.Parallel()
	at := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}
	const stripeURL, sendgridURL = "http://127.0.0.1:8080/webhooks/stripe", "http://127.0.0.1:8080/webhooks/sendgrid"
	for _, tc := range []struct {
		name                string
		dev                 devCommand
		stripe, sendgrid    string // where the simulators' events go
		ownSecret, ownSigns bool   // whether the API takes the settings' in place of the simulators'
	}{
		{"simulators", devCommand{StripeSecrets: []string{"whsec_own"}, SendGridKeys: []string{"own"}}, stripeURL, sendgridURL, false, false},
		{"Stripe", devCommand{StripeKey: "sk_test_1", StripeSecrets: []string{"whsec_own"}}, "", sendgridURL, true, false},
		{"SendGrid", devCommand{SendGridKey: "SG.1", SendGridKeys: []string{"own"}}, stripeURL, "", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.dev.DataDir = t.TempDir()
			box, err := tc.dev.simulators(slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			if err := box.SetWebhooks(sandbox.Webhooks{StripeURL: "http://127.0.0.1:1/old", SendGridURL: "http://127.0.0.1:1/old"}); err != nil {
				t.Fatal(err)
			}
			signed, err := tc.dev.tell(box, at)
			if err != nil {
				t.Fatal(err)
			}
			told := box.Webhooks()
			if told.StripeURL != tc.stripe || told.SendGridURL != tc.sendgrid {
				t.Errorf("told at %q and %q", told.StripeURL, told.SendGridURL)
			}
			secret, key := told.StripeSecret, box.SendGridPublicKey()
			if tc.ownSecret {
				secret = "whsec_own"
			}
			if tc.ownSigns {
				key = "own"
			}
			if !slices.Equal(signed.StripeSecrets, []string{secret}) || !slices.Equal(signed.SendGridKeys, []string{key}) {
				t.Errorf("verified with %v and %v", signed.StripeSecrets, signed.SendGridKeys)
			}
		})
	}
}
