package migrations

// For tests, which are outside the package because pgtest imports it.
var (
	UpFrom      = up
	PendingFrom = pending
	Load        = load
	Embedded    = embedded
)
