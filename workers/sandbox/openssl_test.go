package sandbox_test

import (
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/workers/sandbox"
)

// TestSignaturesByOpenSSL checks both signatures with a program that shares no code with ours.
func TestSignaturesByOpenSSL(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	sb, url, _ := open(t, "")
	stripe, mails := receive(t, nil), receive(t, nil)
	if err := sb.SetWebhooks(sandbox.Webhooks{StripeURL: stripe.url, StripeSecret: secret, SendGridURL: mails.url}); err != nil {
		t.Fatal(err)
	}
	payWith(t, url, "k-1", "pm_card_visa")
	mail(t, url, "m-1")
	settled(t, sb)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	openssl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}

	request := stripe.all()[0]
	at, signature, _ := strings.Cut(strings.TrimPrefix(request.header.Get("Stripe-Signature"), "t="), ",v1=")
	signed := file("stripe", append([]byte(at+"."), request.body...))
	if out := openssl("dgst", "-sha256", "-hmac", secret, signed); !strings.HasSuffix(out, "= "+signature) {
		t.Errorf("Stripe: sent %s, openssl says %s", signature, out)
	}

	request = mails.all()[0]
	der, err := base64.StdEncoding.DecodeString(sb.SendGridPublicKey())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(request.header.Get("X-Twilio-Email-Event-Webhook-Signature"))
	if err != nil {
		t.Fatal(err)
	}
	key := file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	signed = file("sendgrid", append([]byte(request.header.Get("X-Twilio-Email-Event-Webhook-Timestamp")), request.body...))
	if out := openssl("dgst", "-sha256", "-verify", key, "-signature", file("signature", raw), signed); out != "Verified OK" {
		t.Errorf("SendGrid: %s", out)
	}
}
