package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox"
)

type sandboxCommand struct {
	Listen  hostPort `default:"127.0.0.1:12111" placeholder:"HOST:PORT" help:"Where to listen: Stripe at /v1, SendGrid at /v3, controls at /_sandbox."`
	Journal string   `placeholder:"FILE" help:"Keep the state in this file over a restart; its directory must exist. Without it, it is kept in memory."`
}

// Validate refuses a journal in a directory that is not there: it is likelier a slip than a wish.
func (c *sandboxCommand) Validate() error {
	if c.Journal == "" {
		return nil
	}
	dir := filepath.Dir(c.Journal)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--journal: there is no directory %s", dir)
	}
	return nil
}

// Run serves until the process is told to stop.
func (c *sandboxCommand) Run(ctx context.Context, log *slog.Logger) error {
	listener, err := net.Listen("tcp", string(c.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	box, err := sandbox.New(sandbox.Options{JournalPath: c.Journal, Logger: log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Printf("sandbox http://%s\n", listener.Addr())
	return serveSandbox(ctx, box, listener, log)
}

// serveSandbox serves until ctx ends, and closes the box.
func serveSandbox(ctx context.Context, box *sandbox.Sandbox, listener net.Listener, log *slog.Logger) (err error) {
	defer listener.Close()
	defer func() { err = errors.Join(err, box.Close()) }()
	server := &http.Server{Handler: box, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	select {
	case err := <-serving:
		return err
	case <-ctx.Done():
	}
	// Requests that a fault holds back are cut off: nobody waits for a simulator.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return server.Close()
	}
	return nil
}
