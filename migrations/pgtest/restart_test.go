package pgtest

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := started(t, Options{DataDir: made(t), Durable: true})
	url := s.URL("postgres")
	execute(t, url, `CREATE TABLE kept AS SELECT 42 AS answer`)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for range 2 {
		busy := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.Background(), `SELECT pg_sleep(60)`)
			busy <- err
		}()
		if err := s.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-busy; err == nil {
			t.Error("a session outlived the server")
		}
		if left, err := postgresIn(s.place.cluster()); err != nil || len(left) > 0 {
			t.Errorf("left after Kill: %v, %v", left, err)
		}
		if _, err := pgx.Connect(t.Context(), url); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connected to a killed server: %v", err)
		}
		select {
		case <-s.Done():
			t.Error("Done tells of a death that was asked for")
		default:
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.URL("postgres") != url {
			t.Errorf("moved from %s to %s", url, s.URL("postgres"))
		}
		if conn, err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if got := query[int](t, url, `SELECT answer FROM kept`); got != 42 {
			t.Errorf("read back %d", got)
		}
	}
	// One that runs is restarted as well.
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[int](t, url, `SELECT answer FROM kept`); got != 42 {
		t.Errorf("read back %d", got)
	}
	// The end of a killed server is as clean as any.
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	again := started(t, Options{DataDir: s.options.DataDir, Durable: true})
	query[int](t, again.URL("postgres"), `SELECT answer FROM kept`)
}

func TestPortOfAKilledServerIsHeld(t *testing.T) {
	t.Parallel()
	if !diesWithUs {
		t.Skip("only on Linux can a port be kept for another process")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	held, err := holdPort(port)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	// An outgoing connection binds without asking to share.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port was given away: %v", err)
	}
	// A server that asks may have it, as net.Listen does.
	listener, err := net.Listen("tcp4", "127.0.0.1:"+itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestOwnServerHasTheSchema(t *testing.T) {
	t.Parallel()
	s, url := Own(t)
	execute(t, url, `INSERT INTO api_token (id, name, role, hash) VALUES (gen_random_uuid(), 'shop', 'caller', sha256('x'))`)
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[int](t, url, `SELECT count(*) FROM api_token`); got != 1 {
		t.Errorf("%d rows", got)
	}
}
