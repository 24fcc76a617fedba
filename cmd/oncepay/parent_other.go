//go:build !linux

package main

import "context"

func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
