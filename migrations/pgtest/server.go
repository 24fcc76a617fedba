package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// startTimeout bounds Start after the programs were found: initdb, the end of an earlier run, and
// recovery from a crash.
const startTimeout = 2 * time.Minute

// Options say how to run a server.
type Options struct {
	// DataDir holds the cluster, its password and its log; required. It is made if it is not there, and
	// has to be empty or made by an earlier Start.
	//
	// As root, PostgreSQL runs as the user postgres (or nobody; or whoever owns the cluster). If that
	// user cannot reach DataDir, because a directory above it is closed, the data lives in a directory
	// of its own in /var/lib/oncepay, or in os.TempDir if DataDir is in there, and DataDir/location
	// names it. Removing DataDir is a fresh start in either case; in /var/lib the old data stays.
	DataDir string

	// Durable writes and syncs each commit, as PostgreSQL does by default. Without it, which is faster and
	// for tests, a crash of PostgreSQL may lose the last second's commits, and one of the operating
	// system the whole cluster. The death of this process loses nothing either way.
	Durable bool

	// Settings are settings of PostgreSQL beside the defaults and our own, such as "shared_buffers": "1GB". They cannot change what
	// the server is reached by. Default: none.
	Settings map[string]string

	// BinDir is the directory of PostgreSQL's programs. Default: where Find finds them; for an existing
	// cluster, programs of its version.
	BinDir string

	// Log hears of starts, stops and installations. Default: nothing.
	Log *slog.Logger

	pickPort func() (int, error) // for tests
}

// Server is a running PostgreSQL of ours. It ends with this process at the latest (on Linux).
type Server struct {
	place    *place
	log      *slog.Logger
	logFile  string
	options  Options
	programs programs
	port     int
	password string
	main     *postmaster
	held     io.Closer // keeps the port of a server that was killed; nil while it runs
}

// Start runs a PostgreSQL on options.DataDir and returns when it accepts connections. ctx bounds the
// start alone; the server runs until [Server.Stop]. If another living process has the data directory
// the error is [ErrInUse]; if there are no programs, [ErrNotFound]. A failed start's error ends with
// what postgres said.
func Start(ctx context.Context, options Options) (*Server, error) {
	log := options.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if options.DataDir == "" {
		return nil, errors.New("start PostgreSQL: no data directory given")
	}
	s, err := start(ctx, options, log)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, options Options, log *slog.Logger) (*Server, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	place, err := openPlace(ctx, options.DataDir, as)
	if err != nil {
		return nil, err
	}
	s, err := startAt(ctx, place, options, log)
	if err != nil {
		place.release()
		return nil, err
	}
	return s, nil
}

func startAt(ctx context.Context, place *place, options Options, log *slog.Logger) (*Server, error) {
	want, err := madeBy(place.cluster())
	if err != nil {
		return nil, err
	}
	pg, err := choose(ctx, options.BinDir, want, place.as, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if want == 0 {
		if err := initCluster(ctx, place, pg, options.Durable); err != nil {
			return nil, err
		}
	} else if err := stopLeftovers(ctx, place.cluster(), log); err != nil {
		return nil, err
	}
	password, err := readPassword(place)
	if err != nil {
		return nil, err
	}
	s := &Server{place: place, log: log, options: options, programs: pg, password: password, logFile: place.file(logName)}
	if err := s.launch(ctx, pg, options); err != nil {
		return nil, err
	}
	log.InfoContext(ctx, "postgres runs", "version", pg.major, "port", s.port, "pid", s.main.process.Pid, "data", place.dir)
	return s, nil
}

// choose returns the programs in dir, or else those that find finds.
func choose(ctx context.Context, dir string, want int, as account, log *slog.Logger) (programs, error) {
	if dir == "" {
		ctx, cancel := context.WithTimeout(ctx, findTimeout)
		defer cancel()
		return find(ctx, want, as, log)
	}
	pg, err := inspect(ctx, dir, as)
	if err == nil && want != 0 && pg.major != want {
		err = fmt.Errorf("%s is PostgreSQL %d, and the data directory was made by PostgreSQL %d", dir, pg.major, want)
	}
	return pg, err
}

// URL returns the address of a database on this server. It holds the password, and names everything
// that PG* variables could set otherwise, as far as a URL can.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// CreateDatabase makes an empty database unless there is one of that name.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "42P04" { // duplicate_database
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// Dir returns where the data is: DataDir, or its stand-in.
func (s *Server) Dir() string { return s.place.dir }

// Done is closed when the server has died without being asked to; [Server.Err] says how.
func (s *Server) Done() <-chan struct{} { return s.main.died }

// Err returns why the server died, with the last lines of its log; nil while Done is open.
func (s *Server) Err() error {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	return s.main.err
}

// Stop ends the server: connections are cut, data is written. If that takes more than 10 s, or ctx
// ends, it is cut short, and the next start recovers. The data directory is free afterwards. Stopping
// a server that has died, or been stopped, is fine.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.main.end(ctx, s.log); err != nil {
		return err
	}
	s.place.release()
	return s.letGo()
}
