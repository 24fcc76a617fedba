package bench

// Drained is how a backlog was worked off.
type Drained struct{}
