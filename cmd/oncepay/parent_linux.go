package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// withParent ends with the go command that runs us, if there is one: `go run` does not hand a kill on to what it runs,
// and would leave it behind. Whoever else has started us may well end before us.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || strings.TrimSpace(string(name)) != "go" {
		return ctx, cancel
	}
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}
