package sendgrid

import (
	"bytes"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"text/template"

	"github.com/oncepay/oncepay/charges"
)

// Bounds of what a caller's texts take up, in characters.
const (
	maxName        = 78
	maxSubjectName = 60   // with the amount, a subject that mail clients show whole
	maxDescription = 1000 // what a charge may have
)

//go:embed receipt.txt receipt.html
var templates embed.FS

var (
	textReceipt = template.Must(template.ParseFS(templates, "receipt.txt"))
	htmlReceipt = htmltemplate.Must(htmltemplate.ParseFS(templates, "receipt.html"))
)

// receipt is what the templates show.
type receipt struct {
	Subject     string
	Amount      string
	Description string
	Rows        []row
}

type row struct{ Name, Value string }

// Render makes the receipt of a charge that has succeeded; the recipient is left to be filled in. It depends on nothing but the
// charge: rendered again, it is the same mail.
func Render(c charges.Charge) (Mail, error) {
	// Formatted amounts hold no-break spaces, which some subject lines and plain texts show as something else.
	paid := c.Amount
	if c.AmountCaptured > 0 { // less may have been captured than was asked for
		paid = c.AmountCaptured
	}
	amount := strings.ReplaceAll(charges.Format(paid, c.Currency, "en"), "\u00a0", " ")
	r := receipt{
		Subject:     subject(c, amount),
		Amount:      amount,
		Description: oneLine(c.Description, maxDescription),
		Rows:        []row{{"Date", c.UpdatedAt.UTC().Format("2 January 2006, 15:04 UTC")}},
	}
	if reference := oneLine(c.Reference, maxDescription); reference != "" {
		r.Rows = append(r.Rows, row{"Reference", reference})
	}
	r.Rows = append(r.Rows, row{"Receipt no.", c.ID.String()})

	var text, html bytes.Buffer
	if err := textReceipt.Execute(&text, r); err != nil {
		return Mail{}, fmt.Errorf("render receipt of charge %s: %w", c.ID, err)
	}
	if err := htmlReceipt.Execute(&html, r); err != nil {
		return Mail{}, fmt.Errorf("render receipt of charge %s: %w", c.ID, err)
	}
	return Mail{Subject: r.Subject, Text: text.String(), HTML: html.String(), Key: c.IdempotencyKey.String(), Charge: c.ID.String()}, nil
}

// subject names what was paid for, as far as the caller said.
func subject(c charges.Charge, amount string) string {
	for _, name := range []string{c.Description, c.Reference} {
		if name = oneLine(name, maxSubjectName); name != "" {
			return "Receipt: " + name + " (" + amount + ")"
		}
	}
	return "Your receipt: " + amount
}
