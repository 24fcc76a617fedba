package sendgrid_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sendgrid"
)

func paid(r charges.Request) charges.Charge {
	return charges.Charge{
		ID:             uuid.MustParse("0190a0a0-0000-7000-8000-000000000001"),
		IdempotencyKey: uuid.MustParse("0190a0a0-0000-7000-8000-000000000002"),
		Status:         charges.Succeeded,
		Request:        r,
		CreatedAt:      time.Date(2030, 1, 31, 22, 0, 0, 0, time.UTC),
		UpdatedAt:      time.Date(2030, 2, 1, 1, 4, 5, 0, time.FixedZone("", 2*3600)),
	}
}

func render(t *testing.T, r charges.Request) sendgrid.Mail {
	t.Helper()
	m, err := sendgrid.Render(paid(r))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	unseen = regexp.MustCompile(`(?s)<head>.*</head>|<[^>]*>`)
	space  = regexp.MustCompile(`\s*\n\s*`)
)

// visible is what a mail client shows of the HTML, a line for each text.
func visible(page string) string {
	return strings.TrimSpace(space.ReplaceAllString(html.UnescapeString(unseen.ReplaceAllString(page, "")), "\n"))
}

func TestReceiptGolden(t *testing.T) {
	t.Parallel()
	m := render(t, charges.Request{Amount: 1099, Currency: "usd", Description: "Tea & cake", Reference: "order-1234"})
	if m.Subject != "Receipt: Tea & cake ($10.99)" || m.Key != "0190a0a0-0000-7000-8000-000000000002" || m.Charge != "0190a0a0-0000-7000-8000-000000000001" || m.To != "" {
		t.Errorf("got %+v", m)
	}
	if want := `Thank you for your payment.

Paid         $10.99
For          Tea & cake
Date         31 January 2030, 23:04 UTC
Reference    order-1234
Receipt no.  0190a0a0-0000-7000-8000-000000000001

Please keep this receipt for your records.
`; m.Text != want {
		t.Errorf("got\n%s\nwant\n%s", m.Text, want)
	}
	if got, want := visible(m.HTML), `Payment received
$10.99
Tea & cake
Date
31 January 2030, 23:04 UTC
Reference
order-1234
Receipt no.
0190a0a0-0000-7000-8000-000000000001
Thank you. Please keep this receipt for your records.`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	least := render(t, charges.Request{Amount: 500, Currency: "jpy"})
	if want := `Thank you for your payment.

Paid         ¥500
Date         31 January 2030, 23:04 UTC
Receipt no.  0190a0a0-0000-7000-8000-000000000001

Please keep this receipt for your records.
`; least.Text != want || least.Subject != "Your receipt: ¥500" {
		t.Errorf("got %q\n%s\nwant\n%s", least.Subject, least.Text, want)
	}
}

func TestReceiptAmounts(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]charges.Request{
		"$10.99":     {Amount: 1099, Currency: "usd"},
		"¥500":       {Amount: 500, Currency: "jpy"},
		"KWD 12.340": {Amount: 12340, Currency: "kwd"},
		"€0.50":      {Amount: 50, Currency: "eur"},
	} {
		m := render(t, r)
		for where, text := range map[string]string{"subject": m.Subject, "text": m.Text, "HTML": visible(m.HTML)} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not in the %s: %s", want, where, text)
			}
		}
	}
}

func TestReferenceNamesTheReceiptWithoutDescription(t *testing.T) {
	t.Parallel()
	if m := render(t, charges.Request{Amount: 1, Currency: "usd", Reference: "order-1"}); m.Subject != "Receipt: order-1 ($0.01)" {
		t.Errorf("got %q", m.Subject)
	}
}

// Nothing that a caller writes can add a header, forge a line of the receipt, or become markup.
func TestReceiptIsNotForged(t *testing.T) {
	t.Parallel()
	for _, nasty := range []string{
		"Tea\r\nBcc: x@y.z", "Tea\nPaid         $0.00", "Tea\u2028Paid", "Tea\u0085Paid", "Tea\x00", "Tea\x1b[2J", "\u202e$99.01 \u2066x", "Tea\xff",
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title><h1>`, `{{.Rows}}`, strings.Repeat("☕", 1000), strings.Repeat("a\n", 500), " \n ",
	} {
		m := render(t, charges.Request{Amount: 1099, Currency: "usd", Description: nasty, Reference: "r"})
		if strings.ContainsFunc(m.Subject, func(r rune) bool { return r < ' ' || r == 0x85 || r == 0x2028 || r == 0x202e || r == utf8.RuneError }) ||
			utf8.RuneCountInString(m.Subject) > 100 || !strings.HasSuffix(m.Subject, "($10.99)") {
			t.Errorf("%q: subject %q", nasty, m.Subject)
		}
		lines := strings.Split(m.Text, "\n")
		found := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "Paid ") || strings.HasPrefix(line, "Bcc") {
				found++
			}
		}
		if found != 1 || len(lines) > 10 || strings.ContainsAny(m.Text, "\r\x00\x1b\u202e\u2028") {
			t.Errorf("%q: text %q", nasty, m.Text)
		}
		for _, markup := range []string{"<script", "<img", "<h1", "\u202e"} {
			if strings.Contains(m.HTML, markup) {
				t.Errorf("%q: %s is in the HTML", nasty, markup)
			}
		}
		if !utf8.ValidString(m.Subject + m.Text + m.HTML) {
			t.Errorf("%q: not UTF-8", nasty)
		}
	}
}
