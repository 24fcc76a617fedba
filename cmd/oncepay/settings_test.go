package main

import (
	"net"
	"regexp"
	"strings"
	"testing"
)

// good is an environment with which every command could start; nothing is listening at its database's address.
var good = map[string]string{
	"DATABASE_URL":      "postgres://shop:sesame@127.0.0.1:1/shop",
	"STRIPE_SECRET_KEY": "sk_test_sesame",
	"SENDGRID_API_KEY":  "SG.sesame",
	"RECEIPT_FROM":      "receipts@shop.example",
	"ONCEPAY_TOKEN":     "sesame",
}

func TestSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	const create = "charge create --amount=1099 --currency=usd --payment-method=pm_card_visa"
	for _, tc := range []struct {
		command string
		set     string // NAME=value in place of the good one; NAME= leaves it out or empty
		says    []string
	}{
		{"api", "DATABASE_URL=", []string{"missing: --database-url (DATABASE_URL)"}},
		{"migrate", "DATABASE_URL=", []string{"missing: --database-url (DATABASE_URL)"}},
		{"keys list", "DATABASE_URL=", []string{"missing: --database-url (DATABASE_URL)"}},
		{"outbox replay", "DATABASE_URL=", []string{"missing: --database-url (DATABASE_URL)"}},
		{"worker", "DATABASE_URL=", []string{"missing: --database-url (DATABASE_URL)"}},
		{"worker", "STRIPE_SECRET_KEY=", []string{"missing: --stripe-secret-key (STRIPE_SECRET_KEY)"}},
		{"worker", "SENDGRID_API_KEY=", []string{"missing: --sendgrid-api-key (SENDGRID_API_KEY)"}},
		{"worker", "RECEIPT_FROM=", []string{"missing: --receipt-from (RECEIPT_FROM)"}},
		{"worker --receipt-from= --stripe-secret-key=", "", []string{"missing: --stripe-secret-key (STRIPE_SECRET_KEY), --receipt-from (RECEIPT_FROM)"}},
		{create, "ONCEPAY_TOKEN=", []string{"missing: --token (ONCEPAY_TOKEN)"}},

		{"api", "DATABASE_URL=postgres://shop:sesame@db:port/shop", []string{"--database-url (DATABASE_URL)", "invalid port"}},
		{"api", "DATABASE_URL=postgres://shop:open@sesame@db:port/shop", []string{"--database-url (DATABASE_URL)", "invalid port"}},
		{"worker", "DATABASE_URL=host=db port=x password = sesame", []string{"--database-url (DATABASE_URL)", "invalid port"}},
		{"migrate", "DATABASE_URL=shop:sesame@db/shop", []string{"--database-url (DATABASE_URL)"}},
		{"keys list", "DATABASE_URL=postgres://shop:ses%ame@db/shop", []string{"--database-url (DATABASE_URL)"}},
		{"outbox list", "DATABASE_URL=postgres://db/shop?password=sesame&sslmode=x", []string{"--database-url (DATABASE_URL)", "sslmode"}},
		{"api", "ONCEPAY_DATABASE_POOLER=pgbouncer", []string{"--database-pooler", "ONCEPAY_DATABASE_POOLER", "transaction"}},
		{"api", "ONCEPAY_DATABASE_CONNS=1", []string{"--database-conns (ONCEPAY_DATABASE_CONNS)"}},

		{"api", "ONCEPAY_KEY_TTL=1s", []string{"--key-ttl (ONCEPAY_KEY_TTL)"}},
		{"api", "ONCEPAY_KEY_TTL=tomorrow", []string{"--key-ttl", "ONCEPAY_KEY_TTL"}},
		{"api", "ONCEPAY_LISTEN=8080", []string{"--listen", "ONCEPAY_LISTEN", "127.0.0.1:8080"}},
		{"worker", "ONCEPAY_WORKER_LISTEN=127.0.0.1:99999", []string{"--listen", "ONCEPAY_WORKER_LISTEN"}},
		{"sandbox --listen=here", "", []string{"--listen", "127.0.0.1:8080"}},

		{"worker", "STRIPE_SECRET_KEY=pk_test_sesame", []string{"--stripe-secret-key (STRIPE_SECRET_KEY)", "sk_test_"}},
		{"dev", "STRIPE_SECRET_KEY=sesame", []string{"--stripe-secret-key (STRIPE_SECRET_KEY)", "sk_test_"}},
		{"dev", "STRIPE_SECRET_KEY=sk_live_sesame", []string{"--stripe-secret-key (STRIPE_SECRET_KEY): dev is for trying: its tokens are known to everybody; use a test key"}},
		{"dev", "STRIPE_SECRET_KEY=rk_live_sesame", []string{"use a test key"}},
		{"worker", "STRIPE_API_BASE=api.stripe.com", []string{"--stripe-api-base (STRIPE_API_BASE)"}},
		{"worker --stripe-api-base=http://proxy.example", "STRIPE_SECRET_KEY=sk_live_sesame", []string{"--stripe-api-base (STRIPE_API_BASE)", "https"}},
		{"worker", "SENDGRID_API_KEY=sesame", []string{"--sendgrid-api-key (SENDGRID_API_KEY)", "SG."}},
		{"worker", "SENDGRID_API_BASE=https://user:sesame@mail.example", []string{"--sendgrid-api-base (SENDGRID_API_BASE)"}},
		{"worker", "RECEIPT_FROM=Shop", []string{"--receipt-from (RECEIPT_FROM)"}},
		{"dev", "RECEIPT_FROM=Shop", []string{"--receipt-from (RECEIPT_FROM)"}},
		{"worker", "ONCEPAY_STRIPE_KEY_WINDOW=24h", []string{"--stripe-key-window (ONCEPAY_STRIPE_KEY_WINDOW)", "24h"}},
		{"worker", "ONCEPAY_STRIPE_KEY_WINDOW=0s", []string{"--stripe-key-window (ONCEPAY_STRIPE_KEY_WINDOW)"}},
		{"worker", "ONCEPAY_STRIPE_RATE=0/s", []string{"--stripe-rate", "ONCEPAY_STRIPE_RATE", "25/s"}},
		{"worker", "ONCEPAY_STRIPE_RATE=0.09/s", []string{"--stripe-rate", "ONCEPAY_STRIPE_RATE", "from 0.1"}},
		{"worker", "ONCEPAY_STRIPE_RATE=fast", []string{"--stripe-rate", "ONCEPAY_STRIPE_RATE", "25/s"}},
		{"worker", "ONCEPAY_STRIPE_RATE=NaN", []string{"--stripe-rate", "ONCEPAY_STRIPE_RATE", "25/s"}},
		{"worker", "ONCEPAY_LOOK_DELAYS=5m,1m", []string{"--look-delays (ONCEPAY_LOOK_DELAYS)", "grow"}},
		{"worker", "ONCEPAY_LOOK_DELAYS=-1m", []string{"--look-delays (ONCEPAY_LOOK_DELAYS)"}},
		{"worker", "ONCEPAY_RECEIPT_UNKNOWN=maybe", []string{"--receipt-unknown (ONCEPAY_RECEIPT_UNKNOWN)", "hold"}},
		{"review settle 5f1c4f6e-6f39-4c3c-9d0b-2d1a7a3f6a10 --as=failed", "", []string{"--because"}},
		{"review list --limit=0", "", []string{"--limit"}},
		{"worker", "ONCEPAY_LOOK_DELAYS=soon", []string{"--look-delays", "ONCEPAY_LOOK_DELAYS"}},
		{"worker", "ONCEPAY_REKEY=maybe", []string{"--rekey (ONCEPAY_REKEY)", "review", "auto"}},
		{"worker", "ONCEPAY_LATE_SUCCESS=refund", []string{"--late-success", "ONCEPAY_LATE_SUCCESS", "refunds are not available yet"}},
		{"api", "ONCEPAY_LATE_SUCCESS=refund", []string{"--late-success", "ONCEPAY_LATE_SUCCESS", "refunds are not available yet"}},
		{"api --late-success=keep", "", []string{"--late-success (ONCEPAY_LATE_SUCCESS): must be review"}},
		{"worker", "ONCEPAY_CONCURRENCY=0", []string{"--concurrency (ONCEPAY_CONCURRENCY)"}},

		{"worker", "ONCEPAY_ACTION_TTL=30s", []string{"--action-ttl (ONCEPAY_ACTION_TTL)", "1m", "30 days"}},
		{"worker", "ONCEPAY_ACTION_TTL=721h", []string{"--action-ttl (ONCEPAY_ACTION_TTL)"}},
		{"worker", "ONCEPAY_ATTEMPT_RETENTION=2159h", []string{"--attempt-retention (ONCEPAY_ATTEMPT_RETENTION)", "2160h"}},
		{"worker", "ONCEPAY_WEBHOOK_RETENTION=71h", []string{"--webhook-retention (ONCEPAY_WEBHOOK_RETENTION)", "72h"}},
		{"api", "STRIPE_WEBHOOK_SECRETS=sesame", []string{"--stripe-webhook-secrets (STRIPE_WEBHOOK_SECRETS)", "whsec_"}},
		{"api", "STRIPE_WEBHOOK_SECRETS=whsec_good,sesame", []string{"--stripe-webhook-secrets (STRIPE_WEBHOOK_SECRETS)"}},
		{"api", "SENDGRID_WEBHOOK_KEYS=sesame", []string{"--sendgrid-webhook-keys (SENDGRID_WEBHOOK_KEYS)"}},
		{"api", "SENDGRID_WEBHOOK_WINDOW=0s", []string{"--sendgrid-webhook-window (SENDGRID_WEBHOOK_WINDOW)"}},
		{"dev", "STRIPE_WEBHOOK_SECRETS=sesame", []string{"--stripe-webhook-secrets (STRIPE_WEBHOOK_SECRETS)", "whsec_"}},
		{"dev", "SENDGRID_WEBHOOK_KEYS=sesame", []string{"--sendgrid-webhook-keys (SENDGRID_WEBHOOK_KEYS)"}},
		{"sandbox --stripe-webhook-url=here", "", []string{"--stripe-webhook-url (STRIPE_WEBHOOK_URL)"}},

		{"keys create --name=shop --role=admin", "", []string{"--role", "caller", "operator"}},
		{"keys create --name= --role=caller", "", []string{"missing: --name"}},
		{"keys create --name=caf\u00e9 --role=caller", "", []string{"--name"}},
		{"keys revoke shop", "", []string{"id", "UUID"}},
		{"outbox list --limit=0", "", []string{"--limit"}},
		{"outbox replay --since=yesterday", "", []string{"--since"}},
		{"outbox list --since=2026-01-02T00:00:00Z --until=2026-01-01T00:00:00Z", "", []string{"--since is after --until"}},
		{"outbox replay --since=2026-01-02T00:00:00Z --until=2026-01-01T00:00:00Z", "", []string{"--since is after --until"}},
		{"sandbox --listen=127.0.0.1:0 --journal=/nowhere/at/all/journal", "", []string{"--journal", "/nowhere/at/all"}},
		{"reconcile", "", []string{"--restored or --lost is missing"}},
		{"reconcile --restored --lost", "", []string{"cannot be had at once"}},
		{"reconcile --lost --give-up", "", []string{"cannot be had at once"}},
		{"reconcile --lost --limit=0", "", []string{"--limit", "from 1"}},
		{"reconcile --restored --because=x --since=2999-01-01T00:00:00Z", "", []string{"--since has not come yet"}},
		{"outbox replay --charge=1", "", []string{"--charge"}},
		{create + " --key=order-1", "", []string{"--key", "UUID"}},
		{"charge create --amount=9.99 --currency=usd --payment-method=pm_card_visa", "", []string{"--amount"}},
		{create + " --item=tee=0", "", []string{"--item", "SKU=QUANTITY", "from 1"}},
		{create + " --item=tee=two", "", []string{"--item", "SKU=QUANTITY"}},
		{create + " --item=tee=1=2", "", []string{"--item", "SKU=QUANTITY"}},
		{create + " --item=tee=", "", []string{"--item", "SKU=QUANTITY"}},
		{create + " --item=tee,mug", "", []string{"--item", "letters, digits"}},
		{create + " --item==2", "", []string{"--item", "letters, digits"}},
		{"inventory", "", []string{"set", "list"}},
		{"inventory set tee", "", []string{"<quantity>"}},
		{"inventory set tee=1 1", "", []string{"<sku>", "letters, digits"}},
		{"inventory set tee 1.5", "", []string{"<quantity>", "1.5"}},
		{"inventory set tee 1000000000001", "", []string{"<quantity>", "1000000000000"}},
		{"inventory set tee 1", "DATABASE_URL=", []string{"missing: --database-url (DATABASE_URL)"}},
		{"inventory list tee,mug", "", []string{"<sku>", "letters, digits"}},
		{"inventory list --limit=0", "", []string{"--limit"}},
		{create, "ONCEPAY_URL=shop.example", []string{"--url (ONCEPAY_URL)", "http"}},
		{create, "ONCEPAY_TOKEN=open sesame", []string{"--token (ONCEPAY_TOKEN)"}},
		{"charge get", "", []string{"<id>"}},

		{"", "", []string{"expected one of", "api", "worker"}},
		{"pay", "", []string{"pay"}},
		{"api --key=sesame", "", []string{"unknown flag --key"}},
		{"--log-level=loud migrate", "", []string{"--log-level"}},
		{"--log-format=xml migrate", "", []string{"--log-format (ONCEPAY_LOG_FORMAT)", "json", "text"}},
	} {
		t.Run(strings.TrimSpace(tc.command+" "+tc.set), func(t *testing.T) {
			t.Parallel()
			l := oncepayArgs(strings.Fields(tc.command)...)
			l.env = environment(good, tc.set)
			r := l.run(t)
			if r.code != 2 || r.stdout != "" {
				t.Errorf("exit %d, stdout %q", r.code, r.stdout)
			}
			line, rest, _ := strings.Cut(r.stderr, "\n")
			if rest != "" || !strings.HasPrefix(line, "oncepay: ") {
				t.Errorf("not one line: %q", r.stderr)
			}
			for _, part := range tc.says {
				if !strings.Contains(line, part) {
					t.Errorf("%q does not say %q", line, part)
				}
			}
			if strings.Contains(r.stderr, "sesame") {
				t.Errorf("a secret is told: %s", r.stderr)
			}
		})
	}
}

// environment is base with one variable in another state.
func environment(base map[string]string, set string) []string {
	env := []string{set}
	changed, _, _ := strings.Cut(set, "=")
	for name, value := range base {
		if name != changed {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func TestHelpTellsNoSecrets(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"worker", "api", "dev", "charge create"} {
		l := oncepayArgs(append(strings.Fields(command), "--help")...)
		l.env = environment(good, "")
		r := l.run(t)
		if r.code != 0 || !strings.Contains(r.stdout, "Usage: oncepay "+command) || strings.Contains(r.stdout+r.stderr, "sesame") {
			t.Errorf("%s: exit %d: %s%s", command, r.code, r.stdout, r.stderr)
		}
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for command, flag := range map[string]string{
		"api --listen": "--listen", "worker --listen": "--listen", "sandbox --listen": "--listen",
		"dev --listen": "--listen", "dev --listen=127.0.0.1:0 --sandbox-listen": "--sandbox-listen",
		"dev --listen=127.0.0.1:0 --sandbox-listen=127.0.0.1:0 --worker-listen": "--worker-listen",
	} {
		l := oncepayArgs(strings.Fields(command + "=" + address)...)
		if command, _, _ := strings.Cut(command, " "); command == "dev" {
			l.args = append(l.args, "--data-dir="+t.TempDir())
		}
		l.env = environment(good, "")
		r := l.run(t)
		if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, flag) ||
			!strings.Contains(r.stderr, address) || !strings.Contains(r.stderr, "address already in use") {
			t.Errorf("%s: exit %d: %s", command, r.code, r.stderr)
		}
	}
}

// Whoever cannot reach the database says so and ends; nobody waits for ever, and no password is told.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"migrate --timeout=1s", "keys list", "outbox list", "outbox replay --apply", "review list", "inventory list", "inventory set tee 1"} {
		l := oncepayArgs(strings.Fields(command)...)
		l.env = environment(good, "")
		r := l.run(t)
		if r.code != 1 || strings.Contains(r.stderr, "sesame") {
			t.Errorf("%s: exit %d: %s", command, r.code, r.stderr)
		}
		said := r.stderr
		if strings.HasPrefix(command, "migrate") { // which logs that it waits
			_, said, _ = strings.Cut(said, "\n")
		}
		if !regexp.MustCompile(`^oncepay: .*127\.0\.0\.1:1 .*connection refused\)?\n$`).MatchString(said) || strings.Count(said, "connection refused") != 1 {
			t.Errorf("%s: not one line that says why once: %q", command, said)
		}
	}
}
