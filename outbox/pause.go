package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const setPause = `
UPDATE provider
   SET paused_by = nullif($2, ''), paused_because = nullif($3, ''), paused_at = CASE WHEN $2 <> '' THEN clock_timestamp() END
 WHERE name = $1`

// PausedError says that somebody else has paused a provider already, whose reason a second pause would hide.
type PausedError struct{ Health }

func (e *PausedError) Error() string {
	return fmt.Sprintf("%s is paused already, by %s since %s: %s", e.Provider, e.PausedBy, e.PausedAt.UTC().Format(time.RFC3339), e.PausedBecause)
}

// PauseProvider stops everything that calls a provider until somebody resumes it; its recovery from an outage does not. It is a [*PausedError] if
// that was done before, in other words.
func (o *Outbox) PauseProvider(ctx context.Context, p Provider, actor, because string) (h Health, err error) {
	err = InTx(ctx, o.pool, "provider.operator_pause", func(tx pgx.Tx) error {
		before, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		switch {
		case before.PausedBy == actor && before.PausedBecause == because:
			h = before.Health // said again, as by somebody whose command was killed
			return nil
		case before.PausedBy != "":
			return &PausedError{before.Health}
		}
		if _, err := tx.Exec(ctx, setPause, p, actor, because); err != nil {
			return fmt.Errorf("pause %s: %w", p, err)
		}
		r, err := readProvider(ctx, tx, p, "")
		if err != nil {
			return err
		}
		h = r.Health
		if err := o.setQueues(ctx, tx, h); err != nil {
			return err
		}
		return RecordAction(ctx, tx, Action{Actor: actor, Action: "provider.pause", Target: string(p), Data: map[string]any{"because": because}})
	})
	return h, err
}

// ResumeProvider takes an operator's pause back. What waited is backlog, so that new charges do not wait behind it. If the provider is in an
// outage as well, its queues stay paused until that is over. paused is false if there was no pause, and nothing was done.
func (o *Outbox) ResumeProvider(ctx context.Context, p Provider, actor, because string) (h Health, paused bool, err error) {
	if h, err = o.Health(ctx, p); err != nil || h.PausedBy == "" {
		return h, false, err
	}
	if h.Outage == "" || h.Trial() {
		if err := o.clearFor(ctx, h); err != nil {
			return h, false, err
		}
	}
	err = InTx(ctx, o.pool, "provider.operator_resume", func(tx pgx.Tx) error {
		before, err := lockProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		h, paused = before.Health, before.PausedBy != ""
		if !paused {
			return nil
		}
		if _, err := tx.Exec(ctx, setPause, p, "", ""); err != nil {
			return fmt.Errorf("resume %s: %w", p, err)
		}
		r, err := readProvider(ctx, tx, p, "")
		if err != nil {
			return err
		}
		h = r.Health
		if err := o.run(ctx, tx, h); err != nil {
			return err
		}
		data := map[string]any{"paused_by": before.PausedBy, "paused_because": before.PausedBecause, "paused_at": before.PausedAt}
		if because != "" {
			data["because"] = because
		}
		return RecordAction(ctx, tx, Action{Actor: actor, Action: "provider.resume", Target: string(p), Data: data})
	})
	return h, paused, err
}
