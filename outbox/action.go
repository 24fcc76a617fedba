package outbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Action is something that an operator did.
type Action struct {
	Actor  string         // such as operator:ada
	Action string         // such as provider.pause
	Target string         // what it was done to
	Data   map[string]any // its reason, and whatever else belongs to it
}

// RecordAction writes an action down for good, in the transaction that does it.
func RecordAction(ctx context.Context, tx pgx.Tx, a Action) error {
	if a.Data == nil {
		a.Data = map[string]any{}
	}
	data, err := json.Marshal(a.Data)
	if err != nil {
		return fmt.Errorf("encode action %s: %w", a.Action, err)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO operator_action (actor, action, target, data) VALUES ($1, $2, $3, $4)`, a.Actor, a.Action, a.Target, data); err != nil {
		return fmt.Errorf("record action %s: %w", a.Action, err)
	}
	return nil
}
