package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/oncepay/oncepay/migrations"
)

type migrateCommand struct {
	database `embed:""`
	Timeout  time.Duration `default:"5m" help:"How long to wait for the database, other migrations and locks."`
}

// Run brings the schema up to date. It may run at any time, any number of times, many at once.
func (c *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	applied, err := migrations.Up(ctx, c.DatabaseURL, log)
	if err != nil {
		return err
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
