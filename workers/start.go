package workers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncepay/oncepay/outbox"
)

// startAgain is how long a start waits for a database that is away.
const startAgain = time.Second

// startClient starts to fetch jobs. River asks the database first and gives up at once if that is away, as it may be again since somebody
// has waited for it; here it is waited for, until ctx ends. The jobs outlive ctx.
func startClient(ctx context.Context, client *river.Client[pgx.Tx], log *slog.Logger) error {
	for said := false; ; said = true {
		err := client.Start(context.WithoutCancel(ctx))
		if err == nil {
			return nil
		}
		if !outbox.Unavailable(err) {
			return fmt.Errorf("start workers: %w", err)
		}
		if !said {
			log.Warn("workers.wait", "error", err)
		}
		select {
		case <-time.After(startAgain):
		case <-ctx.Done():
			return fmt.Errorf("start workers: %w", ctx.Err())
		}
	}
}
