package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"

	"github.com/oncepay/oncepay/outbox"
)

type outboxCommand struct {
	List   outboxList   `cmd:"" help:"List what is unfinished, and the job that will do it."`
	Replay outboxReplay `cmd:"" help:"Give a live job to everything that wants one and has none. Shows what it would do; --apply does it."`
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
	Limit    int `default:"50" help:"At most so many charges."`
}

// Validate refuses what cannot work.
func (c *outboxList) Validate() error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return fmt.Errorf("--limit must be from 1 to 10000")
	}
	return cmp.Or(c.filter.Validate(), c.database.Validate())
}

// Run prints a line for each piece of unfinished work, oldest first.
func (c *outboxList) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox")
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

type outboxReplay struct {
	database `embed:""`
	filter   `embed:""`
	Apply    bool   `help:"Do it."`
	Who      string `env:"ONCEPAY_OPERATOR" help:"Who does it, for the audit row. Default: the user of this machine."`
}

// Validate refuses what cannot work.
func (c *outboxReplay) Validate() error {
	return cmp.Or(c.filter.Validate(), c.database.Validate())
}

// Run counts by class what is there, and with --apply enqueues what wants a job and has none.
func (c *outboxReplay) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "outbox")
	if err != nil {
		return err
	}
	defer b.close()
	preview, err := b.outbox.Preview(ctx, b.charges, c.filter.outbox())
	if err != nil {
		return err
	}
	if !c.Apply {
		if err := printReport(preview); err != nil {
			return err
		}
		fmt.Printf("\n%d jobs would be written. Nothing was changed; --apply does it.\n", preview.Enqueued)
		return nil
	}
	progress, finish := showProgress(preview.Unfinished())
	report, err := b.outbox.Replay(ctx, b.charges, c.filter.outbox(), c.who(), progress)
	finish(err == nil)
	if err != nil {
		return fmt.Errorf("replay was cut short after %d jobs, and may be run again: %w", report.Enqueued, err)
	}
	if err := printReport(report); err != nil {
		return err
	}
	fmt.Printf("\n%d jobs were written.\n", report.Enqueued)
	return nil
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

func (c *outboxReplay) who() string {
	if c.Who != "" {
		return "operator:" + c.Who
	}
	if u, err := user.Current(); err == nil {
		return "operator:" + u.Username
	}
	return "operator:uid-" + fmt.Sprint(os.Getuid())
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

func printReport(r outbox.Report) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLASS\tCOUNT\tWHAT HAPPENS")
	for _, class := range outbox.Classes {
		if n := r.Counts[class]; n > 0 {
			fmt.Fprintf(w, "%s\t%d\t%s\n", class, n, meaning[class])
		}
	}
	return w.Flush()
}
