package pgtest

import (
	"context"
	"fmt"
	"syscall"
)

// Kill ends the server as a crash does: postmaster and sessions get SIGKILL, nothing is written, clients see their connections
// break. It returns when all of them are gone. The data directory stays ours, and the port, where nobody listens, until
// [Server.Restart]; Done stays open. A server that is killed loses no commit only with [Options].Durable. Kill, Restart and Stop
// must not be called at the same time.
func (s *Server) Kill(ctx context.Context) error {
	if err := s.kill(ctx); err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	return nil
}

func (s *Server) kill(ctx context.Context) error {
	s.main.expectEnd()
	// The sessions are listed while their postmaster lives: once it is dead, they are ending by themselves.
	doomed, err := postgresIn(s.place.cluster())
	if err != nil {
		return err
	}
	for _, p := range append([]process{{pid: s.main.process.Pid}}, doomed...) {
		if err := signalProcess(p.pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	select {
	case <-s.main.exited:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Those that were being forked meanwhile notice the death themselves.
	if err := waitGone(ctx, s.place.cluster(), startTimeout); err != nil {
		return err
	}
	if s.held == nil {
		s.held, err = holdPort(s.port)
	}
	return err
}

// Restart runs the server again, on the same data and port, and so at the same URL. One that still runs is stopped first, as by
// [Server.Stop]. ctx bounds it.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.restart(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL: %w", err)
	}
	return nil
}

func (s *Server) restart(ctx context.Context) error {
	if err := s.main.end(ctx, s.log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	options := s.options
	options.pickPort = func() (int, error) { return s.port, nil }
	if err := s.launch(ctx, s.programs, options); err != nil {
		return err
	}
	return s.letGo()
}

// letGo ends the claim on the port of a server that was killed.
func (s *Server) letGo() error {
	if s.held == nil {
		return nil
	}
	held := s.held
	s.held = nil
	return held.Close()
}
