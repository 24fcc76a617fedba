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

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/outbox"
)

type outboxCommand struct {
	List   outboxList   `cmd:"" help:"List what is unfinished, and the job that will do it."`
	Replay outboxReplay `cmd:"" help:"Give a live job to everything that wants one and has none. Shows what it would do; --apply does it."`
	Status outboxStatus `cmd:"" help:"Show how Stripe and SendGrid are, how fast they are called, and what waits for them."`
	Pause  outboxPause  `cmd:"" help:"Stop everything that calls a provider, until it is resumed."`
	Resume outboxResume `cmd:"" help:"Let everything that calls a provider go on after a pause."`
}

// filter narrows what is listed or replayed.
type filter struct {
	Since   time.Time   `placeholder:"TIME" help:"Only charges created at or after it (RFC 3339)."`
	Until   time.Time   `placeholder:"TIME" help:"Only charges created before it (RFC 3339)."`
	Caller  string      `help:"Only charges of this caller."`
	Charges []uuid.UUID `name:"charge" help:"Only these charges."`
}

// Validate refuses a time that ends before it begins, which no charge could be in.
func (f filter) Validate() error {
	if !f.Since.IsZero() && !f.Until.IsZero() && f.Since.After(f.Until) {
		return errors.New("--since is after --until")
	}
	return nil
}

func (f filter) outbox() outbox.Filter {
	return outbox.Filter{Since: f.Since, Until: f.Until, Caller: f.Caller, ChargeIDs: f.Charges}
}

type outboxList struct {
	database `embed:""`
	filter   `embed:""`
	rules    `embed:""`
	Limit    int `default:"50" help:"At most so many charges."`
}

// Validate refuses what cannot work.
func (c *outboxList) Validate() error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return fmt.Errorf("--limit must be from 1 to 10000")
	}
	return cmp.Or(c.filter.Validate(), c.rules.Validate(), c.database.Validate())
}

// Run prints a line for each piece of unfinished work, oldest first.
func (c *outboxList) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox", c.options())
	if err != nil {
		return err
	}
	defer b.close()
	lines, more, err := b.outbox.List(ctx, b.charges, c.filter.outbox(), uuid.Nil, c.Limit)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHARGE\tWORK\tCLASS\tAGE\tJOB\tRUNS\tNEXT RUN\tREASON")
	now := time.Now()
	for _, l := range lines {
		state, next := "none", "-"
		switch {
		case l.JobState != "":
			state, next = l.JobState, l.NextRun.UTC().Format(time.RFC3339)
		case !l.Wants:
			state = "not wanted"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.ChargeID, l.Kind, l.Class, now.Sub(l.CreatedAt).Round(time.Second), state, l.Attempt, next, shortReason(l.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more != uuid.Nil {
		fmt.Fprintf(os.Stderr, "there is more: raise --limit, or narrow with --since and --until\n")
	}
	return nil
}

// shortReason makes a reason fit at the end of a line.
func shortReason(reason string) string {
	const most = 100
	reason = strings.Join(strings.Fields(reason), " ")
	switch runes := []rune(reason); {
	case len(runes) == 0:
		return "-"
	case len(runes) > most:
		return string(runes[:most-1]) + "…"
	}
	return reason
}
