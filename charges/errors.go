package charges

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// What can be wrong with a call that is well formed.
var (
	ErrNotFound = errors.New("not found")
	ErrKeyInUse = errors.New("idempotency key in use: another request with it is being handled")
)

// KeyReusedError says that an idempotency key was used before for another request.
type KeyReusedError struct {
	Fields []string // names of the members that differ; empty where the key is another caller's
}

func (e *KeyReusedError) Error() string { return "idempotency key reused for another request" }

// ReferenceInUseError says that the caller's reference belongs to a charge that is open or succeeded.
type ReferenceInUseError struct {
	ChargeID uuid.UUID
	Charge   Charge
}

func (e *ReferenceInUseError) Error() string {
	return fmt.Sprintf("reference in use by charge %s", e.ChargeID)
}
