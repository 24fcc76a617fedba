package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	portAttempts  = 5                      // another process may take the port that we picked, but not five times
	memoryRetry   = 250 * time.Millisecond // between looks whether shared memory of the last run is free
	pollReady     = 10 * time.Millisecond
	logLimit      = 8 << 20 // bytes of postgres.log, beyond which a start sets it aside
	linesInErrors = 10
)

var errExited = errors.New("postgres ended")

// launch runs postgres, again where what stopped it can pass: a port that was taken, or backends of a
// killed postmaster that are still on their way out.
func (s *Server) launch(ctx context.Context, pg programs, options Options) error {
	pickPort := options.pickPort
	if pickPort == nil {
		pickPort = freePort
	}
	for attempt := 1; ; {
		port, err := pickPort()
		if err != nil {
			return err
		}
		if s.port != port { // a restart writes nothing that URL reads
			s.port = port
		}
		said, err := s.launchOnce(ctx, pg, options)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errExited):
			return err
		case strings.Contains(said, "could not create any TCP/IP sockets") && attempt < portAttempts:
			attempt++
		case strings.Contains(said, "pre-existing shared memory block"):
			select {
			case <-ctx.Done():
				return err
			case <-time.After(memoryRetry):
			}
		default:
			return err
		}
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

func settings(cluster string, port int, options Options) []string {
	args := []string{"-D", cluster}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	for _, name := range slices.Sorted(maps.Keys(options.Settings)) {
		set(name, options.Settings[name]) // first, since the last of two that are alike counts
	}
	set("cluster_name", clusterName(cluster))
	set("update_process_title", "on") // cluster_name has to show
	set("listen_addresses", "127.0.0.1")
	set("port", strconv.Itoa(port))
	set("unix_socket_directories", "") // a path in a data directory may be too long for a socket
	set("max_connections", "200")
	set("logging_collector", "off")
	set("log_destination", "stderr")
	set("lc_messages", "C") // launch reads them
	set("timezone", "UTC")
	set("log_timezone", "UTC")
	if !options.Durable {
		set("fsync", "off")
		set("synchronous_commit", "off")
		set("full_page_writes", "off")
	}
	return args
}

// launchOnce runs postgres and waits until it accepts connections. On failure it has ended, and said
// is what it wrote.
func (s *Server) launchOnce(ctx context.Context, pg programs, options Options) (said string, err error) {
	log, offset, err := openLog(s.logFile, s.place.as)
	if err != nil {
		return "", err
	}
	defer log.Close() // the child has its own descriptor
	read := func() string { return readFrom(s.logFile, offset) }

	cluster := s.place.cluster()
	// Not bound to ctx: that is about the start, and the server goes on.
	cmd := s.place.as.command(context.Background(), pg.path("postgres"), settings(cluster, s.port, options)...)
	cmd.Stdout, cmd.Stderr = log, log
	// If we are killed: fast shutdown. SIGKILL would leave backends behind.
	cmd.SysProcAttr = processAttributes(s.place.as, syscall.SIGINT)
	before := time.Now()
	s.main, err = startPostmaster(cmd, read)
	if err != nil {
		return "", fmt.Errorf("run postgres as %s: %w", s.place.as, err)
	}
	if err := s.awaitReady(ctx, cluster, before); err != nil {
		endErr := s.main.end(context.WithoutCancel(ctx), s.log)
		said := read()
		return said, errors.Join(fmt.Errorf("%w\n%s", err, lastLines(said, linesInErrors)), endErr)
	}
	return "", nil
}

// awaitReady does what pg_ctl does: the pid file says when the postmaster is ready, and whose it is,
// where a connection could reach a stranger on the same port. A file from before the start is an
// earlier run's, even if pids have come round to the same number.
func (s *Server) awaitReady(ctx context.Context, cluster string, before time.Time) error {
	tick := time.NewTicker(pollReady)
	defer tick.Stop()
	for {
		file, err := readPidFile(cluster)
		if err != nil {
			return err
		}
		if file.ready && file.pid == s.main.process.Pid && !file.started.Before(before.Truncate(time.Second)) {
			return s.ping(ctx)
		}
		select {
		case <-s.main.exited:
			return errExited
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// ping proves that URL works.
func (s *Server) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the postgres just started: %w", err)
	}
	return conn.Close(ctx)
}

// openLog opens postgres's log for appending and returns its length.
func openLog(path string, as account) (*os.File, int64, error) {
	if info, err := os.Lstat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, 0, err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil {
		err = as.own(path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// readFrom returns what the log holds from offset on, at most 64 KiB of its end. It is for errors, so
// its own errors are part of the text.
func readFrom(path string, offset int64) string {
	content, err := func() ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		const most = 64 << 10
		return io.ReadAll(io.NewSectionReader(file, max(offset, info.Size()-most), most))
	}()
	if err != nil {
		return fmt.Sprintf("(the log cannot be read: %v)", err)
	}
	return string(content)
}
