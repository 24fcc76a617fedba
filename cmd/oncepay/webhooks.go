package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
)

type webhooksCommand struct {
	List  webhooksList  `cmd:"" help:"List what Stripe and SendGrid have told, newest first, and what became of it."`
	Show  webhooksShow  `cmd:"" help:"Show one event as it came, but for client secrets."`
	Retry webhooksRetry `cmd:"" help:"Apply events again. It does no harm: what they say is merged with what is known."`
}

type webhooksList struct {
	database `embed:""`
	Status   string    `enum:",pending,applied,ignored" default:"" help:"Only events that are pending, applied or ignored."`
	Provider string    `enum:",stripe,sendgrid" default:"" help:"Only events of stripe or sendgrid."`
	Since    time.Time `placeholder:"TIME" help:"Only events received at or after it (RFC 3339)."`
	Limit    int       `default:"50" help:"At most so many."`
}

// Validate refuses what cannot work.
func (c *webhooksList) Validate() error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return errors.New("--limit must be from 1 to 10000")
	}
	return c.database.Validate()
}

// Run prints a line for each event.
func (c *webhooksList) Run(ctx context.Context) error {
	b, err := c.open(ctx, "webhooks", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	list, more, err := b.charges.ProviderEvents(ctx, charges.EventFilter{
		Provider: charges.Provider(c.Provider), Status: charges.EventStatus(c.Status), Since: c.Since, Limit: c.Limit,
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tRECEIVED\tPROVIDER\tTYPE\tSTATUS\tNOTE\tTRIES\tCHARGE\tEVENT")
	for _, e := range list {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", e.ID, e.ReceivedAt.UTC().Format(time.RFC3339), e.Provider, e.Type,
			e.Status, orDash(string(e.Note)), e.Tries, chargeOf(e), e.EventID)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintln(os.Stderr, "there is more: raise --limit, or narrow with --since, --status and --provider")
	}
	return nil
}

type webhooksShow struct {
	database `embed:""`
	ID       int64 `arg:"" help:"The event's id, as shown by webhooks list."`
}

// Run prints one event: what is known of it, an empty line, and its bytes.
func (c *webhooksShow) Run(ctx context.Context) error {
	b, err := c.open(ctx, "webhooks", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	e, err := b.charges.ProviderEvent(ctx, c.ID)
	if errors.Is(err, charges.ErrNotFound) {
		return fmt.Errorf("no event has the id %d", c.ID)
	}
	if err != nil {
		return err
	}
	occurred := "-"
	if e.OccurredAt.Year() > 1 {
		occurred = e.OccurredAt.UTC().Format(time.RFC3339)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"provider", string(e.Provider)}, {"event", e.EventID}, {"type", e.Type}, {"status", string(e.Status)}, {"note", orDash(string(e.Note))},
		{"charge", chargeOf(e)}, {"tries", fmt.Sprint(e.Tries)}, {"occurred", occurred},
		{"received", e.ReceivedAt.UTC().Format(time.RFC3339)}, {"updated", e.UpdatedAt.UTC().Format(time.RFC3339)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%s\n", withoutSecrets(e.Raw))
	return nil
}

// clientSecret is what a payment's client secret looks like, wherever it stands.
var clientSecret = regexp.MustCompile(`\w+_secret_\w+`)

// withoutSecrets makes an event fit for a terminal: whoever has a client secret can pay, and what strangers wrote into it must
// not steer the terminal.
func withoutSecrets(raw []byte) []byte {
	shown := clientSecret.ReplaceAll(raw, []byte("[removed]"))
	return bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, shown)
}

type webhooksRetry struct {
	database `embed:""`
	IDs      []int64 `arg:"" name:"id" help:"Ids of events, as shown by webhooks list."`
}

// Run makes the events wait again; a worker applies them within seconds.
func (c *webhooksRetry) Run(ctx context.Context) error {
	b, err := c.open(ctx, "webhooks", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	n, err := b.charges.RetryEvents(ctx, c.IDs)
	if err != nil {
		return err
	}
	fmt.Printf("%d events wait again; a worker applies them within seconds.\n", n)
	if missing := int64(len(c.IDs)) - n; missing > 0 {
		return fmt.Errorf("%d of the ids are not known, or were given twice", missing)
	}
	return nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func chargeOf(e charges.ProviderEvent) string {
	if e.ChargeID == uuid.Nil {
		return "-"
	}
	return e.ChargeID.String()
}
