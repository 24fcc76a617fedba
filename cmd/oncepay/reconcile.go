package main

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/oncepay/oncepay/charges"
)

type reconcileCommand struct {
	database `embed:""`
	Restored bool      `help:"The database was restored in a way that its server does not tell: from a snapshot of its disk, or from a dump that was read back into the same server. What may have been lost is looked for at Stripe before anything is sent. Say it before workers start on the restored data."`
	Since    time.Time `placeholder:"TIME" help:"What was written after it may be lost (RFC 3339): when the backup was made. Default: when a worker last ran on the data; right if none has run since the restore."`
	Because  string    `default:"declared by hand" placeholder:"TEXT" help:"What happened, for the record."`
	operator `embed:""`
}

// Validate refuses what cannot work.
func (c *reconcileCommand) Validate() error {
	switch {
	case !c.Restored:
		return errors.New("--restored is missing: to declare a restored database is all that reconcile can do yet")
	case len(c.Because) > 500 || !utf8.ValidString(c.Because):
		return errors.New("--because must be text of at most 500 bytes")
	case c.Since.After(time.Now()):
		return errors.New("--since has not come yet")
	}
	return c.database.Validate()
}

// Run writes the restoration down and says what follows.
func (c *reconcileCommand) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "reconcile", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	r, err := b.charges.DeclareRestored(ctx, c.Since, c.who(), c.Because)
	if errors.Is(err, charges.ErrSinceUnknown) {
		return usageError{fmt.Errorf("--since is needed: %w", err)}
	}
	if err != nil {
		return err
	}
	fmt.Printf("Restoration %d is on record. What was sent from %s to %s is looked for at Stripe before a charge is sent that has no attempt.\n",
		r.ID, r.LostFrom.UTC().Format(time.RFC3339), r.DetectedAt.UTC().Format(time.RFC3339))
	if c.Since.IsZero() {
		fmt.Println("If a worker has run since the restore, or the backup is older than that, say so again with --since.")
	}
	return nil
}
