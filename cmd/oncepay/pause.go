package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// which names the provider that a command is about.
type which struct {
	Provider outbox.Provider `required:"" enum:"stripe,sendgrid" help:"Which one: stripe or sendgrid."`
}

type outboxPause struct {
	database `embed:""`
	operator `embed:""`
	which    `embed:""`
	Because  string `required:"" placeholder:"TEXT" help:"Why, for whoever wonders."`
}

const maxBecause = 500

func checkBecause(text string) error {
	if len(text) > maxBecause || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("--because must be one line of at most %d bytes", maxBecause)
	}
	return nil
}

// Validate refuses what cannot work.
func (c *outboxPause) Validate() error {
	if strings.TrimSpace(c.Because) == "" {
		return errors.New("--because must say why")
	}
	return cmp.Or(checkBecause(c.Because), c.database.Validate())
}

// Run pauses the provider's queues, whether it is in an outage or not.
func (c *outboxPause) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	h, err := b.outbox.PauseProvider(ctx, c.Provider, c.who(), c.Because)
	if err != nil {
		return err
	}
	fmt.Printf("%s is paused by %s since %s. Calls in flight end; oncepay outbox resume --provider=%[1]s lets it go on.\n", c.Provider, h.PausedBy, stamp(h.PausedAt))
	return nil
}

type outboxResume struct {
	database `embed:""`
	operator `embed:""`
	which    `embed:""`
	Because  string `placeholder:"TEXT" help:"Why, for the audit row."`
}

// Validate refuses what cannot work.
func (c *outboxResume) Validate() error {
	return cmp.Or(checkBecause(c.Because), c.database.Validate())
}

// Run takes the pause back.
func (c *outboxResume) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	h, paused, err := b.outbox.ResumeProvider(ctx, c.Provider, c.who(), c.Because)
	switch {
	case err != nil:
		return err
	case !paused:
		fmt.Printf("%s was not paused by an operator. Nothing was changed.\n", c.Provider)
	case h.Stopped():
		fmt.Printf("The pause of %s is over, but it is %s: %s. It goes on by itself.\n", c.Provider, h.Outage, h.Reason)
	default:
		fmt.Printf("%s goes on.\n", c.Provider)
	}
	return nil
}

type outboxStatus struct {
	database `embed:""`
}

// Validate refuses what cannot work.
func (c *outboxStatus) Validate() error { return c.database.Validate() }

// Run prints a line for each provider, and one for each queue.
func (c *outboxStatus) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tSTATE\tSINCE\tNEXT TRIAL\tRATE\tLAST SUCCESS\tPAUSED BY\tREASON")
	for _, p := range outbox.Providers {
		h, err := b.outbox.Health(ctx, p)
		if err != nil {
			return err
		}
		fmt.Fprintln(w, statusLine(h))
	}
	depths, err := b.outbox.QueueDepths(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\nQUEUE\tDUE\tWHAT WAITS THERE")
	for _, q := range []struct{ name, what string }{
		{outbox.QueueCharges, "new charges"},
		{outbox.QueueBacklog, "charges that have waited long, and questions about payments"},
		{outbox.QueueReceipts, "receipts"},
	} {
		fmt.Fprintf(w, "%s\t%d\t%s\n", q.name, depths[q.name], q.what)
	}
	return w.Flush()
}

func statusLine(h outbox.Health) string {
	state, trial, reason := "up", "-", h.Reason
	switch {
	case h.Trial():
		state, trial = "on trial", stamp(h.TrialSince)
	case h.Outage != "":
		state, trial = string(h.Outage), stamp(h.TrialAt)
	}
	paused := "-"
	if h.PausedBy != "" {
		paused = h.PausedBy + " " + stamp(h.PausedAt)
		reason = strings.TrimPrefix(reason+"; paused because "+h.PausedBecause, "; ")
	}
	rate := fmt.Sprintf("%.3g of %.3g/s", h.Rate, h.Configured)
	if h.HeldUntil.After(h.Now) {
		rate += ", held until " + stamp(h.HeldUntil)
	}
	return strings.Join([]string{string(h.Provider), state, stamp(h.Since), trial, rate, stamp(h.SucceededAt), paused, shortReason(reason)}, "\t")
}

// stamp is a time as people read it; "-": there is none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
