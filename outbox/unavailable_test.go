package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/outbox"
)

func TestI8UnavailableByCause(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code, Message: "m"} }
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                   {nil, false},
		"commit in doubt":            {fmt.Errorf("commit x: %w: %w", outbox.ErrInDoubt, io.EOF), true},
		"deadline":                   {context.DeadlineExceeded, true},
		"caller gave up":             {context.Canceled, false},
		"connection refused":         {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		"connection broken":          {io.ErrUnexpectedEOF, true},
		"connection closed":          {pgconn.ErrConnClosed, true},
		"protocol: connection":       {state("08006"), true},
		"serialization failure":      {state("40001"), true},
		"deadlock":                   {state("40P01"), true},
		"disk full":                  {state("53100"), true},
		"too many connections":       {state("53300"), true},
		"statement timeout":          {state("57014"), true},
		"admin shutdown":             {state("57P01"), true},
		"starting up":                {state("57P03"), true},
		"I/O error":                  {state("58030"), true},
		"read-only primary":          {state("25006"), true},
		"other transaction state":    {state("25P02"), false},
		"lock timeout":               {state("55P03"), false},
		"unique violation":           {state("23505"), false},
		"undefined table":            {state("42P01"), false},
		"raised":                     {state("P0001"), false},
		"no rows":                    {pgx.ErrNoRows, false},
		"refused, rollback lost too": {errors.Join(state("P0001"), io.EOF), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.err
			if err != nil {
				err = fmt.Errorf("find charge: %w", err)
			}
			if got := outbox.Unavailable(err); got != tc.want {
				t.Errorf("Unavailable(%v) = %t", err, got)
			}
		})
	}
}

// The errors of pgx itself, as they come where nobody listens, where nobody answers, and from a pool that is closed.
func TestI8UnavailableServers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	silent := listener.Addr().String() // accepts in the kernel's backlog, and never answers
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}

	for name, tc := range map[string]struct {
		address string
		shut    bool
	}{
		"nobody listens":  {nobody, false},
		"nobody answers":  {silent, false},
		"the pool closed": {nobody, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			pool, err := pgxpool.New(ctx, "postgres://u:p@"+tc.address+"/d?sslmode=disable")
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if tc.shut {
				pool.Close()
			}
			err = outbox.InTx(ctx, pool, "test", func(pgx.Tx) error { return nil })
			if !outbox.Unavailable(err) {
				t.Errorf("available after %v", err)
			}
		})
	}
}
