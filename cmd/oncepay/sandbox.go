package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox"
)

type sandboxCommand struct {
	Listen  hostPort `default:"127.0.0.1:12111" placeholder:"HOST:PORT" help:"Where to listen: Stripe at /v1, SendGrid at /v3, controls at /_sandbox."`
	Journal string   `placeholder:"FILE" help:"Keep the state in this file over a restart; without it, it is kept in memory."`
}

// Run serves until the process is told to stop.
func (c *sandboxCommand) Run(ctx context.Context, log *slog.Logger) error {
	listener, err := net.Listen("tcp", string(c.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	fmt.Printf("sandbox http://%s\n", listener.Addr())
	return c.serve(ctx, listener, log)
}

func (c *sandboxCommand) serve(ctx context.Context, listener net.Listener, log *slog.Logger) (err error) {
	defer listener.Close()
	box, err := sandbox.New(sandbox.Options{JournalPath: c.Journal, Logger: log})
	if err != nil {
		return err
	}
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
