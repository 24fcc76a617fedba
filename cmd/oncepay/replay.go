package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"

	"github.com/oncepay/oncepay/outbox"
)

type outboxReplay struct {
	database `embed:""`
	filter   `embed:""`
	operator `embed:""`
	rules    `embed:""`
	Apply    bool      `help:"Do it."`
	Resend   bool      `name:"resend-unknown-receipts" help:"Send the receipts once more that are unknown now; their buyers may get two mails."`
	Rate     perSecond `default:"1000/s" placeholder:"N/s" help:"Most jobs written per second."`
}

// Validate refuses what cannot work.
func (c *outboxReplay) Validate() error {
	return cmp.Or(c.filter.Validate(), c.rules.Validate(), c.database.Validate())
}

// Run counts by class what is there, and with --apply enqueues what wants a job and has none.
func (c *outboxReplay) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox", c.options())
	if err != nil {
		return err
	}
	defer b.close()
	preview, err := b.outbox.Preview(ctx, b.charges, c.filter.outbox())
	if err != nil {
		return err
	}
	if !c.Apply {
		if err := c.printReport(preview); err != nil {
			return err
		}
		if c.Resend {
			fmt.Printf("\n%d unknown receipts would be sent again.", preview.Counts[outbox.ReceiptUnknown])
		}
		fmt.Printf("\n%d jobs would be written. Nothing was changed; --apply does it.\n", preview.Enqueued)
		return nil
	}
	progress, finish := showProgress(preview.Unfinished())
	report, err := b.outbox.ReplayAt(ctx, b.charges, c.filter.outbox(), c.who(), float64(c.Rate), progress)
	finish(err == nil)
	if err != nil {
		return fmt.Errorf("replay was cut short after %d jobs, and may be run again: %w", report.Enqueued, err)
	}
	if err := c.printReport(report); err != nil {
		return err
	}
	fmt.Printf("\n%d jobs were written.\n", report.Enqueued)
	if !c.Resend {
		return nil
	}
	n, err := b.charges.ResendUnknown(ctx, c.filter.outbox(), "outbox replay --resend-unknown-receipts", c.who())
	fmt.Printf("%d unknown receipts are sent again.\n", n)
	return err
}

// showProgress draws a bar of n pieces of work for whoever sits at a terminal; a log file is spared it.
func showProgress(n int64) (progress func(outbox.Report), finish func(done bool)) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, func(bool) {}
	}
	bar := progressbar.NewOptions64(n, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("replay"),
		progressbar.OptionShowCount(), progressbar.OptionSetWidth(40))
	progress = func(r outbox.Report) {
		// What arrives meanwhile is met as well, so the bar's end moves with it.
		if n := r.Unfinished(); n > bar.GetMax64() {
			bar.ChangeMax64(n)
		}
		_ = bar.Set64(r.Unfinished()) // a bar that cannot be drawn stops nobody
	}
	return progress, func(done bool) {
		if done {
			_ = bar.Finish()
		}
		fmt.Fprintln(os.Stderr)
	}
}

// meaning says what a replay does about each class.
var meaning = map[outbox.Class]string{
	outbox.NeverSent:      "send",
	outbox.InWindow:       "send again under the same key",
	outbox.PastWindow:     "look at Stripe first",
	outbox.PastSendBefore: "cancel: its time is over",
	outbox.ReceiptWaiting: "mail the receipt",
	outbox.ReceiptSending: "settle the claim; it is not mailed again",
	outbox.Live:           "nothing: it has a live job",
	outbox.AtProvider:     "ask Stripe from time to time",
	outbox.NeedsReview:    "nothing: a person has the next word",
	outbox.ReceiptUnknown: "nothing: it may have been mailed",
	outbox.Settled:        "nothing: it is final",
}

func (c *outboxReplay) printReport(r outbox.Report) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLASS\tCOUNT\tWHAT HAPPENS")
	for _, class := range outbox.Classes {
		if n := r.Counts[class]; n > 0 {
			what := meaning[class]
			if class == outbox.ReceiptUnknown && c.options().Receipts.Resend {
				what = "mail again unless an event settles it, up to twice; then a person has the next word"
			}
			fmt.Fprintf(w, "%s\t%d\t%s\n", class, n, what)
		}
	}
	return w.Flush()
}
