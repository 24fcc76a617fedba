package outbox

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// unavailableClasses are the SQLSTATE classes by which PostgreSQL says that it cannot serve now, whatever it is asked
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
var unavailableClasses = map[string]bool{
	"08": true, // connection exception
	"40": true, // rolled back for the sake of others, more often than InTx tries
	"53": true, // insufficient resources: connections, memory, disk
	"57": true, // operator intervention: starting, stopping, statement timeout
	"58": true, // system error outside of PostgreSQL, such as a disk that cannot be written
}

// readOnly is what a primary that has become a standby answers to a write.
const readOnly = "25006"

// unreachable tells whether err is of the connection, the server or its resources, and so of everything that is asked now, or leaves it in
// doubt what became of what was asked. What PostgreSQL says of a statement (that it took too long, was canceled, met a broken page) may be one row's.
func unreachable(err error) bool {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && !errors.Is(err, ErrInDoubt) && len(pgErr.Code) == 5 {
		return pgErr.Code == readOnly || strings.HasPrefix(pgErr.Code, "08") || strings.HasPrefix(pgErr.Code, "53") || strings.HasPrefix(pgErr.Code, "57P")
	}
	return Unavailable(err)
}

// Unavailable tells whether err means that the database could not be asked, or that its answer was lost, rather than that it
// refused: the same request may work later. It says nothing about whether a write took effect; see [ErrInDoubt].
// A caller that gave up ([context.Canceled]) is no fault of the database.
func Unavailable(err error) bool {
	pgErr, connect, network := (*pgconn.PgError)(nil), (*pgconn.ConnectError)(nil), net.Error(nil)
	switch {
	case errors.Is(err, ErrInDoubt), errors.Is(err, ErrNoConnection), errors.Is(err, ErrPooler):
		return true
	case errors.As(err, &connect): // whatever the reason (no server, wrong password, no such database), there is none to ask
		return true
	case errors.As(err, &pgErr):
		return len(pgErr.Code) == 5 && (unavailableClasses[pgErr.Code[:2]] || pgErr.Code == readOnly)
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &network): // a deadline of the context, or of the network, is one too
		return true
	}
	for _, target := range []error{puddle.ErrClosedPool, pgconn.ErrConnClosed, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
