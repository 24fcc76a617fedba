package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/migrations"
	"github.com/oncepay/oncepay/outbox"
)

type migrateCommand struct {
	database `embed:""`
	Timeout  time.Duration `default:"5m" help:"How long to wait for a database that is away, and for other migrations."`
}

// Run brings the schema up to date. It may run at any time, any number of times, many at once.
func (c *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	applied, err := c.up(ctx, log)
	if err != nil {
		return err
	}
	if err := c.noteIdentity(ctx, log); err != nil {
		return fmt.Errorf("the schema is up to date, but not where the data is: %w", err)
	}
	if len(applied) == 0 {
		fmt.Fprintln(os.Stdout, "the schema is up to date")
		return nil
	}
	for _, name := range applied {
		fmt.Fprintln(os.Stdout, "applied", name)
	}
	return nil
}

// noteIdentity notes where the data is, as workers do every second: a backup that was made before the first of them ran could else be restored unnoticed.
func (c *migrateCommand) noteIdentity(ctx context.Context, log *slog.Logger) error {
	b, err := c.open(ctx, "migrate", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	detected, err := b.charges.ConfirmIdentity(ctx)
	if err != nil && b.charges.Blind() {
		log.Warn("restoration.undetectable", "error", err)
		return nil
	}
	if detected != nil {
		detected.Report(log)
	}
	return err
}

// up migrates as soon as the database can be asked, and gives up when the time is over.
func (c *migrateCommand) up(ctx context.Context, log *slog.Logger) (applied []string, err error) {
	const pause = time.Second
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var why error // the last try's, unless it was cut short by the time itself
	for {
		names, err := migrations.Up(ctx, c.DatabaseURL, log)
		applied = append(applied, names...)
		if err == nil || !outbox.Unavailable(err) {
			return applied, err
		}
		if why == nil {
			log.Warn("database.wait", "timeout", c.Timeout.String(), "error", oneLine(err.Error()))
		}
		// A dial keeps an eye on the time by itself, and may be cut short before ctx is.
		if deadline, _ := ctx.Deadline(); why == nil || ctx.Err() == nil && time.Now().Before(deadline) {
			why = err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return applied, fmt.Errorf("gave up waiting (--timeout=%s): %w", c.Timeout, why)
		}
	}
}
