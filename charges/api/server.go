package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of one connection.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second // header and body
	writeTimeout      = 2 * time.Minute  // from the header to the last byte: authentication, body, commit, the longest wait, answer
	idleTimeout       = 2 * time.Minute  // above that of common load balancers, which would reuse a connection that we close
	maxHeaderBytes    = 32 << 10
	shutdownTimeout   = 30 * time.Second // a commit takes at most 15 s
)

// Server returns an HTTP server of the API with a bound on everything that a client can make last. Whoever starts it
// instead of calling [API.Serve] also stops it.
func (a *API) Server() *http.Server {
	return &http.Server{
		Handler:           a,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
}

// Serve answers requests that arrive at listener until ctx ends. Then it accepts no more, ends the waits that
// clients preferred (they get the charge as it is), lets all other requests finish, at most 30 s long, and
// returns nil; it returns an error if some had to be cut off, or if the listener fails. It closes listener. An API serves once: its
// waits stay ended.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	server := a.Server()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	a.stop()
	// Shutdown's own context: the caller's has ended.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return fmt.Errorf("stop serving: %w", errors.Join(err, server.Close()))
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
