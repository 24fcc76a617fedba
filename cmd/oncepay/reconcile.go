package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/oncepay/oncepay/charges"
)

type reconcileCommand struct {
	database `embed:""`
	Restored bool      `help:"The database was restored in a way that its server does not tell: from a snapshot of its disk, or from a dump that was read back into the same server. What may have been lost is looked for at Stripe before anything is sent. Say it before workers start on the restored data."`
	Lost     bool      `help:"List the payments that were found at Stripe in what a restore has lost, and for whose keys nobody has come back: have their callers send them again, and refund only what will never be sent. Another deployment's at the same account are among them."`
	GiveUp   bool      `help:"What was not read yet of what restores have lost never will be, as where nobody has the key of that Stripe account any more: hold nothing back for it. Buyers whose payments were lost there may be charged again."`
	Limit    int       `default:"100" help:"With --lost: at most so many."`
	JSON     bool      `name:"json" help:"With --lost: as JSON, for programs."`
	Since    time.Time `placeholder:"TIME" help:"What was written after it may be lost (RFC 3339): when the backup was made. Default: when a worker last ran on the data; right if none has run since the restore."`
	Because  string    `default:"declared by hand" placeholder:"TEXT" help:"What happened, for the record."`
	operator `embed:""`
}

// Validate refuses what cannot work.
func (c *reconcileCommand) Validate() error {
	switch {
	case c.Restored && c.Lost || c.Restored && c.GiveUp || c.Lost && c.GiveUp:
		return errors.New("--restored, --lost and --give-up cannot be had at once")
	case !c.Restored && !c.Lost && !c.GiveUp:
		return errors.New("--restored or --lost is missing: to declare a restored database and to list what it has lost is all that reconcile can do yet")
	case c.Limit < 1 || c.Limit > maxLost:
		return fmt.Errorf("--limit must be from 1 to %d", maxLost)
	case len(c.Because) > 500 || !utf8.ValidString(c.Because):
		return errors.New("--because must be text of at most 500 bytes")
	case c.Since.After(time.Now()):
		return errors.New("--since has not come yet")
	}
	return c.database.Validate()
}

const maxLost = 10_000

// Run writes the restoration down and says what follows, or lists what was lost.
func (c *reconcileCommand) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "reconcile", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	if c.Lost {
		return c.list(ctx, b)
	}
	if c.GiveUp {
		n, err := b.charges.GiveUpLost(ctx, c.who(), c.Because)
		if err == nil {
			fmt.Printf("What %d restores have lost and nobody has read is given up.\n", n)
		}
		return err
	}
	r, err := b.charges.DeclareRestored(ctx, c.Since, c.who(), c.Because)
	if errors.Is(err, charges.ErrSinceUnknown) {
		return usageError{fmt.Errorf("--since is needed: %w", err)}
	}
	if err != nil {
		return err
	}
	fmt.Printf("Restoration %d is on record. What was sent from %s to %s is looked for at Stripe before a charge is sent that has no attempt.\n",
		r.ID, r.LostFrom.UTC().Format(time.RFC3339), r.DetectedAt.UTC().Format(time.RFC3339))
	fmt.Println("oncepay reconcile --lost lists what was paid for and lost, as workers read it: what succeeded there is a buyer who has paid for what nobody knows.")
	if c.Since.IsZero() {
		fmt.Println("If a worker has run since the restore, or the backup is older than that, say so again with --since.")
	}
	return nil
}

func (c *reconcileCommand) list(ctx context.Context, b *backend) error {
	unread, _, err := b.charges.Unread(ctx)
	if err != nil {
		return err
	}
	lost, err := b.charges.LostPayments(ctx, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(struct {
			Lost []charges.LostPayment `json:"lost"`
			Read bool                  `json:"read"` // all that there is to know
		}{append([]charges.LostPayment{}, lost...), len(unread) == 0})
	}
	if len(lost) == 0 {
		fmt.Println("Nothing that is known of.")
	} else {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "PAYMENT\tKEY\tSTATUS\tAMOUNT\tCURRENCY\tREAD AT")
		for _, p := range lost {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", p.Payment, p.Key, p.Status, p.Amount, p.Currency, stamp(p.ReadAt))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(lost) == c.Limit {
		fmt.Fprintln(os.Stderr, "there may be more: raise --limit")
	}
	for _, r := range unread {
		fmt.Fprintf(os.Stderr, "what was lost by the restore of %s is still being read: workers do that within a minute, and once more a quarter of an hour after it was found\n", stamp(r.DetectedAt))
	}
	return nil
}
