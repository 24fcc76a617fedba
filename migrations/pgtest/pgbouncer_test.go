package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestPgBouncerKeepsNoSession(t *testing.T) {
	t.Parallel()
	direct := URL(t)
	b := PgBouncer(t, direct)
	if got := query[int](t, b.URL, `SELECT count(*) FROM charge`); got != 0 {
		t.Errorf("%d charges", got)
	}
	conn, err := pgx.Connect(t.Context(), b.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var pid uint32
	if err := conn.QueryRow(t.Context(), `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if pid == conn.PgConn().PID() {
		t.Error("the session is PostgreSQL's own")
	}
	b.Stop()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection outlived PgBouncer")
	}
	b.Start()
	if got := query[int](t, b.URL, `SELECT 1`); got != 1 {
		t.Errorf("after a restart: %d", got)
	}
}
